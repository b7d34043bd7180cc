//! Weighted averages of models in probability space: Σ wᵢ pᵢ(x).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chain::PassedOn;
use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{Model, check};
use crate::error::Result;
use crate::math::exp::{exp_f64, ln_f64};
use crate::math::simd::vectorized;
use crate::math::softmax;

/// A mixture of fitted models with probabilities Σ wᵢ pᵢ(x), where w > 0 and Σw = 1.
///
/// The distributions that rank the classes as the scores do form a convex set, so a mixture of order-preserving models is
/// order-preserving. Fold ensembles and [`Auto`](crate::Auto) are such mixtures.
///
/// ```
/// use ordercal::models::{MixtureModel, TsModel};
/// use ordercal::{Model, ScoreKind};
///
/// let sharp = Model::from(TsModel::new(2, 2.0)?);
/// let flat = Model::from(TsModel::new(2, 0.5)?);
/// let mixed = Model::from(MixtureModel::new(vec![(0.25, sharp.clone()), (0.75, flat.clone())])?);
/// assert!(mixed.order_preserving());
///
/// let p = |model: &Model| model.apply_row::<f64>(&[1.0, 0.0], ScoreKind::Probs).map(|p| p[0]);
/// assert!((p(&mixed)? - (0.25 * p(&sharp)? + 0.75 * p(&flat)?)).abs() < 1e-12);
///
/// let mixture = MixtureModel::average(vec![sharp, flat])?;
/// assert_eq!(mixture.members().iter().map(|(weight, _)| *weight).collect::<Vec<_>>(), [0.5, 0.5]);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureModel {
    members: Vec<(f64, Model)>,
    /// For each member that is a chain, the first member that begins in the same way; its own place for the others.
    same_first: Vec<usize>,
}

impl MixtureModel {
    /// The mixture of models with the given weights, which are scaled to sum to 1.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if there is no model, a weight is not positive, or the numbers of
    /// classes differ.
    pub fn new(mut members: Vec<(f64, Model)>) -> Result<Self> {
        check(!members.is_empty(), "members", "none", "at least one model")?;
        let classes = members[0].1.classes();
        for (weight, model) in &members {
            let good = *weight > 0.0 && weight.is_finite();
            check(good, "weights", weight, "positive numbers")?;
            let found = format!("models for {classes} and {} classes", model.classes());
            let expected = "models for the same number of classes";
            check(model.classes() == classes, "members", found, expected)?;
        }
        let sum: f64 = members.iter().map(|(weight, _)| weight).sum();
        // Weights that were scaled already are not scaled again: a stored model must keep its bits.
        if (sum - 1.0).abs() > 1e-12 {
            members.iter_mut().for_each(|(weight, _)| *weight /= sum);
        }
        let same = |place: usize, other: usize| match (&members[place].1, &members[other].1) {
            (Model::Chain(chain), Model::Chain(other)) => chain.passes_on_as(other),
            _ => false,
        };
        let first_like = |place| {
            (0..place)
                .find(|&other| same(place, other))
                .unwrap_or(place)
        };
        let same_first = (0..members.len()).map(first_like).collect();
        Ok(Self {
            members,
            same_first,
        })
    }

    /// The mixture of models with equal weights.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn average(models: Vec<Model>) -> Result<Self> {
        let weight = 1.0 / models.len().max(1) as f64;
        Self::new(models.into_iter().map(|model| (weight, model)).collect())
    }

    /// The models with their weights.
    pub fn members(&self) -> &[(f64, Model)] {
        &self.members
    }

    /// Calls `visit` with the weight of each member, its model, and the rows that it reads: where the member is a chain, its
    /// second model and what the first passes on, which is computed once for all that begin alike.
    fn each_member(&self, block: &RowBlock<'_>, mut visit: impl FnMut(f64, &Model, &RowBlock<'_>)) {
        let mut passed_on: Vec<Option<PassedOn>> = Vec::new();
        passed_on.resize_with(self.members.len(), || None);
        for ((weight, model), &place) in self.members.iter().zip(&self.same_first) {
            match model {
                Model::Chain(chain) if !chain.only_tempers() => {
                    let first = passed_on[place].get_or_insert_with(|| chain.pass_on(block));
                    let between = first.block(chain.then(), block.classes);
                    visit(*weight, chain.then(), &between);
                }
                _ => visit(*weight, model, block),
            }
        }
    }

    /// Writes Σ wᵢ pᵢ(x), and returns the rows with classes whose probabilities vanish.
    fn sums(&self, block: &RowBlock<'_>, sums: &mut [f64]) -> Vec<usize> {
        let mut member = vec![0.0; sums.len()];
        sums.fill(0.0);
        self.each_member(block, |weight, model, rows| {
            model.probabilities(rows, &mut member);
            for (sum, p) in sums.iter_mut().zip(&member) {
                *sum += weight * p;
            }
        });
        let rows = sums.chunks_exact(block.classes).enumerate();
        let vanish = |(row, sums): &(usize, &[f64])| {
            let mut pairs = sums.iter().zip(block.row(*row));
            pairs.any(|(&sum, &score)| sum < SMALLEST && score > f32::NEG_INFINITY)
        };
        rows.filter(vanish).map(|(row, _)| row).collect()
    }

    /// The logits of a row with classes whose probabilities would vanish in a sum, but must keep their order.
    fn log_domain(&self, row: &RowBlock<'_>, logits: &mut [f64]) {
        let mut member = vec![0.0; logits.len()];
        let mut scratch = Vec::new();
        // Below every logarithm, and finite: the difference of two infinities would be NaN.
        let mut top = vec![f64::MIN; logits.len()];
        logits.fill(0.0);
        self.each_member(row, |weight, model, rows| {
            model.logits(rows, &mut member);
            softmax::log_probabilities(&mut member, row.classes, &mut scratch);
            add(&member, weight.ln(), &mut top, logits);
        });
        finish(&top, row.scores, logits);
    }
}

impl Form for MixtureModel {
    fn classes(&self) -> usize {
        self.members[0].1.classes()
    }

    fn order_preserving(&self) -> bool {
        self.members.iter().all(|(_, m)| m.order_preserving())
    }

    fn reads_order(&self) -> bool {
        self.members.iter().any(|(_, m)| m.reads_order())
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let vanishing = self.sums(block, logits);
        logarithms(block.scores, logits);
        for row in vanishing {
            let logits = &mut logits[row * block.classes..][..block.classes];
            self.log_domain(&block.only(row), logits);
        }
    }

    fn probabilities(&self, block: &RowBlock<'_>, probs: &mut [f64]) {
        for row in self.sums(block, probs) {
            let probs = &mut probs[row * block.classes..][..block.classes];
            self.log_domain(&block.only(row), probs);
            softmax::probabilities(probs);
        }
    }
}

/// Smaller sums may lack a member that 64 bits cannot represent.
const SMALLEST: f64 = 1e-290;

impl Stored for MixtureModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let mut settings = MixtureSettings {
            weights: Vec::new(),
            members: Vec::new(),
        };
        for (index, (weight, model)) in self.members.iter().enumerate() {
            settings.weights.push(*weight);
            let member = parts.child(&format!("{index}."), model)?;
            settings.members.push(member);
        }
        parts.set(&settings);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let MixtureSettings { weights, members } = parts.settings()?;
        let found = format!("{} for {} models", weights.len(), members.len());
        let good = weights.len() == members.len();
        check(good, "weights", found, "one weight per model")?;
        let pairs = weights.into_iter().zip(members).enumerate();
        let pairs = pairs.map(|(index, (weight, settings))| {
            Ok((weight, parts.child(&format!("{index}."), settings)?))
        });
        Self::new(pairs.collect::<Result<_>>()?)
    }
}

/// The settings in a model file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MixtureSettings {
    weights: Vec<f64>,
    members: Vec<Value>,
}

vectorized! {
    /// The logarithms of sums of probabilities; `-inf` for masked classes.
    fn logarithms(scores: &[f32], sums: &mut [f64]) {
        for (sum, &score) in sums.iter_mut().zip(scores) {
            *sum = if score > f32::NEG_INFINITY { ln_f64(*sum) } else { f64::NEG_INFINITY };
        }
    }
}

vectorized! {
    /// Adds e^(log + weight) to the running sum e^top · sum, where top is the largest exponent (streaming log-sum-exp).
    /// The results for masked classes are not used.
    fn add(logs: &[f64], weight: f64, top: &mut [f64], sum: &mut [f64]) {
        for ((top, sum), &log) in top.iter_mut().zip(sum).zip(logs) {
            let log = log + weight;
            // One exponential: that of the larger exponent is 1.
            let e = exp_f64(-(log - *top).abs());
            *sum = if log > *top { *sum * e + 1.0 } else { *sum + e };
            *top = if log > *top { log } else { *top };
        }
    }
}

vectorized! {
    /// The logarithm of e^top · sum, which is at least 1 for the largest exponent; `-inf` for masked classes.
    fn finish(top: &[f64], scores: &[f32], sum: &mut [f64]) {
        for ((sum, &top), &score) in sum.iter_mut().zip(top).zip(scores) {
            *sum = if score > f32::NEG_INFINITY { top + ln_f64(*sum) } else { f64::NEG_INFINITY };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ScoreKind;
    use crate::error::Error;
    use crate::models::{
        ChainModel, EtsModel, EtsParts, Features, KernelModel, KernelParts, LinearModel,
        LinearParts, OrderedModel, TsModel, UncalibratedModel,
    };
    use crate::rng::Rng;

    #[test]
    fn inconsistent_members_are_rejected() {
        let ts = |classes| Model::from(TsModel::new(classes, 1.0).unwrap());
        let refused = |members| match MixtureModel::new(members) {
            Err(Error::InvalidPart { part, .. }) => part,
            other => panic!("{other:?}"),
        };
        assert_eq!(&*refused(vec![]), "members");
        assert_eq!(&*refused(vec![(0.0, ts(3))]), "weights");
        assert_eq!(&*refused(vec![(f64::NAN, ts(3))]), "weights");
        assert_eq!(&*refused(vec![(1.0, ts(3)), (1.0, ts(4))]), "members");
    }

    #[test]
    fn chains_that_begin_alike_are_what_each_is_alone() {
        use crate::models::DiagModel;
        use crate::nn::input::InputKind;
        let diag = |slope| {
            let input = InputKind::LogSoftmax;
            Model::from(DiagModel::from_slopes(3, input, (-9.0, 0.0), vec![slope; 5]).unwrap())
        };
        let ets = |beta| {
            let weights = [0.5, 0.2, 0.3];
            let parts = EtsParts {
                classes: 3,
                beta,
                weights,
            };
            Model::from(EtsModel::from_parts(parts).unwrap())
        };
        let chain = |first, then| Model::from(ChainModel::new(first, then).unwrap());
        let members = vec![
            (0.2, chain(diag(0.7), ets(0.5))),
            (0.3, chain(diag(0.7), ets(2.0))),
            (0.1, diag(0.7)),
            (0.4, chain(diag(1.5), ets(2.0))),
        ];
        let mixture = MixtureModel::new(members.clone()).unwrap();
        assert_eq!(mixture.same_first, [0, 0, 2, 3]);
        let row = [1.5, -0.5, 0.25];
        let probs = |model: &Model| model.apply_row::<f64>(&row, ScoreKind::Probs).unwrap();
        let mixed = probs(&mixture.into());
        for class in 0..3 {
            let expected: f64 = members.iter().map(|(w, m)| w * probs(m)[class]).sum();
            assert!((mixed[class] - expected).abs() < 1e-12, "{mixed:?}");
        }
    }

    #[test]
    fn classes_too_improbable_for_64_bits_keep_their_rank() {
        let members = vec![
            (0.5, TsModel::new(4, 1000.0).unwrap().into()),
            (0.5, UncalibratedModel::new(4).unwrap().into()),
        ];
        let model = Model::from(MixtureModel::new(members).unwrap());
        let row = [4000.0, 0.0, f32::NEG_INFINITY, -1.0];
        let logits: Vec<f64> = model.apply_row(&row, ScoreKind::LogProbs).unwrap();
        assert!(logits[0].abs() < 1e-9 && logits[2] == f64::NEG_INFINITY);
        assert!(
            (logits[1] - (-4000.0 + 0.5_f64.ln())).abs() < 1e-9,
            "{logits:?}"
        );
        assert!((logits[1] - logits[3] - 1.0).abs() < 1e-9, "{logits:?}");
    }

    const CLASSES: usize = 5;

    fn linear(rng: &mut Rng, features: Features, weights: usize) -> Model {
        let mut draw = |count: usize| (0..count).map(|_| 0.3 * rng.normal() as f32).collect();
        let parts = LinearParts {
            classes: CLASSES,
            features,
            deviation: draw(weights),
            bias: draw(CLASSES),
        };
        LinearModel::from_parts(parts).unwrap().into()
    }

    fn kernel(rng: &mut Rng) -> Model {
        let mut draw = |count: usize| {
            (0..count)
                .map(|_| rng.normal() as f32)
                .collect::<Vec<f32>>()
        };
        let parts = KernelParts {
            classes: CLASSES,
            scale: 3.0,
            centres: draw(7 * CLASSES).iter().map(|c| c.abs().min(1.0)).collect(),
            coefficients: draw(7 * CLASSES),
            bias: draw(CLASSES),
        };
        KernelModel::from_parts(parts).unwrap().into()
    }

    fn ets(beta: f64, weights: [f64; 3]) -> Model {
        let classes = CLASSES;
        let parts = EtsParts {
            classes,
            beta,
            weights,
        };
        EtsModel::from_parts(parts).unwrap().into()
    }

    /// A free mixture, nested as `auto` nests them.
    fn members(rng: &mut Rng) -> Vec<(f64, Model)> {
        let mixed = Features::Mixed {
            beta: 0.9,
            share: 1e-4,
        };
        let behind = MixtureModel::new(vec![
            (0.3, linear(rng, mixed.clone(), CLASSES)),
            (0.2, kernel(rng)),
            (0.5, UncalibratedModel::new(CLASSES).unwrap().into()),
        ]);
        let ts = |beta| Model::from(TsModel::new(CLASSES, beta).unwrap());
        let chain = |first, then| Model::from(ChainModel::new(first, then).unwrap());
        vec![
            (0.2, linear(rng, mixed.clone(), CLASSES)),
            (0.2, linear(rng, mixed, CLASSES * CLASSES)),
            (0.1, chain(ts(0.5), Model::from(behind.unwrap()))),
            (0.2, ets(0.7, [0.5, 0.2, 0.3])),
            (0.1, chain(ts(0.5), ts(1.5))),
            (0.2, ets(1.0, [0.0, 1.0, 0.0])),
        ]
    }

    /// Σ w p, each member by itself.
    fn slow(members: &[(f64, Model)], row: &[f32]) -> Vec<f64> {
        let mut sum = vec![0.0; row.len()];
        for (weight, model) in members {
            let probs = match model {
                Model::Mixture(mixture) => slow(mixture.members(), row),
                model => model.apply_row::<f64>(row, ScoreKind::Probs).unwrap(),
            };
            sum.iter_mut()
                .zip(probs)
                .for_each(|(s, p)| *s += weight * p);
        }
        sum
    }

    #[test]
    fn sums_are_those_of_members_alone() {
        let mut rng = Rng::new(71);
        for round in 0..40 {
            let members = members(&mut rng);
            let model = Model::from(MixtureModel::new(members.clone()).unwrap());
            let spread = [2.0, 30.0, 300.0][round % 3];
            let mut row: Vec<f32> = (0..CLASSES)
                .map(|_| (spread * rng.normal()) as f32)
                .collect();
            if round % 4 == 0 {
                row[round % CLASSES] = f32::NEG_INFINITY;
            }
            let found: Vec<f64> = model.apply_row(&row, ScoreKind::Probs).unwrap();
            for ((p, expected), score) in found.iter().zip(slow(&members, &row)).zip(&row) {
                assert!((p - expected).abs() <= 1e-9 * expected, "{found:?} {row:?}");
                assert_eq!(*p == 0.0, *score == f32::NEG_INFINITY && expected == 0.0);
            }
        }
    }

    #[test]
    fn probabilities_beyond_32_bits_are_not_lost() {
        // A linear map far from certain that says e⁻⁹⁰, beside one that says e⁻³⁰⁰.
        let map = |bias: f32| {
            let parts = LinearParts {
                classes: 2,
                features: Features::Mixed {
                    beta: 1.0,
                    share: 0.5,
                },
                deviation: vec![0.0; 2],
                bias: vec![0.0, bias],
            };
            Model::from(LinearModel::from_parts(parts).unwrap())
        };
        let members = vec![(0.5, map(-90.0)), (0.5, map(-300.0))];
        let free = Model::from(MixtureModel::new(members).unwrap());
        let kept = Model::from(OrderedModel::new(free.clone(), 1e3).unwrap());
        for model in [free, kept] {
            let logs: Vec<f64> = model.apply_row(&[1.0, 0.0], ScoreKind::LogProbs).unwrap();
            assert!((-93.0..-90.0).contains(&logs[1]), "{logs:?}");
        }
    }
}

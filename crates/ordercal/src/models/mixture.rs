//! Weighted averages of models in probability space: Σ wᵢ pᵢ(x).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chain::PassedOn;
use super::form::{Form, RowBlock};
use super::mixing::{Shared, replace_rows, rows_with_small};
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

    /// Calls `visit` with each member, its weight, and the rows that it reads: where the member is a chain, its second
    /// model with what the first passes on, which is computed once for all that begin alike.
    fn each_member(
        &self,
        block: &RowBlock<'_>,
        mut visit: impl FnMut(f64, &Model, Option<&RowBlock<'_>>),
    ) {
        let mut passed_on: Vec<Option<PassedOn>> = Vec::new();
        passed_on.resize_with(self.members.len(), || None);
        for ((weight, model), &place) in self.members.iter().zip(&self.same_first) {
            match model {
                Model::Chain(chain) if !chain.only_tempers() => {
                    let first = passed_on[place].get_or_insert_with(|| chain.pass_on(block));
                    let between = first.block(chain.then(), block.classes);
                    visit(*weight, chain.then(), Some(&between));
                }
                _ => visit(*weight, model, None),
            }
        }
    }

    /// The logits of rows with classes whose probabilities would vanish in a sum, but must keep their order.
    fn log_domain(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let mut member = vec![0.0; logits.len()];
        let mut scratch = Vec::new();
        // Below every logarithm, and finite: the difference of two infinities would be NaN.
        let mut top = vec![f64::MIN; logits.len()];
        logits.fill(0.0);
        self.each_member(block, |weight, model, between| {
            model.logits(between.unwrap_or(block), &mut member);
            softmax::log_probabilities(&mut member, block.classes, &mut scratch);
            add(&member, weight.ln(), &mut top, logits);
        });
        finish(&top, block.scores, logits);
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
        logits.fill(0.0);
        self.add_probabilities(block, 1.0, &mut Shared::default(), logits);
        let small = rows_with_small(block, logits);
        logarithms(block.scores, logits);
        replace_rows(block, &small, logits, |rows, logits| {
            self.log_domain(rows, logits);
        });
    }

    fn add_probabilities(
        &self,
        block: &RowBlock<'_>,
        weight: f64,
        shared: &mut Shared,
        sum: &mut [f64],
    ) {
        self.each_member(block, |own, model, between| {
            let weight = weight * own;
            match between {
                Some(rows) => {
                    model.add_probabilities(rows, weight, &mut Shared::default(), sum);
                }
                None => model.add_probabilities(block, weight, shared, sum),
            }
        });
    }
}

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
    use crate::models::{TsModel, UncalibratedModel};

    #[test]
    fn inconsistent_members_are_rejected() {
        let ts = |classes| Model::from(TsModel::new(classes, 1.0).unwrap());
        let refused = |members| MixtureModel::new(members).unwrap_err().to_string();
        assert!(refused(vec![]).contains("at least one model"));
        assert!(refused(vec![(0.0, ts(3))]).contains("positive"));
        assert!(refused(vec![(f64::NAN, ts(3))]).contains("positive"));
        assert!(refused(vec![(1.0, ts(3)), (1.0, ts(4))]).contains("3 and 4 classes"));
    }

    #[test]
    fn chains_that_begin_alike_are_what_each_is_alone() {
        use crate::models::{ChainModel, DiagModel, EtsModel, EtsParts};
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
}

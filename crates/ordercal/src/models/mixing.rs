//! Sums of probabilities over the members of a mixture.
//!
//! One exponential per member and score, and no logarithm. What vanishes in such a sum is small against
//! [`SMALLEST`]: rows that have a smaller probability are computed once more, in the log domain.

use super::features::Features;
use super::form::{Form, RowBlock};
use crate::math::exp::exp_f32;
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::math::softmax;

/// Smaller sums may lack a member that 32 bits cannot represent, from 1e-38 on.
const SMALLEST: f64 = 1e-30;

/// What members of a mixture share if they read the same rows.
#[derive(Default)]
pub(crate) struct Shared {
    /// The features of a linear map, with what they are: those of several strengths are alike.
    features: Option<(Features, Vec<f32>)>,
    narrow: Vec<f32>,
    wide: Vec<f64>,
}

impl Shared {
    /// Memory for 32-bit logits.
    pub(super) fn narrow(&mut self, count: usize) -> &mut [f32] {
        self.narrow.resize(count, 0.0);
        &mut self.narrow
    }

    /// The features of the rows, and as much memory for the logits.
    pub(super) fn features(
        &mut self,
        wanted: &Features,
        block: &RowBlock<'_>,
    ) -> (&[f32], &mut [f32]) {
        if self
            .features
            .as_ref()
            .is_none_or(|(kind, _)| kind != wanted)
        {
            let mut values = vec![0.0; block.scores.len()];
            wanted.of_block(block.scores, block.classes, &mut self.wide, &mut values);
            self.features = Some((wanted.clone(), values));
        }
        let (_, features) = self.features.as_ref().expect("computed above");
        self.narrow.resize(features.len(), 0.0);
        (features, &mut self.narrow)
    }

    /// Adds `weight` times the probabilities of a form that computes 64-bit logits.
    pub(super) fn add_softmax_of(
        &mut self,
        form: &(impl Form + ?Sized),
        block: &RowBlock<'_>,
        weight: f64,
        sum: &mut [f64],
    ) {
        self.wide.resize(sum.len(), 0.0);
        form.logits(block, &mut self.wide);
        self.add_softmax_of_wide(block.classes, weight, sum);
    }

    /// Adds `weight` times softmax(βx).
    pub(super) fn add_tempered(
        &mut self,
        block: &RowBlock<'_>,
        beta: f64,
        weight: f64,
        sum: &mut [f64],
    ) {
        self.wide.clear();
        let scores = block.scores.iter();
        self.wide
            .extend(scores.map(|&score| beta * f64::from(score)));
        self.add_softmax_of_wide(block.classes, weight, sum);
    }

    fn add_softmax_of_wide(&mut self, classes: usize, weight: f64, sum: &mut [f64]) {
        softmax::unnormalised_rows(&mut self.wide, classes);
        softmax::normalise_rows(&mut self.wide, classes);
        add_scaled(&self.wide, weight, sum);
    }
}

vectorized! {
    /// Adds `weight` times the values.
    fn add_scaled(values: &[f64], weight: f64, sum: &mut [f64]) {
        for (sum, &value) in sum.iter_mut().zip(values) {
            *sum += weight * value;
        }
    }
}

/// Numbers by class, repeated for as many rows as are [grouped](softmax::group): for loops over several short rows.
pub(super) fn repeated(by_class: &[f32]) -> Vec<f32> {
    by_class.repeat(softmax::group(by_class.len()))
}

vectorized! {
    /// Adds to the changes what they change, and biases that were [repeated]; masked classes become `-inf`.
    pub(super) fn add_narrow_terms(scores: &[f32], own: &[f32], biases: &[f32], changes: &mut [f32]) {
        let group = biases.len();
        let rows = scores.chunks(group).zip(own.chunks(group));
        for ((scores, own), changes) in rows.zip(changes.chunks_mut(group)) {
            let terms = own.iter().zip(biases).zip(scores);
            for (change, ((own, bias), &score)) in changes.iter_mut().zip(terms) {
                let sum = own + *change + bias;
                *change = if score > f32::NEG_INFINITY { sum } else { f32::NEG_INFINITY };
            }
        }
    }
}

vectorized! {
    /// Products with numbers by class that were [repeated].
    pub(super) fn multiply_by_class(values: &[f32], factors: &[f32], products: &mut [f32]) {
        let group = factors.len();
        for (values, products) in values.chunks(group).zip(products.chunks_mut(group)) {
            for ((product, value), factor) in products.iter_mut().zip(values).zip(factors) {
                *product = value * factor;
            }
        }
    }
}

vectorized! {
    /// Adds `weight` times the softmax of rows of 32-bit logits, which are overwritten.
    pub(super) fn add_softmax(logits: &mut [f32], classes: usize, weight: f64, sum: &mut [f64]) {
        let group = softmax::group(classes) * classes;
        for (logits, sum) in logits.chunks_mut(group).zip(sum.chunks_mut(group)) {
            for row in logits.chunks_exact_mut(classes) {
                let top = softmax::top(row);
                for logit in row {
                    *logit -= top;
                }
            }
            // One loop over all rows, because short rows alone would not fill the vectors.
            for logit in logits.iter_mut() {
                *logit = exp_f32(*logit);
            }
            for (e, sum) in logits.chunks_exact(classes).zip(sum.chunks_exact_mut(classes)) {
                let total = lanes::fold::<16, _, _>(e, 0.0, |sum, e: f32| sum + f64::from(e), |a, b| a + b);
                let scale = weight / total;
                for (sum, &e) in sum.iter_mut().zip(e) {
                    *sum += scale * f64::from(e);
                }
            }
        }
    }
}

/// Sets `probs` to the probabilities of a block of rows.
pub(super) fn probabilities(form: &impl Form, block: &RowBlock<'_>, probs: &mut [f64]) {
    probs.fill(0.0);
    form.add_probabilities(block, 1.0, &mut Shared::default(), probs);
    let again = |rows: &RowBlock<'_>, probs: &mut [f64]| {
        form.logits(rows, probs);
        softmax::unnormalised_rows(probs, rows.classes);
        softmax::normalise_rows(probs, rows.classes);
    };
    replace_rows(block, &rows_with_small(block, probs), probs, again);
}

/// The rows with a class that is too improbable for a sum.
pub(super) fn rows_with_small(block: &RowBlock<'_>, probs: &[f64]) -> Vec<usize> {
    if !any_small(block.scores, probs) {
        return Vec::new();
    }
    let rows = block.scores.chunks_exact(block.classes);
    let rows = rows.zip(probs.chunks_exact(block.classes)).enumerate();
    let small = rows.filter(|(_, (scores, probs))| any_small(scores, probs));
    small.map(|(row, _)| row).collect()
}

vectorized! {
    fn any_small(scores: &[f32], probs: &[f64]) -> bool {
        // Without an early exit, so that the loop is vectorised.
        let mut count = 0_u64;
        for (&score, &p) in scores.iter().zip(probs) {
            count += u64::from(score > f32::NEG_INFINITY && p < SMALLEST);
        }
        count > 0
    }
}

/// Computes the results of some rows once more.
pub(super) fn replace_rows(
    block: &RowBlock<'_>,
    rows: &[usize],
    results: &mut [f64],
    compute: impl FnOnce(&RowBlock<'_>, &mut [f64]),
) {
    if rows.is_empty() {
        return;
    }
    let classes = block.classes;
    let scores: Vec<f32> = rows
        .iter()
        .flat_map(|&row| block.row(row))
        .copied()
        .collect();
    let order: Vec<u32> = if block.order.is_empty() {
        Vec::new()
    } else {
        rows.iter()
            .flat_map(|&row| block.row_order(row))
            .copied()
            .collect()
    };
    let some = RowBlock {
        scores: &scores,
        order: &order,
        classes,
    };
    let mut found = vec![0.0; scores.len()];
    compute(&some, &mut found);
    for (&row, found) in rows.iter().zip(found.chunks_exact(classes)) {
        results[row * classes..][..classes].copy_from_slice(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ScoreKind;
    use crate::models::{
        ChainModel, EtsModel, EtsParts, KernelModel, KernelParts, LinearModel, LinearParts,
        MixtureModel, Model, OrderedModel, TsModel, UncalibratedModel,
    };
    use crate::rng::Rng;

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

    /// A free mixture of all forms that have a sum of their own, nested as `auto` nests them.
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
                assert!((p - expected).abs() <= 3e-6 * expected, "{found:?} {row:?}");
                assert_eq!(*p == 0.0, *score == f32::NEG_INFINITY && expected == 0.0);
            }
        }
    }

    #[test]
    fn a_row_in_the_log_domain_leaves_its_neighbours_alone() {
        let mut rng = Rng::new(72);
        let mixture = MixtureModel::new(members(&mut rng)[..2].to_vec()).unwrap();
        let free = Model::from(mixture);
        let kept = Model::from(OrderedModel::new(free.clone(), 0.8).unwrap());
        let rows = [
            [1.0_f32, 0.5, -1.0, 3.0, 0.0],
            // Beyond 32 bits, but not beyond 64.
            [0.0, -4e5, -3e5, -2e5, -1e5],
            [2.0, f32::NEG_INFINITY, 2.0, -1.0, 0.0],
        ];
        for model in [free, kept] {
            let all = ndarray::arr2(&rows);
            let scores = crate::Scores::new(ScoreKind::Logits, all.view()).unwrap();
            for kind in [ScoreKind::LogProbs, ScoreKind::Probs] {
                let together = model.apply::<f64>(&scores, kind).unwrap();
                for (row, together) in rows.iter().zip(together.rows()) {
                    let alone: Vec<f64> = model.apply_row(row, kind).unwrap();
                    assert_eq!(together.as_slice().unwrap(), alone);
                    assert!(alone.iter().all(|v| !v.is_nan()));
                }
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

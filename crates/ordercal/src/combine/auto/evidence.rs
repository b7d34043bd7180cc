//! What a difference between two calibrators on the same rows is worth.

use crate::data::{Dataset, Folds};
use crate::models::apply;
use crate::rng::Rng;

/// Resamples behind "clearly better".
const RESAMPLES: usize = 1000;

/// The rows that everything is compared on.
pub(super) struct Rows<'a> {
    data: &'a Dataset<'a>,
    pub(super) folds: &'a Folds,
}

/// A mean difference with its standard error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gain {
    pub(super) mean: f64,
    pub(super) error: f64,
}

impl Gain {
    /// Whether it is more than one standard error.
    pub(super) fn exceeds_noise(self) -> bool {
        self.mean > self.error
    }
}

impl<'a> Rows<'a> {
    pub(super) fn new(data: &'a Dataset<'a>, folds: &'a Folds) -> Self {
        Self { data, folds }
    }

    pub(super) fn count(&self) -> usize {
        self.data.rows()
    }

    pub(super) fn weight(&self, row: usize) -> f64 {
        self.data.weight(row)
    }

    pub(super) fn mean(&self, values: &[f64]) -> f64 {
        apply::mean(values, self.data)
    }

    /// How much smaller `after` is than `before`.
    pub(super) fn gain(&self, before: &[f64], after: &[f64]) -> Gain {
        let all: Vec<usize> = (0..self.count()).collect();
        self.gain_on(before, after, &all)
    }

    /// The same for some of the rows.
    pub(super) fn gain_on(&self, before: &[f64], after: &[f64], part: &[usize]) -> Gain {
        let total: f64 = part.iter().map(|&row| self.weight(row)).sum();
        let over = |value: &dyn Fn(usize) -> f64| part.iter().map(|&row| value(row)).sum::<f64>();
        let share = |row: usize| self.weight(row) / total;
        let mean = over(&|row| share(row) * (before[row] - after[row]));
        let squares = over(&|row| (share(row) * (before[row] - after[row] - mean)).powi(2));
        Gain {
            mean,
            error: squares.sqrt(),
        }
    }

    /// Whether `after` is smaller than `before` in 97.5% of resamples of the rows.
    pub(super) fn clearly_better(&self, before: &[f64], after: &[f64], seed: u64) -> bool {
        let terms: Vec<f64> = (0..self.count())
            .map(|row| self.weight(row) * (before[row] - after[row]))
            .collect();
        let mut rng = Rng::new(seed ^ 0x6761_696e);
        let worse = (0..RESAMPLES)
            .filter(|_| {
                let sum: f64 = (0..terms.len())
                    .map(|_| terms[rng.below(terms.len())])
                    .sum();
                sum <= 0.0
            })
            .count();
        worse * 40 <= RESAMPLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use ndarray::Array2;

    #[test]
    fn gains_are_weighted_means_with_their_errors() {
        let scores = Scores::new(ScoreKind::Logits, Array2::<f32>::zeros((4, 2))).unwrap();
        let data = Dataset::new(scores, &[0, 1, 0, 1]).unwrap();
        let folds = Folds::new(4, 2, 1).unwrap();
        let before = [1.0, 2.0, 3.0, 9.0];
        let after = [0.5, 1.0, 3.5, 0.0];
        let doubled = data.clone().with_weights(vec![2.0, 2.0, 2.0, 0.0]).unwrap();
        let gain = Rows::new(&doubled, &folds).gain(&before, &after);
        assert!((gain.mean - 1.0 / 3.0).abs() < 1e-12);
        let squares = [0.5, 1.0, -0.5].map(|d: f64| (d - 1.0 / 3.0).powi(2));
        assert!((gain.error - squares.iter().sum::<f64>().sqrt() / 3.0).abs() < 1e-12);
    }

    #[test]
    fn only_what_is_beyond_chance_is_clear() {
        let rows = 400;
        let scores = Scores::new(ScoreKind::Logits, Array2::<f32>::zeros((rows, 2))).unwrap();
        let data = Dataset::new(scores, &vec![0_u32; rows]).unwrap();
        let folds = Folds::new(rows, 2, 1).unwrap();
        let rows = Rows::new(&data, &folds);
        let mut rng = Rng::new(5);
        let noise: Vec<f64> = (0..400).map(|_| rng.normal()).collect();
        let shifted = |by: f64| noise.iter().map(|n| n - by).collect::<Vec<_>>();
        let zero = vec![0.0; 400];
        // One standard error is 0.05.
        assert!(rows.clearly_better(&zero, &shifted(0.5), 1));
        assert!(!rows.clearly_better(&zero, &shifted(0.0), 1));
        assert!(!rows.clearly_better(&zero, &shifted(-0.5), 1));
        assert!(
            !rows.clearly_better(&zero, &zero, 1),
            "no difference is not better"
        );
    }
}

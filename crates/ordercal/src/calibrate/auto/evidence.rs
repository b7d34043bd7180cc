//! What a difference between two calibrators on the same rows is worth.

use crate::calibrate::apply;
use crate::data::Dataset;
use crate::rng::Rng;
use crate::select::Folds;

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

//! What held-out rows say for one calibrator against another.

use crate::data::Dataset;
use crate::models::apply;

/// A mean difference with its standard error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gain {
    pub(super) mean: f64,
    pub(super) error: f64,
}

impl Gain {
    /// How much smaller `after` is than `before`.
    pub(super) fn new(before: &[f64], after: &[f64], data: &Dataset<'_>) -> Self {
        let differences: Vec<f64> = before.iter().zip(after).map(|(b, a)| b - a).collect();
        let mean = apply::mean(&differences, data);
        let total = data.total_weight();
        let terms = differences.iter().enumerate();
        let squares: f64 = terms
            .map(|(row, d)| (data.weight(row) / total * (d - mean)).powi(2))
            .sum();
        Self {
            mean,
            error: squares.sqrt(),
        }
    }
}

/// Weights in proportion to prior × likelihood, from the NLL of each held-out row.
pub(super) fn posterior(nlls: &[&[f64]], prior: &[f64], data: &Dataset<'_>) -> Vec<f64> {
    let logs: Vec<f64> = nlls
        .iter()
        .zip(prior)
        .map(|(nlls, prior)| prior.ln() - data.total_weight() * apply::mean(nlls, data))
        .collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.iter().map(|log| (log - top).exp());
    let sum: f64 = weights.clone().sum();
    weights.map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use ndarray::Array2;

    fn data(rows: usize) -> Dataset<'static> {
        let scores = Scores::new(ScoreKind::Logits, Array2::<f32>::zeros((rows, 2))).unwrap();
        Dataset::new(scores.into_owned(), &vec![0_u32; rows]).unwrap()
    }

    #[test]
    fn gains_are_weighted_means_with_their_errors() {
        let before = [1.0, 2.0, 3.0, 9.0];
        let after = [0.5, 1.0, 3.5, 0.0];
        let data = data(4).with_weights(vec![2.0, 2.0, 2.0, 0.0]).unwrap();
        let gain = Gain::new(&before, &after, &data);
        assert!((gain.mean - 1.0 / 3.0).abs() < 1e-12);
        let squares = [0.5, 1.0, -0.5].map(|d: f64| (d - 1.0 / 3.0).powi(2));
        assert!((gain.error - squares.iter().sum::<f64>().sqrt() / 3.0).abs() < 1e-12);
    }

    #[test]
    fn evidence_is_prior_times_likelihood() {
        let (a, b) = (vec![1.0; 10], vec![0.8; 10]);
        let weights = posterior(&[&a, &b], &[0.9, 0.1], &data(10));
        let odds = 0.9 / 0.1 * (-2.0_f64).exp();
        assert!((weights[0] / weights[1] - odds).abs() < 1e-9);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

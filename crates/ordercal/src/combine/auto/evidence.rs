//! What held-out rows say for one calibrator against another.

use rayon::prelude::*;

use crate::data::{Dataset, Scores};
use crate::math::softmax;
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

/// The mean Kullback–Leibler divergence of log-probabilities from the data's own probabilities.
pub(super) fn divergence(data: &Dataset<'_>, logs: &Scores<'_>) -> f64 {
    let rows: Vec<f64> = (0..data.rows())
        .into_par_iter()
        .map(|row| {
            let scores = data.scores().row(row);
            let shift = softmax::log_sum_exp(scores);
            let terms = scores.iter().zip(logs.row(row));
            let terms = terms.map(|(&score, &log)| {
                let own = f64::from(score) - shift;
                let p = own.exp();
                if p > 0.0 {
                    p * (own - f64::from(log))
                } else {
                    0.0
                }
            });
            terms.sum()
        })
        .collect();
    apply::mean(&rows, data)
}

/// Weights in proportion to prior × likelihood, from the logarithm of the prior and the NLL of each held-out row.
pub(super) fn posterior(nlls: &[&[f64]], log_prior: &[f64], data: &Dataset<'_>) -> Vec<f64> {
    let logs: Vec<f64> = nlls
        .iter()
        .zip(log_prior)
        .map(|(nlls, prior)| prior - data.total_weight() * apply::mean(nlls, data))
        .collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.iter().map(|log| (log - top).exp());
    let sum: f64 = weights.clone().sum();
    weights.map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ScoreKind;
    use ndarray::{Array2, array};

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
    fn divergences_are_those_of_the_formula() {
        let logits = array![[1.0_f32, 0.0, f32::NEG_INFINITY], [0.0, 2.0, 2.0]];
        let scores = Scores::new(ScoreKind::Logits, logits.view()).unwrap();
        let data = Dataset::new(scores, &[0, 1]).unwrap();
        let probs = array![[0.3_f32, 0.3, 0.4], [0.2, 0.5, 0.3]];
        let other = Scores::new(ScoreKind::Probs, probs.view()).unwrap();
        let kl = |p: &[f64], q: &[f64]| {
            let sum: f64 = p.iter().sum();
            let terms = p.iter().zip(q).filter(|(p, _)| **p > 0.0);
            terms
                .map(|(p, q)| p / sum * (p / sum / q).ln())
                .sum::<f64>()
        };
        let e = 1.0_f64.exp();
        let expected =
            kl(&[e, 1.0, 0.0], &[0.3, 0.3, 0.4]) + kl(&[1.0, e * e, e * e], &[0.2, 0.5, 0.3]);
        assert!((divergence(&data, &other) - expected / 2.0).abs() < 1e-6);
    }

    #[test]
    fn evidence_is_prior_times_likelihood() {
        let (a, b) = (vec![1.0; 10], vec![0.8; 10]);
        let weights = posterior(&[&a, &b], &[0.9_f64.ln(), 0.1_f64.ln()], &data(10));
        let odds = 0.9 / 0.1 * (-2.0_f64).exp();
        assert!((weights[0] / weights[1] - odds).abs() < 1e-9);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

//! Accuracy and the proper scoring rules: means over rows, nothing binned.

use super::metric::MetricOptions;
use super::predictions::{Predictions, RowStat};
use crate::error::Result;

/// The share of rows whose most probable class is the label.
///
/// Of several most probable classes the one with the smallest index is the prediction.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Predictions, accuracy};
///
/// let probs = array![[0.6_f64, 0.4], [0.5, 0.5], [0.1, 0.9]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1])?;
/// assert!((accuracy(&predictions) - 2.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn accuracy(predictions: &Predictions<'_>) -> f64 {
    let stats = predictions.row_stats();
    weighted_mean(&stats, predictions.weights(), |s| hit(s, 1))
}

/// The share of rows whose label is among the `top_k` (default 5) most probable classes.
///
/// Equally probable classes come in order of their index. With `top_k` ≥ K it is 1.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, top_k_accuracy};
///
/// let probs = array![[0.6_f64, 0.3, 0.1], [0.6, 0.3, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 2])?;
/// let top_two = MetricOptions::default().with_top_k(2);
/// assert!((top_k_accuracy(&predictions, &top_two)? - 0.5).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn top_k_accuracy(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    options.validate()?;
    let stats = predictions.row_stats();
    Ok(weighted_mean(&stats, predictions.weights(), |s| {
        hit(s, options.top_k)
    }))
}

/// The mean negative log-likelihood, −(1/N) Σ log p_y, in nats.
///
/// Of scores the logarithm is computed without the exponential, so it is finite whatever the scores. Of
/// probabilities, a label with probability 0 makes the mean infinite, which is what was claimed: the
/// impossible happened. With `clip` > 0 the label's probability counts as at least that much
/// (scikit-learn's `log_loss` clips at 2.2e-16).
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, nll};
///
/// let probs = array![[0.5_f64, 0.5], [1.0, 0.0]];
/// let options = MetricOptions::default();
/// let fine = Predictions::from_probs(probs.view(), &[0, 0])?;
/// assert!((nll(&fine, &options)? - 0.5 * 2_f64.ln()).abs() < 1e-15);
/// let surprised = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!(nll(&surprised, &options)?.is_infinite());
/// assert!(nll(&surprised, &options.with_clip(1e-15))?.is_finite());
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn nll(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    options.validate()?;
    let stats = predictions.row_stats();
    let limit = nll_limit(options.clip);
    Ok(weighted_mean(&stats, predictions.weights(), |s| {
        s.nll.min(limit)
    }))
}

/// The Brier score as in the tables of Rahimi et al. (2020): (1/NK) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})², the mean
/// over all N·K cells.
///
/// Brier's own definition sums over the classes; it is K times this one.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Predictions, brier};
///
/// let probs = array![[0.8_f64, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[0])?;
/// assert!((brier(&predictions) - 0.04).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn brier(predictions: &Predictions<'_>) -> f64 {
    let stats = predictions.row_stats();
    weighted_mean(&stats, predictions.weights(), |s| s.brier) / predictions.classes() as f64
}

/// 1 if the label is among the first `k` classes.
pub(crate) fn hit(stat: &RowStat, k: usize) -> f64 {
    f64::from(u8::from((stat.rank as usize) < k))
}

/// What a row adds to the likelihood at most.
pub(crate) fn nll_limit(clip: f64) -> f64 {
    if clip > 0.0 {
        -clip.ln()
    } else {
        f64::INFINITY
    }
}

/// Σ w f / Σ w; rows of weight 0 do not count even where f is infinite.
pub(crate) fn weighted_mean(
    stats: &[RowStat],
    weights: Option<&[f64]>,
    value: impl Fn(&RowStat) -> f64,
) -> f64 {
    // Sums of runs, then the sum of those: the error grows with the number of runs, not of rows.
    const RUN: usize = 256;
    match weights {
        None => {
            let runs = stats
                .chunks(RUN)
                .map(|run| run.iter().map(&value).sum::<f64>());
            runs.sum::<f64>() / stats.len() as f64
        }
        Some(weights) => {
            let runs = stats.chunks(RUN).zip(weights.chunks(RUN));
            let (sum, total) = runs.fold((0.0, 0.0), |(sum, total), (stats, weights)| {
                let rows = stats.iter().zip(weights).filter(|&(_, &w)| w > 0.0);
                let (s, t) = rows.fold((0.0, 0.0), |(s, t), (stat, &w)| {
                    (s + w * value(stat), t + w)
                });
                (sum + s, total + t)
            });
            sum / total
        }
    }
}

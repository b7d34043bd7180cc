//! `spiegelhalter_z`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::row_stats::WeightedRows;
use crate::metrics::{MetricOptions, Predictions, RowStat};

pub(super) const DEFINITION: Definition = Definition {
    key: "spiegelhalter_z",
    name: "Spiegelhalter's Z",
    brief: "Whether confidences are further from the outcomes than chance explains: the Brier score of the confidence minus its expectation, in standard deviations.",
    formula: "Σ (hit − c)(1 − 2c) / √(Σ (1 − 2c)² c(1 − c)) with the confidence c",
    range: "any number; within ±1.96 for 95 % of calibrated classifiers, positive if overconfident",
    caveat: "It tests whether there is an error and does not measure how large it is: the same error gives a larger value on more rows; errors of opposite signs cancel; undefined (NaN) if every confidence is 1.",
    equals: "its definition by Spiegelhalter (1986), which for two classes is the same for the predicted and the positive class",
    best: Best::Value(0.0),
    compute: Compute::Rows(|rows, _| statistic(rows)),
    from_state: FromState::Exact(|state| state.spiegelhalter_z()),
};

/// A row's difference from the expectation, and its variance.
pub(crate) fn terms(stat: &RowStat) -> (f64, f64) {
    let c = stat.confidence.min(1.0);
    let slope = 1.0 - 2.0 * c;
    let hit = f64::from(u8::from(stat.hit()));
    ((hit - c) * slope, slope * slope * c * (1.0 - c))
}

/// NaN if there is no variance.
pub(crate) fn ratio(difference: f64, variance: f64) -> f64 {
    if variance > 0.0 {
        difference / variance.sqrt()
    } else {
        f64::NAN
    }
}

fn statistic(rows: &WeightedRows<'_>) -> f64 {
    let total = rows
        .weights
        .map_or(rows.stats.len() as f64, |w| w.iter().sum());
    let difference = rows.mean(|stat| terms(stat).0);
    let variance = rows.mean(|stat| terms(stat).1);
    total.sqrt() * ratio(difference, variance)
}

/// Spiegelhalter's Z (1986) of the predicted class: the standardised difference between the Brier score of the
/// confidence and what it would be on average if the confidence were calibrated.
///
/// Weights are counts. Under calibration it is nearly standard normal.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, spiegelhalter_z};
///
/// let probs = array![[0.9_f64, 0.1], [0.9, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// let expected = (0.1 * -0.8 + 0.9 * 0.8) / (2.0 * 0.64 * 0.09_f64).sqrt();
/// assert!((spiegelhalter_z(&predictions, &MetricOptions::default())? - expected).abs() < 1e-14);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn spiegelhalter_z(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::SpiegelhalterZ.compute(predictions, options)
}

//! `ap`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::ranking::{Tied, by_descending_confidence, totals};
use crate::metrics::{Estimate, MetricOptions, MetricState, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "ap",
    name: "Average precision",
    brief: "How accurate the more confident predictions are: the accuracy above a confidence, averaged over the confidences of the right predictions.",
    formula: "Σ_c (R(c) − R(c⁺)) · accuracy of the rows with conf ≥ c, where R(c) is the share of the right rows that have conf ≥ c, and c⁺ the next higher confidence",
    range: "0 to 1",
    caveat: "It reads only the order of the confidences, and is close to 1 for every accurate classifier; undefined (NaN) if no prediction is right.",
    equals: "scikit-learn's average_precision_score(hit, confidence)",
    best: Best::Highest,
    compute: Compute::TopLabel(|rows, _| average_precision(&by_descending_confidence(rows))),
    from_state: FromState::Estimated(|state| Some(estimate(state))),
};

fn average_precision(groups: &[Tied]) -> f64 {
    let mut above = Tied::default();
    let mut sum = 0.0;
    for group in groups {
        above.right += group.right;
        above.wrong += group.wrong;
        if group.right > 0.0 {
            sum += group.right * above.right / above.weight();
        }
    }
    sum / above.right
}

/// Within a fine bin the accuracy above a row is lowest if the wrong ones come first, and highest if the right ones do.
fn estimate(state: &MetricState) -> Estimate {
    let groups = by_descending_confidence(&state.fine_rows().sorted());
    let value = average_precision(&groups);
    let mut above = Tied::default();
    let (mut lowest, mut highest) = (0.0, 0.0);
    for group in groups
        .iter()
        .filter(|group| group.right > 0.0 || group.wrong > 0.0)
    {
        let weight = above.weight();
        lowest += group.right * above.right / (weight + group.wrong).max(f64::MIN_POSITIVE);
        if group.right > 0.0 {
            highest += group.right * (above.right + group.right) / (weight + group.right);
        }
        above.right += group.right;
        above.wrong += group.wrong;
    }
    let right = totals(&groups).right;
    let error_bound = if value.is_nan() {
        0.0
    } else {
        (highest / right - value)
            .max(value - lowest / right)
            .max(0.0)
    };
    Estimate { value, error_bound }
}

/// The average precision of the confidence as a score for whether the prediction is right.
///
/// Rows with equal confidences enter together. Equal to scikit-learn's `average_precision_score(hit, confidence)`.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, ap};
///
/// let probs = array![[0.9_f64, 0.1], [0.8, 0.2], [0.7, 0.3]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 0])?;
/// assert!((ap(&predictions, &MetricOptions::default())? - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn ap(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Ap.compute(predictions, options)
}

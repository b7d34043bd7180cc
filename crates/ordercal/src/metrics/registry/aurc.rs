//! `aurc`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::ranking::{Tied, by_descending_confidence};
use crate::metrics::{Estimate, MetricOptions, MetricState, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "aurc",
    name: "AURC",
    brief: "How often a classifier errs that answers only if it is confident enough: the area under the risk–coverage curve, the mean error rate over all thresholds of the confidence.",
    formula: "(1/N) Σᵢ (share of wrong ones among the rows with conf ≥ confᵢ)",
    range: "0 to 1",
    caveat: "It reads only the order of the confidences, so it is blind to calibration, and it mixes that order with the accuracy, whose part eaurc subtracts.",
    equals: "its definition by Geifman et al. (2019) where no confidences are tied",
    best: Best::Lowest,
    compute: Compute::TopLabel(|rows, _| mean_risk(&by_descending_confidence(rows))),
    from_state: FromState::Estimated(|state| Some(estimate(state))),
};

pub(super) fn mean_risk(groups: &[Tied]) -> f64 {
    let mut above = Tied::default();
    let mut sum = 0.0;
    for group in groups {
        above.right += group.right;
        above.wrong += group.wrong;
        sum += group.weight() * above.wrong / above.weight();
    }
    sum / above.weight()
}

/// Within a fine bin the error rate above a row is highest if the wrong ones come first.
pub(super) fn estimate(state: &MetricState) -> Estimate {
    let groups = by_descending_confidence(&state.fine_rows().sorted());
    let value = mean_risk(&groups);
    let mut above = Tied::default();
    let (mut lowest, mut highest) = (0.0, 0.0);
    for group in &groups {
        let (before, weight) = (above.weight(), group.weight());
        lowest += weight * above.wrong / (before + group.right).max(f64::MIN_POSITIVE);
        if group.wrong > 0.0 || above.wrong > 0.0 {
            highest += weight * (above.wrong + group.wrong) / (before + group.wrong);
        }
        above.right += group.right;
        above.wrong += group.wrong;
    }
    let total = above.weight();
    Estimate {
        value,
        error_bound: (highest / total - value)
            .max(value - lowest / total)
            .max(0.0),
    }
}

/// The area under the risk–coverage curve (Geifman et al. 2019).
///
/// A selective classifier answers only where its confidence is at least c; its risk is the error rate there. Rows
/// with equal confidences enter together.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, aurc};
///
/// let probs = array![[0.9_f64, 0.1], [0.8, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!((aurc(&predictions, &MetricOptions::default())? - (0.0 + 0.5) / 2.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn aurc(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Aurc.compute(predictions, options)
}

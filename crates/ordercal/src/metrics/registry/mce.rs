//! `mce`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::largest_gap;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "mce",
    name: "MCE",
    brief: "Maximum calibration error: the largest gap between confidence and accuracy in any bin of equal width.",
    formula: "max_B |acc(B) − conf(B)| over 15 bins (lo, hi] of equal width",
    range: "0 to 1",
    caveat: "A single row that is alone in its bin can decide it, so it is large by chance where rows are few.",
    equals: "netcal's MCE and torchmetrics' MulticlassCalibrationError with norm='max' where no confidence lies on an edge of a bin",
    best: Best::Lowest,
    compute: Compute::Bins(|bins, _| largest_gap(bins)),
    from_state: FromState::Exact(|state| largest_gap(&state.top_bins())),
};

/// The maximum calibration error (Naeini et al. 2015): the largest |acc(B) − conf(B)| among the bins of
/// [`ece`](fn@super::ece).
///
/// A single row that is alone in its bin can decide it. Equal to netcal's `MCE` and torchmetrics'
/// `MulticlassCalibrationError` with the norm `max`, wherever no confidence lies exactly on an edge.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, mce};
///
/// let probs = array![[0.9_f64, 0.1], [0.55, 0.45]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!((mce(&predictions, &MetricOptions::default())? - 0.55).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn mce(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Mce.compute(predictions, options)
}

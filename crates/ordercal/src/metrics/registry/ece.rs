//! `ece`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::norm_of_gaps;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "ece",
    name: "ECE",
    brief: "Expected calibration error, how far confidence is from accuracy: the mean gap between the two over bins of equal width, weighted by the bins' rows.",
    formula: "Σ_B |B|/N · |acc(B) − conf(B)| over 15 bins (lo, hi] of equal width",
    range: "0 to 1",
    caveat: "Chance makes it larger, the more so the fewer rows there are; within a bin, confidences that are too high and too low cancel; and it is 0 if every confidence is the overall accuracy, which says nothing about single rows.",
    equals: "netcal's ECE and torchmetrics' MulticlassCalibrationError where no confidence lies on an edge of a bin",
    best: Best::Lowest,
    compute: Compute::Bins(|bins, options| norm_of_gaps(bins, options.norm)),
    from_state: FromState::Exact(|state| norm_of_gaps(&state.top_bins(), state.options().norm)),
};

/// The expected calibration error of the top label (Guo et al. 2017): Σ |B|/N · |acc(B) − conf(B)| over
/// 15 equal-width bins of the confidence.
///
/// Bins are closed on the right, a confidence of 0 is in the first (see [`Binning::EqualWidth`](crate::metrics::Binning::EqualWidth)); an empty
/// bin adds nothing. With [`norm`](MetricOptions::norm) p it is (Σ |B|/N · |acc − conf|ᵖ)^(1/p). Equal to
/// netcal's `ECE` and torchmetrics' `MulticlassCalibrationError` (`l1`, `l2`) wherever no confidence lies
/// exactly on an edge; those two close their bins on the left.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, ece};
///
/// // Both rows share a bin: mean confidence 0.79, accuracy 0.5.
/// let probs = array![[0.78_f64, 0.22], [0.80, 0.20]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!((ece(&predictions, &MetricOptions::default())? - 0.29).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Ece.compute(predictions, options)
}

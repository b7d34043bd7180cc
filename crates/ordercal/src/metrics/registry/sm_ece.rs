//! `sm_ece`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::smooth::smooth_error;
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "sm_ece",
    name: "Smooth ECE",
    brief: "How far confidence is from accuracy, without bins: the mean absolute difference after smoothing with a Gaussian kernel.",
    formula: "Σ |S(conf − hit)| / Σ S(1) over a grid of confidences, where S smooths with a Gaussian kernel of the width at which the result equals the width",
    range: "0 to 1",
    caveat: "Chance makes it larger; and relplot's kernel counts rows with a confidence of nearly 0 or 1 by half, so that it can be above ece where most rows are such.",
    equals: "relplot's smECE",
    best: Best::Lowest,
    compute: Compute::TopLabel(|rows, _| smooth_error(rows)),
    from_state: FromState::Estimated(|state| Some(state.smooth_error())),
};

/// The smooth ECE of Błasiok and Nakkiran (2023): the residuals conf − hit are smoothed by a Gaussian
/// kernel over the confidence, reflected at 0 and 1, and their absolute values averaged. The kernel's width
/// is the fixed point at which the result equals the width, so there is nothing to choose.
///
/// Equal to `smECE` of the package relplot, including its grid (at least 1000 intervals, at least 10 per
/// kernel width), its ten bisection steps for the width, and its smallest width of 0.001.
///
/// ```
/// use ndarray::Array2;
/// use ordercal::metrics::{MetricOptions, Predictions, sm_ece};
///
/// // Confidence 0.9, right in half of the rows.
/// let probs = Array2::from_shape_fn((100, 2), |(_, class)| [0.9_f64, 0.1][class]);
/// let labels: Vec<u32> = (0..100).map(|row| row % 2).collect();
/// let predictions = Predictions::from_probs(probs.view(), &labels)?;
/// assert!((sm_ece(&predictions, &MetricOptions::default())? - 0.4).abs() < 0.01);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn sm_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::SmEce.compute(predictions, options)
}

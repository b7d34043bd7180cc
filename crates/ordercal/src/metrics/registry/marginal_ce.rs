//! `marginal_ce`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::Binning;
use crate::metrics::classwise::mean;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "marginal_ce",
    name: "Marginal CE",
    brief: "How far every class's probability is from that class's frequency: the root-mean-square gap over bins of equally many rows and over the classes, minus what sampling noise adds to it.",
    formula: "√((1/K) Σⱼ max(0, Σ_B |B|/N · ((q − f)² − f(1 − f)/(|B| − 1)))) over 15 bins of equally many rows, with the mean probability q and the frequency f of class j in B",
    range: "0 to 1",
    caveat: "With many classes most rows have probabilities near 0 for a class, so it is small whatever the predicted class's error is.",
    equals: "uncertainty-calibration's lower_bound_scaling_ce",
    best: Best::Lowest,
    compute: Compute::PerClass(Binning::EqualMass, |squares, _| mean(squares).sqrt()),
    from_state: FromState::Estimated(|state| state.marginal_error()),
};

/// The marginal calibration error of Kumar et al. (2019): [`debiased_ece`](fn@super::debiased_ece) of every
/// class's pⱼ against 1{y = j}, √((1/K) Σⱼ ceⱼ²).
///
/// Each class has 15 equal-mass bins of its own, and its square is floored at 0 before the mean. Equal to
/// uncertainty-calibration's `lower_bound_scaling_ce`. Columns are read a block of classes at a time: at
/// 25,000 rows of 1000 classes it needs less memory than the scores themselves.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, marginal_ce};
///
/// let probs = array![[1.0_f64, 0.0], [1.0, 0.0], [1.0, 0.0]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 1, 1])?;
/// let value = marginal_ce(&predictions, &MetricOptions::default())?;
/// assert!((value - 1.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn marginal_ce(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::MarginalCe.compute(predictions, options)
}

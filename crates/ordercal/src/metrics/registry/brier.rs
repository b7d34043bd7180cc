//! `brier`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "brier",
    name: "Brier score",
    brief: "How far the probabilities are from the outcome: the squared difference from 1 for the label and 0 for the others, averaged over rows and classes.",
    formula: "(1/NK) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})²",
    range: "0 to 2/K",
    caveat: "It mixes calibration with accuracy, and it shrinks as the number of classes grows, so that values for different numbers of classes cannot be compared; brier_sum has the usual scale.",
    equals: "scikit-learn's brier_score_loss with scale_by_half=False, divided by K",
    best: Best::Lowest,
    compute: Compute::Rows(|rows, _| rows.mean(|stat| stat.brier) / rows.classes as f64),
    from_state: FromState::Exact(|state| state.brier()),
};

/// The Brier score as in the tables of Rahimi et al. (2020): (1/NK) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})², the mean
/// over all N·K cells.
///
/// Brier's own definition (1950) sums over the classes, as scikit-learn's `brier_score_loss` does for
/// several classes; it is K times this one.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, brier};
///
/// let probs = array![[0.8_f64, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[0])?;
/// assert!((brier(&predictions, &MetricOptions::default())? - 0.04).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn brier(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Brier.compute(predictions, options)
}

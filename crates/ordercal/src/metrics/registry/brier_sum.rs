//! `brier_sum`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "brier_sum",
    name: "Brier score (sum)",
    brief: "How far the probabilities are from the outcome, on Brier's own scale: the squared difference from 1 for the label and 0 for the others, added up over the classes.",
    formula: "(1/N) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})²",
    range: "0 to 2",
    caveat: "It mixes calibration with accuracy; for two classes it is twice what most packages call the Brier score.",
    equals: "scikit-learn's brier_score_loss with scale_by_half=False, its default for more than two classes",
    best: Best::Lowest,
    compute: Compute::Rows(|rows, _| rows.mean(|stat| stat.brier)),
    from_state: FromState::Exact(|state| state.brier_sum()),
};

/// The Brier score (1950): (1/N) Σᵢ Σⱼ (pᵢⱼ − 1{yᵢ = j})², K times [`brier`](fn@super::brier).
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, brier_sum};
///
/// let probs = array![[0.8_f64, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[0])?;
/// assert!((brier_sum(&predictions, &MetricOptions::default())? - 0.08).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn brier_sum(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::BrierSum.compute(predictions, options)
}

//! `nll`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "nll",
    name: "NLL",
    brief: "Negative log-likelihood, which rewards probabilities that are both calibrated and sharp: the mean of −log of the label's probability.",
    formula: "−(1/N) Σᵢ ln pᵢ(yᵢ)",
    range: "0 to infinity",
    caveat: "It mixes calibration with accuracy, and a few labels with tiny probabilities can decide it.",
    equals: "scikit-learn's log_loss",
    best: Best::Lowest,
    compute: Compute::Rows(|rows, options| {
        let largest = options.largest_nll();
        rows.mean(|stat| stat.nll.min(largest))
    }),
    from_state: FromState::Exact(|state| state.nll()),
};

/// The mean negative log-likelihood, −(1/N) Σ log p_y, in nats.
///
/// Of scores, log p_y is computed as score − logsumexp, so it is finite whatever the scores. Of
/// probabilities, a label with probability 0 makes the mean infinite: what happened was said to be
/// impossible. With [`clip`](MetricOptions::clip) > 0 the label's probability counts as at least that much.
/// Equal to scikit-learn's `log_loss`, which clips at 2.2e-16.
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
    Metric::Nll.compute(predictions, options)
}

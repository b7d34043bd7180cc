//! `adaptive_ece`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::{Binning, Sorted, norm_of_gaps};
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{Estimate, MetricOptions, MetricState, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "adaptive_ece",
    name: "Adaptive ECE",
    brief: "How far confidence is from accuracy: the mean gap between the two over bins of equally many rows.",
    formula: "Σ_B |B|/N · |acc(B) − conf(B)| over 15 bins of equally many rows",
    range: "0 to 1",
    caveat: "Chance makes it larger, the more so the fewer rows there are, and within a bin, confidences that are too high and too low cancel.",
    equals: "uncertainty-calibration's get_ece_em",
    best: Best::Lowest,
    compute: Compute::TopLabel(value),
    from_state: FromState::Estimated(|state| Some(estimate(state))),
};

fn value(rows: &Sorted<'_>, options: &MetricOptions) -> f64 {
    let bins = rows.bin_sums(Binning::EqualMass, options.bins);
    norm_of_gaps(&bins, options.norm)
}

/// The bound is 2δ for norm 1, where δ is the share of the weight in fine bins that a cut between two
/// equal-mass bins divides, and never more than twice the confidences and hits in those;
/// (2(2p − 1) δ)^(1/p) for norm p.
fn estimate(state: &MetricState) -> Estimate {
    let (fine, options) = (state.fine_rows(), state.options());
    let (weight, terms) = fine.shares_at_cuts(options.bins);
    let norm = options.norm;
    Estimate {
        value: value(&fine.sorted(), options),
        error_bound: if norm <= 1.0 {
            2.0 * weight.min(terms)
        } else {
            (2.0 * (2.0 * norm - 1.0) * weight).powf(1.0 / norm)
        },
    }
}

/// [`ece`](fn@super::ece) with 15 equal-mass bins (Nixon et al. 2019), which cannot hide all rows in one bin.
///
/// The bins are those of [`Binning::EqualMass`]: equal confidences share a bin, and N rows make at most N
/// bins. Equal to uncertainty-calibration's `get_ece_em`.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, adaptive_ece};
///
/// // Two rows make two bins, although both confidences are nearly the same.
/// let probs = array![[0.78_f64, 0.22], [0.80, 0.20]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// let expected = 0.5 * (1.0 - 0.78) + 0.5 * 0.80;
/// assert!((adaptive_ece(&predictions, &MetricOptions::default())? - expected).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn adaptive_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::AdaptiveEce.compute(predictions, options)
}

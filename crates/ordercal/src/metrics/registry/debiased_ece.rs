//! `debiased_ece`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::{Binning, debiased_square};
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{Estimate, MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "debiased_ece",
    name: "Debiased ECE",
    brief: "How far confidence is from accuracy: the root-mean-square gap over bins of equally many rows, minus what sampling noise adds to it.",
    formula: "√max(0, Σ_B |B|/N · ((conf − acc)² − acc(1 − acc)/(|B| − 1))) over 15 bins of equally many rows",
    range: "0 to 1",
    caveat: "It is a root mean square and not comparable with ece, and it is often exactly 0 for a small error on few rows.",
    equals: "uncertainty-calibration's lower_bound_scaling_top_ce",
    best: Best::Lowest,
    compute: Compute::TopLabel(|rows, options| {
        debiased_square(&rows.bin_sums(Binning::EqualMass, options.bins)).sqrt()
    }),
    from_state: FromState::Estimated(|state| {
        let (square, bound) = state.fine_rows().debiased_square(state.options().bins);
        Some(Estimate::root(square, bound))
    }),
};

/// The debiased calibration error of the top label (Kumar et al. 2019): a root-mean-square gap from which
/// the bias of estimating each bin's accuracy from few rows is subtracted.
///
/// √max(0, Σ |B|/N · ((conf − acc)² − acc(1 − acc)/(|B| − 1))) over 15 bins of [`Binning::EqualMass`];
/// bins of fewer than 2 rows add 0. Weights count rows: |B| is the sum of the weights. Equal to
/// uncertainty-calibration's `lower_bound_scaling_top_ce`.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, debiased_ece};
///
/// // Five rows with confidence 0.8, four of them right: no error that the data could show.
/// let probs = array![[0.8_f64, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 0, 0, 0, 1])?;
/// assert!(debiased_ece(&predictions, &MetricOptions::default())? < 1e-12);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn debiased_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::DebiasedEce.compute(predictions, options)
}

//! `ece_positive`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::{Binning, root};
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "ece_positive",
    name: "ECE (positive)",
    brief: "For two classes only, how far the probability of the second (positive) class is from its frequency: the mean gap between the two over bins of equal width.",
    formula: "Σ_B |B|/N · |share of positives in B − mean p in B| over 15 bins (lo, hi] of equal width",
    range: "0 to 1",
    caveat: "It is not ece, which looks at the predicted class of every row; with few positives nearly all rows are in the first bin.",
    equals: "the usual ECE of binary classifiers, Σ share · |gap| of scikit-learn's calibration_curve with 15 uniform bins where no probability lies on an edge",
    best: Best::Lowest,
    compute: Compute::PerClass(Binning::EqualWidth, |errors, options| {
        root(errors[1], options.norm)
    }),
    from_state: FromState::Estimated(|state| state.positive_error()),
};

/// The calibration error of the second of two classes: the binary [`ece`](fn@super::ece) of p₁ against 1{y = 1}.
///
/// ```
/// use ndarray::array;
/// use ordercal::Error;
/// use ordercal::metrics::{MetricOptions, Predictions, ece_positive};
///
/// let options = MetricOptions::default();
/// let probs = array![[0.9_f64, 0.1], [0.9, 0.1], [0.2, 0.8]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1])?;
/// assert!((ece_positive(&predictions, &options)? - (0.8 + 0.2) / 3.0).abs() < 1e-15);
///
/// let probs = array![[0.5_f64, 0.3, 0.2]];
/// let three = Predictions::from_probs(probs.view(), &[0])?;
/// assert!(matches!(ece_positive(&three, &options), Err(Error::MetricNotSupported { .. })));
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If there are more than two classes, or an option is out of range.
pub fn ece_positive(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::EcePositive.compute(predictions, options)
}

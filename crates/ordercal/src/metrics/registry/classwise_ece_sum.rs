//! `classwise_ece_sum`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::{Binning, root};
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "classwise_ece_sum",
    name: "Classwise ECE (sum)",
    brief: "How far every class's probability is from that class's frequency: the mean gap over 14 left-closed bins of equal width, added up over the classes as in Kull et al.",
    formula: "Σⱼ Σ_B |B|/N · |share of class j in B − mean pⱼ in B| over 14 bins [lo, hi) of equal width",
    range: "0 to K",
    caveat: "It grows with the number of classes, and has the weaknesses of classwise_ece.",
    equals: "the code of Kull et al. (2019) and the tables of Rahimi et al. (2020)",
    best: Best::Lowest,
    compute: Compute::PerClass(Binning::LeftClosed, |errors, options| {
        root(errors.iter().sum(), options.norm)
    }),
    from_state: FromState::Exact(|state| {
        let errors = state.class_errors(Binning::LeftClosed);
        root(errors.iter().sum(), state.options().norm)
    }),
};

/// The class-wise ECE in the tables of Kull et al. (2019) and of Rahimi et al. (2020): the *sum* over the
/// classes, with one bin fewer than [`bins`](MetricOptions::bins) (14), closed on the left.
///
/// Their code cuts at `np.linspace(0, 1, 15)`, which are 15 edges and so 14 bins, and a probability of
/// exactly 1 is in a bin of its own ([`Binning::LeftClosed`]); the tests compare with the same cuts in numpy.
/// It misleads as [`classwise_ece`](fn@super::classwise_ece) does. With [`norm`](MetricOptions::norm) p it is
/// the p-th root of the sum of the classes' p-th powers.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, classwise_ece_sum};
///
/// let probs = array![[0.9_f64, 0.1], [0.9, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// let value = classwise_ece_sum(&predictions, &MetricOptions::default())?;
/// assert!((value - (0.4 + 0.4)).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn classwise_ece_sum(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::ClasswiseEceSum.compute(predictions, options)
}

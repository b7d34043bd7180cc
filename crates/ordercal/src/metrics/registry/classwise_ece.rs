//! `classwise_ece`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::{Binning, root};
use crate::metrics::classwise::mean;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "classwise_ece",
    name: "Classwise ECE",
    brief: "How far every class's probability is from that class's frequency: the mean gap over bins of equal width, averaged over the classes.",
    formula: "(1/K) Σⱼ Σ_B |B|/N · |share of class j in B − mean pⱼ in B| over 15 bins of equal width",
    range: "0 to 1",
    caveat: "On balanced data it can be made nearly 0 by dividing all logits by 1000, and with many classes nearly all rows are in the first bin; read it with ece or nll.",
    equals: "uncertainty-calibration's lower_bound_scaling_ce with mode='marginal', debias=False and bins of equal width",
    best: Best::Lowest,
    compute: Compute::PerClass(Binning::EqualWidth, |errors, options| {
        root(mean(errors), options.norm)
    }),
    from_state: FromState::Exact(|state| {
        let errors = state.class_errors(Binning::EqualWidth);
        root(mean(&errors), state.options().norm)
    }),
};

/// The class-wise ECE: the mean over the classes of the binary [`ece`](fn@super::ece) of pⱼ against 1{y = j}.
///
/// (1/K) Σⱼ Σ_B |B|/N · |mean pⱼ − share of j| over 15 equal-width bins per class, closed on the right. A
/// class that no row has counts like any other. With [`norm`](MetricOptions::norm) p it is the p-th root of
/// the classes' mean p-th powers. Equal to uncertainty-calibration's `lower_bound_scaling_ce` with
/// `mode='marginal'`, `debias=False` and equal-width bins.
///
/// # Do not use it alone
/// On balanced data it can be made to look perfect without calibrating anything (Rahimi et al. 2020,
/// appendix): divide all logits by 1000. Every pⱼ becomes nearly 1/K, so all rows of a class fall into one
/// bin, where the mean probability is 1/K and so is the share of the class. Nothing was learned: the top
/// label's confidence is 1/K whatever its accuracy, and `ece`, `nll` and `brier` show it. Read it together
/// with one of those, or use [`marginal_ce`](fn@super::marginal_ce), whose equal-mass bins keep rows apart. The
/// example `classwise_ece_misleads` shows the numbers.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, classwise_ece};
///
/// // Uninformative, yet perfect by this metric, because both classes are equally frequent.
/// let probs = array![[0.5_f64, 0.5], [0.5, 0.5]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!(classwise_ece(&predictions, &MetricOptions::default())? < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn classwise_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::ClasswiseEce.compute(predictions, options)
}

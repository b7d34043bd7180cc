//! `top5`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "top5",
    name: "Top-5 accuracy",
    brief: "How often the label is near the top: the share of rows whose label is among the 5 most probable classes.",
    formula: "(1/N) Σᵢ 1{yᵢ is among the 5 largest of pᵢ}",
    range: "0 to 1",
    caveat: "It says nothing about the probabilities, and with 5 classes or fewer it is always 1.",
    equals: "scikit-learn's top_k_accuracy_score where no probabilities are tied",
    best: Best::Highest,
    compute: Compute::Rows(|rows, options| rows.top_k(options.top_k)),
    from_state: FromState::Exact(|state| state.top_k_accuracy()),
};

/// The share of rows whose label is among the [`top_k`](MetricOptions::top_k) (default 5) most probable
/// classes.
///
/// Equally probable classes are in order of their index. With `top_k` ≥ K it is 1. Equal to scikit-learn's
/// `top_k_accuracy_score` where no probabilities are tied.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, top_k_accuracy};
///
/// let probs = array![[0.6_f64, 0.3, 0.1], [0.6, 0.3, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 2])?;
/// let top_two = MetricOptions::default().with_top_k(2);
/// assert!((top_k_accuracy(&predictions, &top_two)? - 0.5).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn top_k_accuracy(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Top5.compute(predictions, options)
}

//! `accuracy`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "accuracy",
    name: "Accuracy",
    brief: "How often the prediction is right: the share of rows whose most probable class is the label.",
    formula: "(1/N) Σᵢ 1{argmax pᵢ = yᵢ}",
    range: "0 to 1",
    caveat: "It says nothing about the probabilities, and no calibrator that keeps the order can change it.",
    equals: "scikit-learn's accuracy_score of the argmax",
    best: Best::Highest,
    compute: Compute::Rows(|rows, _| rows.top_k(1)),
    from_state: FromState::Exact(|state| state.accuracy()),
};

/// The share of rows whose most probable class is the label.
///
/// Of equally probable classes the first is the prediction. Equal to scikit-learn's `accuracy_score` of the
/// argmax.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, accuracy};
///
/// let probs = array![[0.6_f64, 0.4], [0.5, 0.5], [0.1, 0.9]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1])?;
/// assert!((accuracy(&predictions, &MetricOptions::default())? - 2.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn accuracy(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Accuracy.compute(predictions, options)
}

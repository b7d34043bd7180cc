//! `cox_intercept`.

use super::Metric;
use crate::error::Result;
use crate::metrics::cox;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{Estimate, MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "cox_intercept",
    name: "Cox intercept",
    brief: "Whether probabilities are too low or too high at even odds: the intercept of the logistic regression that gives cox_slope, above 0 if they are too low.",
    formula: "a of the logistic regression ln(P/(1 − P)) = a + b · ln(p/(1 − p)), where P is the true probability of an outcome that was given p",
    range: "any number; 0 if calibrated",
    caveat: "It is fitted together with the slope, so it is not the intercept for a slope of 1 (calibration in the large); the outcome is that the prediction is right, or with two classes that the label is the second.",
    equals: "an unpenalised logistic regression on the log-odds, as of scikit-learn's LogisticRegression(C=inf)",
    best: Best::Value(0.0),
    compute: Compute::Rows(|rows, _| {
        cox::fit(&cox::points(rows)).map_or(f64::NAN, |fit| fit.intercept)
    }),
    from_state: FromState::Estimated(|state| {
        let (fit, bounds) = state.cox()?;
        Some(Estimate {
            value: fit.map_or(f64::NAN, |fit| fit.intercept),
            error_bound: bounds[0],
        })
    }),
};

/// The intercept of Cox's recalibration (1958), beside its [`slope`](fn@super::cox_slope).
///
/// ```
/// use ordercal::metrics::{MetricOptions, Predictions, cox_intercept};
///
/// // The second class happens once in 5 at 0.1, and 4 times in 5 at 0.6.
/// let probs = ndarray::Array2::from_shape_fn((10, 2), |(row, class)| {
///     let p = if row < 5 { 0.1_f64 } else { 0.6 };
///     [1.0 - p, p][class]
/// });
/// let predictions = Predictions::from_probs(probs.view(), &[0, 0, 0, 0, 1, 1, 1, 1, 1, 0])?;
/// let (low, high) = ((0.1_f64 / 0.9).ln(), (0.6_f64 / 0.4).ln());
/// let slope = (4_f64.ln() - 0.25_f64.ln()) / (high - low);
/// let intercept = cox_intercept(&predictions, &MetricOptions::default())?;
/// assert!((intercept - (4_f64.ln() - slope * high)).abs() < 1e-9);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn cox_intercept(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::CoxIntercept.compute(predictions, options)
}

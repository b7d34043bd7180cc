//! `cox_slope`.

use super::Metric;
use crate::error::Result;
use crate::metrics::cox;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{Estimate, MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "cox_slope",
    name: "Cox slope",
    brief: "Whether probabilities are too extreme: the slope of a logistic regression of the outcome on the log-odds of its probability, below 1 if they are too extreme and above 1 if they are too cautious.",
    formula: "b of the logistic regression ln(P/(1 − P)) = a + b · ln(p/(1 − p)), where P is the true probability of an outcome that was given p",
    range: "any number; 1 if calibrated",
    caveat: "The outcome is that the prediction is right, or with two classes that the label is the second; a single confident error can change it much; undefined (NaN) if all outcomes are the same or a threshold of the probability separates them.",
    equals: "an unpenalised logistic regression on the log-odds, as of scikit-learn's LogisticRegression(C=inf)",
    best: Best::Value(1.0),
    compute: Compute::Rows(|rows, _| {
        cox::fit(&cox::points(rows)).map_or(f64::NAN, |fit| fit.slope)
    }),
    from_state: FromState::Estimated(|state| {
        let (fit, bounds) = state.cox()?;
        Some(Estimate {
            value: fit.map_or(f64::NAN, |fit| fit.slope),
            error_bound: bounds[1],
        })
    }),
};

/// The slope of Cox's recalibration (1958): b of logit P(it happens) = a + b · logit p, by maximum likelihood.
///
/// With two classes p is the probability of the second, as in the clinical literature; with more, the confidence, and
/// what happens is that the prediction is right. Probabilities closer to 0 or 1 than 2⁻⁵³ count as that close. NaN if
/// the likelihood has no maximum.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, cox_slope};
///
/// // "80 % sure" is right 3 times in 4: overconfident.
/// let probs = array![[0.8_f64, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8], [0.2, 0.8], [0.2, 0.8]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 0, 0, 1, 1, 1, 1, 0])?;
/// let slope = cox_slope(&predictions, &MetricOptions::default())?;
/// assert!((slope - 3_f64.ln() / 4_f64.ln()).abs() < 1e-9);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn cox_slope(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::CoxSlope.compute(predictions, options)
}

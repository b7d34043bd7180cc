//! `auroc`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::ranking::{Tied, by_descending_confidence, totals};
use crate::metrics::{Estimate, MetricOptions, MetricState, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "auroc",
    name: "AUROC",
    brief: "How well confidence separates right from wrong predictions: the probability that a right one has a higher confidence than a wrong one, where a tie counts as half.",
    formula: "P(conf of a right row > conf of a wrong row) + ½ P(they are equal)",
    range: "0 to 1, 0.5 for chance",
    caveat: "It reads only the order of the confidences, so it is blind to calibration, and it cannot be compared between classifiers of different accuracy; undefined (NaN) if all predictions are right or all are wrong.",
    equals: "scikit-learn's roc_auc_score(hit, confidence)",
    best: Best::Highest,
    compute: Compute::TopLabel(|rows, _| area(&by_descending_confidence(rows))),
    from_state: FromState::Estimated(|state| Some(estimate(state))),
};

fn area(groups: &[Tied]) -> f64 {
    let total = totals(groups);
    let mut wrong_above = 0.0;
    let mut pairs = 0.0;
    for group in groups {
        pairs += group.right * (total.wrong - wrong_above - 0.5 * group.wrong);
        wrong_above += group.wrong;
    }
    if total.right > 0.0 && total.wrong > 0.0 {
        pairs / (total.right * total.wrong)
    } else {
        f64::NAN
    }
}

/// Rows in one fine bin count as tied: the bound is half the share of such pairs.
fn estimate(state: &MetricState) -> Estimate {
    let groups = by_descending_confidence(&state.fine_rows().sorted());
    let total = totals(&groups);
    let tied: f64 = groups.iter().map(|group| group.right * group.wrong).sum();
    let value = area(&groups);
    let error_bound = if value.is_nan() {
        0.0
    } else {
        0.5 * tied / (total.right * total.wrong)
    };
    Estimate { value, error_bound }
}

/// The area under the ROC curve of the confidence against whether the prediction is right.
///
/// Also called failure prediction or misclassification detection (Hendrycks and Gimpel 2017). Equal to
/// scikit-learn's `roc_auc_score(hit, confidence)`.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, auroc};
///
/// let probs = array![[0.9_f64, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 0, 1])?;
/// // Of four pairs of a right and a wrong row, one is in the wrong order.
/// assert!((auroc(&predictions, &MetricOptions::default())? - 0.75).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn auroc(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Auroc.compute(predictions, options)
}

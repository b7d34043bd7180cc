//! `accuracy_at_coverage`.

use super::Metric;
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::ranking::{Tied, by_descending_confidence, totals};
use crate::metrics::{Estimate, MetricOptions, MetricState, Predictions};

/// The share of the rows that is answered.
const COVERAGE: f64 = 0.8;

pub(super) const DEFINITION: Definition = Definition {
    key: "accuracy_at_coverage",
    name: "Accuracy at 80% coverage",
    brief: "How accurate a classifier is that answers only its most confident 80% of the rows: the share of right ones among them.",
    formula: "(1/0.8N) Σ 1{argmax pᵢ = yᵢ} over the 0.8N rows with the largest confᵢ; where rows are tied at the end, all of them count, by the share that is needed",
    range: "0 to 1",
    caveat: "It reads only the order of the confidences, so it is blind to calibration, and it looks at one coverage only; aurc looks at all.",
    equals: "scikit-learn's accuracy_score of the rows above the 20% quantile of the confidence, where no confidences are tied",
    best: Best::Highest,
    compute: Compute::TopLabel(|rows, _| accuracy_of_first(&by_descending_confidence(rows)).value),
    from_state: FromState::Estimated(|state| Some(estimate(state))),
};

/// The bound is right for a state, too: within a fine bin the rows may be in any order.
fn estimate(state: &MetricState) -> Estimate {
    accuracy_of_first(&by_descending_confidence(&state.fine_rows().sorted()))
}

/// The accuracy of the first rows, and how much the order of the rows within the last group can change it.
fn accuracy_of_first(groups: &[Tied]) -> Estimate {
    let wanted = COVERAGE * totals(groups).weight();
    let mut above = Tied::default();
    for group in groups {
        let part = wanted - above.weight();
        if group.weight() >= part {
            let value = above.right + group.right * (part / group.weight());
            let lowest = above.right + (part - group.wrong).max(0.0);
            let highest = above.right + group.right.min(part);
            return Estimate {
                value: value / wanted,
                error_bound: (highest - value).max(value - lowest).max(0.0) / wanted,
            };
        }
        above.right += group.right;
        above.wrong += group.wrong;
    }
    // Rounding can leave the weight of all rows a little below the weight wanted.
    Estimate {
        value: above.right / above.weight(),
        error_bound: 0.0,
    }
}

/// The accuracy of the 80% of the rows whose confidence is largest: a point of the risk–coverage curve.
///
/// Of rows with equal confidences at the end, each counts in part, which is the mean over all orders of them.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, accuracy_at_coverage};
///
/// let probs = array![[0.9_f64, 0.1], [0.8, 0.2], [0.7, 0.3], [0.65, 0.35], [0.6, 0.4]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 0, 1, 0, 1])?;
/// assert!((accuracy_at_coverage(&predictions, &MetricOptions::default())? - 0.75).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn accuracy_at_coverage(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::AccuracyAtCoverage.compute(predictions, options)
}

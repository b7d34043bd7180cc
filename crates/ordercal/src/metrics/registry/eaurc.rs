//! `eaurc`.

use super::{Metric, aurc};
use crate::error::Result;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::ranking::{Tied, by_descending_confidence, totals};
use crate::metrics::{Estimate, MetricOptions, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "eaurc",
    name: "Excess AURC",
    brief: "What the order of the confidences costs: aurc minus what it would be if every right prediction were more confident than every wrong one.",
    formula: "aurc − (r + (1 − r) ln(1 − r)), where r is the error rate",
    range: "0 to 1",
    caveat: "It reads only the order of the confidences, so it is blind to calibration, and its scale depends on the error rate.",
    equals: "its definition by Geifman et al. (2019) where no confidences are tied",
    best: Best::Lowest,
    compute: Compute::TopLabel(|rows, _| excess(&by_descending_confidence(rows))),
    from_state: FromState::Estimated(|state| {
        let risk = aurc::estimate(state);
        Some(Estimate {
            value: (risk.value - best_risk(1.0 - state.accuracy())).max(0.0),
            error_bound: risk.error_bound,
        })
    }),
};

fn excess(groups: &[Tied]) -> f64 {
    let total = totals(groups);
    (aurc::mean_risk(groups) - best_risk(total.wrong / total.weight())).max(0.0)
}

/// The area if all right predictions come first, for many rows.
fn best_risk(error_rate: f64) -> f64 {
    let right = 1.0 - error_rate;
    if right > 0.0 {
        error_rate + right * right.ln()
    } else {
        1.0
    }
}

/// The excess area under the risk–coverage curve (Geifman et al. 2019): [`aurc`](fn@super::aurc) minus the area of the
/// best order of the rows, r + (1 − r) ln(1 − r) for the error rate r.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, eaurc};
///
/// let probs = array![[0.9_f64, 0.1], [0.8, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 0])?;
/// let best = 0.5 + 0.5 * 0.5_f64.ln();
/// let expected = (1.0 + 0.5) / 2.0 - best;
/// assert!((eaurc(&predictions, &MetricOptions::default())? - expected).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn eaurc(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Eaurc.compute(predictions, options)
}

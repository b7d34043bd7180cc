//! What class-by-class maps share: the log-odds ℓ = ln(p/(1 − p)) of each class, and the way back from one
//! probability per class to a distribution.

use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

/// Log-odds are clamped to ± this, as in the library.
const LARGEST_LOG_ODDS: f64 = 500.0;

/// Applies a map per class. `map` gets the log-odds, N×maps, and returns calibrated probabilities of the same
/// shape: one map per class, or for two classes the second's alone. The result is normalised and mixed with a
/// `share` of the uniform distribution.
pub fn logits(
    graph: &mut Graph,
    scores: &GraphScores,
    share: f64,
    map: impl FnOnce(&mut Graph, &Value) -> Value,
) -> Value {
    let log_odds = log_odds(graph, scores);
    let probabilities = if scores.classes == 2 {
        let second = graph.columns(&log_odds, 1, 2);
        let second = map(graph, &second);
        let one = graph.double(1.0);
        let first = graph.sub(&one, &second);
        graph.op_with("Concat", &[&first, &second], &[("axis", -1)])
    } else {
        map(graph, &log_odds)
    };
    // A row whose probabilities are all 0 becomes uniform.
    let total = scores.sum(graph, &probabilities);
    let count = scores.possible(graph);
    let (one, zero) = (graph.double(1.0), graph.double(0.0));
    let uniform = graph.op("Div", &[&one, &count]);
    let some = graph.op("Greater", &[&total, &zero]);
    let divisor = graph.select(&some, &total, &one);
    let normalised = graph.op("Div", &[&probabilities, &divisor]);
    let normalised = graph.select(&some, &normalised, &uniform);
    let kept = graph.scale(&normalised, 1.0 - share);
    let mixed_in = graph.scale(&uniform, share);
    let mixed = graph.add(&kept, &mixed_in);
    let logs = graph.op("Log", &[&mixed]);
    scores.mask(graph, &logs)
}

/// ℓ_k = x_k − ln Σ_{j≠k} e^(x_j), clamped; the value for a masked class is of no use.
fn log_odds(graph: &mut Graph, scores: &GraphScores) -> Value {
    let max = graph.reduce("ReduceMax", &scores.scores);
    let below = graph.sub(&scores.scores, &max);
    let exps = graph.op("Exp", &[&below]);
    let top = graph.op("Equal", &[&scores.scores, &max]);
    let tops = graph.cast_f64(&top);
    let tops = graph.reduce("ReduceSum", &tops);
    let zero = graph.double(0.0);
    let small = graph.select(&top, &zero, &exps);
    let small = graph.reduce("ReduceSum", &small);
    // Σ − e_k, without the cancellation that would leave nothing of the rest of a top class.
    let other_tops = graph.offset(&tops, -1.0);
    let rest_of_top = graph.add(&small, &other_tops);
    let sum = graph.add(&small, &tops);
    let rest_of_others = graph.sub(&sum, &exps);
    let rest = graph.select(&top, &rest_of_top, &rest_of_others);
    let log_rest = graph.op("Log", &[&rest]);
    let log_odds = graph.sub(&below, &log_rest);
    graph.clamp(&log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
}

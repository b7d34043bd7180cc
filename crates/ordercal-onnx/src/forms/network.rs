//! The network families: a perceptron on scaled scores, and for those that keep the order the way from
//! multipliers of gaps to logits.

use ordercal::{NetworkParts, Wiring};

use super::Rows;
use crate::graph::{Graph, Value};

/// The logits.
pub fn logits(graph: &mut Graph, rows: &Rows, parts: &NetworkParts) -> Value {
    let classes = parts.classes;
    let shift = rows.shift(graph, parts.input);
    let read = |graph: &mut Graph, scores: &Value| {
        let shifted = match &shift {
            None => scores.clone(),
            Some(shift) => graph.sub(scores, shift),
        };
        let scale = graph.double(parts.scale);
        let scaled = graph.op("Div", &[&shifted, &scale]);
        let held = graph.hold(&scaled, parts.range.0, parts.range.1);
        graph.narrow(&held)
    };
    if parts.wiring == Wiring::ClassesToLogits {
        let inputs = read(graph, &rows.filled);
        let outputs = perceptron(graph, &inputs, parts);
        let outputs = graph.widen(&outputs);
        return rows.mask(graph, &outputs);
    }

    let count = graph.integers(&[classes as i64]);
    let [sorted, order] = graph.ops(
        "TopK",
        &[&rows.filled, &count],
        &[("axis", -1), ("largest", 1), ("sorted", 1)],
    );
    let inputs = match parts.wiring {
        Wiring::SortedToGaps => read(graph, &sorted),
        _ => read(graph, &rows.filled),
    };
    let outputs = perceptron(graph, &inputs, parts);
    let multipliers = multipliers(graph, &outputs);

    // The last gap is 0: the smallest class stands at 0, and masked ones with it until they are masked.
    let behind = graph.columns(&sorted, 1, classes);
    let last = graph.columns(&sorted, classes - 1, classes);
    let next = graph.op_with("Concat", &[&behind, &last], &[("axis", -1)]);
    let gaps = graph.sub(&sorted, &next);
    let tempered = graph.scale(&gaps, parts.beta);
    let steps = graph.mul(&tempered, &multipliers);
    let axis = graph.integers(&[1]);
    let levels = graph.op_with("CumSum", &[&steps, &axis], &[("reverse", 1)]);
    let placed = graph.op_with(
        "ScatterElements",
        &[&rows.filled, &order, &levels],
        &[("axis", 1)],
    );
    rows.mask(graph, &placed)
}

fn perceptron(graph: &mut Graph, inputs: &Value, parts: &NetworkParts) -> Value {
    let mut widths = vec![parts.classes];
    widths.extend_from_slice(&parts.hidden);
    widths.push(parts.classes);
    let last = widths.len() - 2;
    let mut rest = parts.params.as_slice();
    let mut values = inputs.clone();
    for (layer, pair) in widths.windows(2).enumerate() {
        let (weights, behind) = rest.split_at(pair[0] * pair[1]);
        let (biases, behind) = behind.split_at(pair[1]);
        rest = behind;
        let weights = graph.floats(weights, &[pair[0], pair[1]]);
        let biases = graph.floats(biases, &[pair[1]]);
        values = graph.op("MatMul", &[&values, &weights]);
        values = graph.add(&values, &biases);
        if layer < last {
            values = graph.op("Relu", &[&values]);
        }
    }
    values
}

/// The softplus of z + c, c such that z = 0 gives 1; never 0, so that no strict step vanishes.
fn multipliers(graph: &mut Graph, outputs: &Value) -> Value {
    let unit = (std::f64::consts::E - 1.0).ln();
    let z = graph.widen(outputs);
    let z = graph.offset(&z, unit);
    let zero = graph.double(0.0);
    let positive = graph.op("Max", &[&z, &zero]);
    let size = graph.op("Abs", &[&z]);
    let minus = graph.op("Neg", &[&size]);
    let e = graph.op("Exp", &[&minus]);
    // ln(1 + e): the factor makes up for what was lost in 1 + e, and where all was lost e is the answer.
    let one_more = graph.offset(&e, 1.0);
    let kept = graph.offset(&one_more, -1.0);
    let lost = graph.op("Equal", &[&kept, &zero]);
    let log = graph.op("Log", &[&one_more]);
    let ratio = graph.op("Div", &[&e, &kept]);
    let log = graph.mul(&log, &ratio);
    let log = graph.choose(&lost, &e, &log);
    let softplus = graph.add(&positive, &log);
    let least = graph.double(f64::from(f32::MIN_POSITIVE));
    graph.op("Max", &[&softplus, &least])
}

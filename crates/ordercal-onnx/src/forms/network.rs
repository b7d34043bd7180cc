//! Networks: a perceptron on scaled scores. In the order-preserving families its outputs are the multipliers of
//! the gaps between sorted scores, and the logits are cumulative sums of the multiplied gaps.

use ordercal::models::{NetworkModel, NetworkParts, Wiring};

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for NetworkModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let parts = self.to_parts();
        let classes = parts.classes;
        let shift = scores.shift(graph, parts.input);
        // The rest is an input of its own if the network reads the top scores only.
        let run = |graph: &mut Graph, scores: &Value, rest: Option<&Value>| {
            let read = match rest {
                None => scores.clone(),
                Some(rest) => graph.op_with("Concat", &[scores, rest], &[("axis", -1)]),
            };
            let shifted = match &shift {
                None => read,
                Some(shift) => graph.sub(&read, shift),
            };
            let scale = graph.double(parts.scale);
            let scaled = graph.op("Div", &[&shifted, &scale]);
            let clamped = graph.clamp(&scaled, parts.range.0, parts.range.1);
            let inputs = graph.cast_f32(&clamped);
            let outputs = perceptron(graph, &inputs, &parts);
            graph.cast_f64(&outputs)
        };
        if parts.wiring == Wiring::ClassesToLogits {
            let logits = run(graph, &scores.filled, None);
            return Ok(scores.mask(graph, &logits));
        }

        let (sorted, order) = graph.sort(&scores.filled, classes, true);
        let rest = parts.top.map(|top| log_mass(graph, scores, &sorted, top));
        let read = match (parts.wiring, parts.top) {
            (Wiring::SortedToGaps, None) => sorted.clone(),
            (Wiring::SortedToGaps, Some(top)) => graph.columns(&sorted, 0, top),
            (_, None) => scores.filled.clone(),
            (_, Some(top)) => {
                let least = graph.columns(&sorted, top, top + 1);
                graph.op("Max", &[&scores.filled, &least])
            }
        };
        let outputs = run(graph, &read, rest.as_ref());
        let mut multipliers = multipliers(graph, &outputs);
        if let Some(top) = parts.top {
            // All gaps behind the top scores share the last multiplier.
            let own = graph.columns(&multipliers, 0, top);
            let last = graph.columns(&multipliers, top, top + 1);
            let zeros = graph.doubles(&vec![0.0; classes - top], &[1, classes - top]);
            let shared = graph.add(&last, &zeros);
            multipliers = graph.op_with("Concat", &[&own, &shared], &[("axis", -1)]);
        }

        // The last gap is 0, so the smallest class has logit 0; masked classes share it until they are masked.
        let behind = graph.columns(&sorted, 1, classes);
        let last = graph.columns(&sorted, classes - 1, classes);
        let next = graph.op_with("Concat", &[&behind, &last], &[("axis", -1)]);
        let gaps = graph.sub(&sorted, &next);
        let tempered = graph.scale(&gaps, parts.beta);
        let steps = graph.mul(&tempered, &multipliers);
        let axis = graph.integers(&[1]);
        let levels = graph.op_with("CumSum", &[&steps, &axis], &[("reverse", 1)]);
        let placed = graph.scatter_columns(&scores.filled, &order, &levels);
        Ok(scores.mask(graph, &placed))
    }
}

/// N×1: ln Σ e^y over the scores behind the `top` largest ones, in 32 bits as in the library; `-inf` if there is none.
fn log_mass(graph: &mut Graph, scores: &GraphScores, sorted: &Value, top: usize) -> Value {
    let classes = scores.classes;
    let behind = graph.columns(sorted, top, classes);
    let largest = graph.columns(sorted, top, top + 1);
    let below = graph.sub(&behind, &largest);
    let terms = graph.op("Exp", &[&below]);
    // Masked classes are sorted last.
    let places: Vec<f64> = (top..classes).map(|place| place as f64).collect();
    let places = graph.doubles(&places, &[1, classes - top]);
    let possible = scores.possible(graph);
    let exists = graph.op("Greater", &[&possible, &places]);
    let zero = graph.double(0.0);
    let terms = graph.select(&exists, &terms, &zero);
    let sum = graph.reduce("ReduceSum", &terms);
    let log = graph.op("Log", &[&sum]);
    let mass = graph.add(&largest, &log);
    let rounded = graph.cast_f32(&mass);
    graph.cast_f64(&rounded)
}

fn perceptron(graph: &mut Graph, inputs: &Value, parts: &NetworkParts) -> Value {
    let (inputs_width, outputs_width) = parts.ends();
    let mut widths = vec![inputs_width];
    widths.extend_from_slice(&parts.hidden);
    widths.push(outputs_width);
    let last = widths.len() - 2;
    let mut params = parts.params.as_slice();
    let mut values = inputs.clone();
    for (layer, pair) in widths.windows(2).enumerate() {
        let (weights, rest) = params.split_at(pair[0] * pair[1]);
        let (biases, rest) = rest.split_at(pair[1]);
        params = rest;
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

/// softplus(z + c) with c such that z = 0 gives 1. Never 0, so that distinct scores stay distinct.
fn multipliers(graph: &mut Graph, outputs: &Value) -> Value {
    let c = (std::f64::consts::E - 1.0).ln();
    let z = graph.offset(outputs, c);
    let softplus = graph.softplus(&z);
    let least = graph.double(f64::from(f32::MIN_POSITIVE));
    graph.op("Max", &[&softplus, &least])
}

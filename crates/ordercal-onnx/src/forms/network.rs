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
        let run = |graph: &mut Graph, scores: &Value| {
            let shifted = match &shift {
                None => scores.clone(),
                Some(shift) => graph.sub(scores, shift),
            };
            let scale = graph.double(parts.scale);
            let scaled = graph.op("Div", &[&shifted, &scale]);
            let clamped = graph.clamp(&scaled, parts.range.0, parts.range.1);
            let inputs = graph.cast_f32(&clamped);
            let outputs = perceptron(graph, &inputs, &parts);
            graph.cast_f64(&outputs)
        };
        if parts.wiring == Wiring::ClassesToLogits {
            let logits = run(graph, &scores.filled);
            return Ok(scores.mask(graph, &logits));
        }

        let (sorted, order) = graph.sort(&scores.filled, classes, true);
        let outputs = match parts.wiring {
            Wiring::SortedToGaps => run(graph, &sorted),
            _ => run(graph, &scores.filled),
        };
        let multipliers = multipliers(graph, &outputs);

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

fn perceptron(graph: &mut Graph, inputs: &Value, parts: &NetworkParts) -> Value {
    let mut widths = vec![parts.classes];
    widths.extend_from_slice(&parts.hidden);
    widths.push(parts.classes);
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

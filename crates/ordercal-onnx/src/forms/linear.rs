//! Linear maps: u + uD + b of a row's features u.

use ordercal::models::{Features, LinearModel};

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for LinearModel {
    /// The features and the product with D are computed in 32 bits, as in the library.
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let parts = self.to_parts();
        let classes = parts.classes;
        let features = features(graph, scores, &parts.features);
        let features = graph.cast_f32(&features);
        let changes = if parts.deviation.len() == classes {
            let diagonal = graph.floats(&parts.deviation, &[classes]);
            graph.mul(&features, &diagonal)
        } else {
            let matrix = graph.floats(&parts.deviation, &[classes, classes]);
            graph.op("MatMul", &[&features, &matrix])
        };
        let features = graph.cast_f64(&features);
        let changes = graph.cast_f64(&changes);
        let sum = graph.add(&features, &changes);
        let bias: Vec<f64> = parts.bias.iter().map(|&b| f64::from(b)).collect();
        let bias = graph.doubles(&bias, &[classes]);
        let sum = graph.add(&sum, &bias);
        Ok(scores.mask(graph, &sum))
    }
}

fn features(graph: &mut Graph, scores: &GraphScores, features: &Features) -> Value {
    match features {
        Features::Tempered { input, beta, range } => {
            let shifted = scores.shifted(graph, *input);
            let scaled = graph.scale(&shifted, *beta);
            graph.clamp(&scaled, range.0, range.1)
        }
        Features::Mixed { beta, share } => {
            let logs = scores.tempered(graph, *beta);
            let probabilities = graph.op("Exp", &[&logs]);
            let kept = graph.scale(&probabilities, 1.0 - share);
            let count = scores.possible(graph);
            let share = graph.double(*share);
            let uniform = graph.op("Div", &[&share, &count]);
            let mixed = graph.add(&kept, &uniform);
            let filled = scores.fill(graph, &mixed);
            graph.op("Log", &[&filled])
        }
        _ => unreachable!("features without a graph"),
    }
}

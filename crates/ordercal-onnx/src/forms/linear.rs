//! Linear maps: u + uD + b of a row's features u.

use ordercal::{Features, LinearParts};

use super::Rows;
use crate::graph::{Graph, Value};

/// The logits. Features and the product with D are in 32 bits, as in the library.
pub fn logits(graph: &mut Graph, rows: &Rows, parts: &LinearParts) -> Value {
    let features = features(graph, rows, &parts.features);
    let narrow = graph.narrow(&features);
    let classes = parts.classes;
    let changes = if parts.deviation.len() == classes {
        let deviation = graph.floats(&parts.deviation, &[classes]);
        graph.mul(&narrow, &deviation)
    } else {
        let deviation = graph.floats(&parts.deviation, &[classes, classes]);
        graph.op("MatMul", &[&narrow, &deviation])
    };
    let features = graph.widen(&narrow);
    let changes = graph.widen(&changes);
    let sum = graph.add(&features, &changes);
    let bias: Vec<f64> = parts.bias.iter().map(|&b| f64::from(b)).collect();
    let bias = graph.doubles(&bias, &[classes]);
    let sum = graph.add(&sum, &bias);
    rows.mask(graph, &sum)
}

fn features(graph: &mut Graph, rows: &Rows, features: &Features) -> Value {
    match features {
        Features::Tempered { input, beta, range } => {
            let shifted = rows.shifted(graph, *input);
            let scaled = graph.scale(&shifted, *beta);
            graph.hold(&scaled, range.0, range.1)
        }
        Features::Mixed { beta, share } => {
            let logs = rows.tempered(graph, *beta);
            let probabilities = graph.op("Exp", &[&logs]);
            let kept = graph.scale(&probabilities, 1.0 - share);
            let count = rows.possible(graph);
            let share = graph.double(*share);
            let uniform = graph.op("Div", &[&share, &count]);
            let mixed = graph.add(&kept, &uniform);
            // What is masked reads the row's smallest possible value.
            let everything = graph.double(f64::INFINITY);
            let possible = graph.choose(&rows.masked, &everything, &mixed);
            let smallest = graph.reduce("ReduceMin", &possible, 1);
            let filled = graph.choose(&rows.masked, &smallest, &mixed);
            graph.op("Log", &[&filled])
        }
        _ => unreachable!("features without a graph"),
    }
}

//! One increasing function f̄ for all classes, quadratic between the nodes of an even grid.

use ordercal::models::DiagModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for DiagModel {
    /// Piece k starts at a node; at u grid steps h from there, f̄ = value_k + h·u·(slope_k + u/2·change_k). Two
    /// straight pieces continue f̄ beyond the ends of the grid.
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let (low, high) = self.range();
        let intervals = (self.slopes().len() - 1) as f64;
        let step = (high - low) / intervals;
        let pieces = Pieces::new(low, step, self.slopes());

        let shifted = scores.shifted(graph, self.input());
        let from_low = graph.offset(&shifted, -low);
        let step_value = graph.double(step);
        let position = graph.op("Div", &[&from_low, &step_value]);
        let floor = graph.op("Floor", &[&position]);
        let node = graph.clamp(&floor, 0.0, intervals);
        let u = graph.sub(&position, &node);
        let piece = graph.clamp(&floor, -1.0, intervals);
        let piece = graph.offset(&piece, 1.0);
        let piece = graph.cast_i64(&piece);

        let mut of_piece = |numbers: &[f64]| {
            let list = graph.doubles(numbers, &[numbers.len()]);
            graph.look_up(&list, &piece)
        };
        let value = of_piece(&pieces.values);
        let slope = of_piece(&pieces.slopes);
        let change = of_piece(&pieces.changes);
        let half = graph.scale(&u, 0.5);
        let bend = graph.mul(&half, &change);
        let slope = graph.add(&slope, &bend);
        let distance = graph.scale(&u, step);
        let rise = graph.mul(&distance, &slope);
        let result = graph.add(&value, &rise);
        Ok(scores.mask(graph, &result))
    }
}

/// The coefficients of every piece: below the grid, its intervals, above the grid.
struct Pieces {
    values: Vec<f64>,
    slopes: Vec<f64>,
    changes: Vec<f64>,
}

impl Pieces {
    /// f̄ from its slopes at the nodes, with f̄(0) = 0.
    fn new(low: f64, step: f64, nodes: &[f64]) -> Self {
        let last = nodes.len() - 1;
        let mut pieces = Self {
            values: vec![0.0],
            slopes: vec![nodes[0]],
            changes: vec![0.0],
        };
        let mut value = 0.0;
        for pair in nodes.windows(2) {
            pieces.push(value, pair[0], pair[1] - pair[0]);
            value += 0.5 * step * (pair[0] + pair[1]);
        }
        pieces.push(value, nodes[last], 0.0);

        let position = -low / step;
        let node = position.floor().clamp(0.0, last as f64);
        let piece = (position.floor().clamp(-1.0, last as f64) + 1.0) as usize;
        let u = position - node;
        let slope = pieces.slopes[piece] + 0.5 * u * pieces.changes[piece];
        let at_zero = pieces.values[piece] + step * u * slope;
        for value in &mut pieces.values {
            *value -= at_zero;
        }
        pieces
    }

    fn push(&mut self, value: f64, slope: f64, change: f64) {
        self.values.push(value);
        self.slopes.push(slope);
        self.changes.push(change);
    }
}

//! A curve per class through knots (x, y), straight between them or in steps.
//!
//! Which knots a probability lies between is found by binary search, ⌈log₂(knots + 1)⌉ rounds of a look-up and
//! a comparison for all cells at once. The knots of all curves are in one list, so that curves may differ
//! in length.

use ordercal::models::{CurveKind, CurvesModel};

use super::{ToGraph, one_vs_rest};
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for CurvesModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let parts = self.to_parts();
        let knots = Knots::new(graph, &parts.knots, &parts.x, &parts.y);
        Ok(one_vs_rest::logits(
            graph,
            scores,
            parts.share,
            |graph, log_odds| {
                let p = graph.logistic(log_odds);
                let below = knots.count_below(graph, &p);
                match parts.kind {
                    CurveKind::Steps => knots.step(graph, &below),
                    CurveKind::Lines => knots.line(graph, &p, &below),
                }
            },
        ))
    }
}

/// The knots of all curves. Places and counts are 64-bit floats, which hold them exactly.
struct Knots {
    x: Value,
    y: Value,
    /// The place of each curve's first knot.
    first: Value,
    /// The place of each curve's last knot, counted from its first.
    last: Value,
    longest: u32,
}

impl Knots {
    fn new(graph: &mut Graph, knots: &[u32], x: &[f64], y: &[f64]) -> Self {
        let mut end = 0.0;
        let first: Vec<f64> = knots
            .iter()
            .map(|&count| {
                let first = end;
                end += f64::from(count);
                first
            })
            .collect();
        let last: Vec<f64> = knots.iter().map(|&count| f64::from(count) - 1.0).collect();
        Self {
            x: graph.doubles(x, &[x.len()]),
            y: graph.doubles(y, &[y.len()]),
            first: graph.doubles(&first, &[first.len()]),
            last: graph.doubles(&last, &[last.len()]),
            longest: knots.iter().copied().max().unwrap_or(1),
        }
    }

    /// `list` at a place of each cell's curve; places beyond the curve's ends mean the ends.
    fn at(&self, graph: &mut Graph, list: &Value, place: &Value) -> Value {
        let zero = graph.double(0.0);
        let place = graph.op("Max", &[place, &zero]);
        let place = graph.op("Min", &[&place, &self.last]);
        let place = graph.add(&self.first, &place);
        let place = graph.cast_i64(&place);
        graph.look_up(list, &place)
    }

    /// How many knots have x < p, or more than there are if all have.
    fn count_below(&self, graph: &mut Graph, p: &Value) -> Value {
        let mut count = graph.scale(p, 0.0);
        let mut step = f64::from((self.longest + 1).next_power_of_two() / 2);
        while step >= 1.0 {
            // Beyond the last knot the last one is compared: if it is below p, so are all.
            let last_counted = graph.offset(&count, step - 1.0);
            let x = self.at(graph, &self.x, &last_counted);
            let below = graph.op("Greater", &[p, &x]);
            let more = graph.offset(&count, step);
            count = graph.select(&below, &more, &count);
            step /= 2.0;
        }
        count
    }

    /// The y of the last knot below, or of the first.
    fn step(&self, graph: &mut Graph, below: &Value) -> Value {
        let place = graph.offset(below, -1.0);
        self.at(graph, &self.y, &place)
    }

    /// Linear interpolation between the last knot below and the next; constant beyond the ends.
    fn line(&self, graph: &mut Graph, p: &Value, below: &Value) -> Value {
        let place = graph.offset(below, -1.0);
        let [x0, y0] = [&self.x, &self.y].map(|list| self.at(graph, list, &place));
        let [x1, y1] = [&self.x, &self.y].map(|list| self.at(graph, list, below));
        let width = graph.sub(&x1, &x0);
        let (zero, one) = (graph.double(0.0), graph.double(1.0));
        let beyond = graph.op("Equal", &[&width, &zero]);
        let width = graph.select(&beyond, &one, &width);
        let along = graph.sub(p, &x0);
        let along = graph.op("Div", &[&along, &width]);
        let rise = graph.sub(&y1, &y0);
        let rise = graph.mul(&rise, &along);
        graph.add(&y0, &rise)
    }
}

//! One increasing function for all classes: a table of pieces, found by arithmetic on its even grid.

use ordercal::InputKind;

use super::Rows;
use crate::graph::{Graph, Value};

/// f̄ of every shifted score. On piece k, at u steps from its anchoring node,
/// f̄ = value_k + h·u·(slope_k + u/2·change_k); the pieces at either end are straight.
pub fn logits(
    graph: &mut Graph,
    rows: &Rows,
    input: InputKind,
    (low, high): (f64, f64),
    slopes: &[f64],
) -> Value {
    let intervals = slopes.len() - 1;
    let step = (high - low) / intervals as f64;
    let [values, starts, changes] = table(low, step, slopes);

    let shifted = rows.shifted(graph, input);
    let from_low = graph.offset(&shifted, -low);
    let step_value = graph.double(step);
    let position = graph.op("Div", &[&from_low, &step_value]);
    let floor = graph.op("Floor", &[&position]);
    let count = intervals as f64;
    let anchor = graph.hold(&floor, 0.0, count);
    let along = graph.sub(&position, &anchor);
    let piece = graph.hold(&floor, -1.0, count);
    let piece = graph.offset(&piece, 1.0);
    let piece = graph.count(&piece);

    let mut look_up = |numbers: &[f64]| {
        let table = graph.doubles(numbers, &[numbers.len()]);
        graph.op_with("Gather", &[&table, &piece], &[("axis", 0)])
    };
    let (value, slope, change) = (look_up(&values), look_up(&starts), look_up(&changes));
    let half = graph.scale(&along, 0.5);
    let bend = graph.mul(&half, &change);
    let slope = graph.add(&slope, &bend);
    let distance = graph.scale(&along, step);
    let rise = graph.mul(&distance, &slope);
    let result = graph.add(&value, &rise);
    rows.mask(graph, &result)
}

/// Value, slope and change of slope of every piece, with f̄(0) = 0.
fn table(low: f64, step: f64, slopes: &[f64]) -> [Vec<f64>; 3] {
    let last = slopes.len() - 1;
    let mut values = vec![0.0];
    let mut starts = vec![slopes[0]];
    let mut changes = vec![0.0];
    let mut value = 0.0;
    for pair in slopes.windows(2) {
        values.push(value);
        starts.push(pair[0]);
        changes.push(pair[1] - pair[0]);
        value += 0.5 * step * (pair[0] + pair[1]);
    }
    values.push(value);
    starts.push(slopes[last]);
    changes.push(0.0);

    let position = -low / step;
    let anchor = position.floor().clamp(0.0, last as f64);
    let piece = (position.floor().clamp(-1.0, last as f64) + 1.0) as usize;
    let along = position - anchor;
    let origin = values[piece] + step * along * (starts[piece] + 0.5 * along * changes[piece]);
    for value in &mut values {
        *value -= origin;
    }
    [values, starts, changes]
}

//! Any free form projected onto the input's order, without a loop.
//!
//! Pooling adjacent violators has a closed form. Along the sorted row, with m(j, k) the mean of positions j
//! to k, the pooled value at i is min over j ≤ i of max over k ≥ i of m(j, k), where j runs over first and k
//! over last positions of groups of equal scores. Both are exact in floats, so the result never rises
//! along the row and is equal for equal scores, whatever the rounding of the means.
//!
//! It takes K² numbers a row, hence a limit on K.

use ordercal::SLIVER;

use super::{Rows, log_sum};
use crate::onnx::OnnxError;
use crate::onnx::graph::{Graph, Value};

/// The most classes that a projection is written for: half a megabyte a row.
pub const MOST_CLASSES: usize = 256;

/// The logits of the projected model, given those of the free one.
pub fn logits(
    graph: &mut Graph,
    rows: &Rows,
    inner: &Value,
    beta: f64,
) -> Result<Value, OnnxError> {
    let classes = rows.classes;
    if classes > MOST_CLASSES {
        return Err(OnnxError::TooManyClasses {
            classes,
            most: MOST_CLASSES,
        });
    }
    let probabilities = graph.op_with("Softmax", &[inner], &[("axis", -1)]);
    let count = graph.integers(&[classes as i64]);
    // Sorted as they are: masked classes must not share a group with the smallest possible one.
    let [sorted, order] = graph.ops(
        "TopK",
        &[&rows.scores, &count],
        &[("axis", -1), ("largest", 1), ("sorted", 1)],
    );
    let along = graph.op_with("GatherElements", &[&probabilities, &order], &[("axis", 1)]);
    let pooled = pool(graph, classes, &sorted, &along);
    let placed = graph.op_with(
        "ScatterElements",
        &[&probabilities, &order, &pooled],
        &[("axis", 1)],
    );
    let zero = graph.double(0.0);
    let placed = graph.op("Max", &[&placed, &zero]);
    let logs = graph.op("Log", &[&placed]);
    let most = graph.offset(&logs, (-SLIVER).ln_1p());
    let tempered = rows.tempered(graph, beta);
    let sliver = graph.offset(&tempered, SLIVER.ln());
    let mixed = log_sum(graph, &[most, sliver]);
    Ok(rows.mask(graph, &mixed))
}

/// The pooled values along the sorted row.
fn pool(graph: &mut Graph, classes: usize, sorted: &Value, along: &Value) -> Value {
    // Sums from a position to the end, and from behind it.
    let axis = graph.integers(&[1]);
    let from = graph.op_with("CumSum", &[along, &axis], &[("reverse", 1)]);
    let behind = graph.op_with(
        "CumSum",
        &[along, &axis],
        &[("reverse", 1), ("exclusive", 1)],
    );
    let first_axis = graph.integers(&[2]);
    let last_axis = graph.integers(&[1]);
    let from = graph.op("Unsqueeze", &[&from, &first_axis]);
    let behind = graph.op("Unsqueeze", &[&behind, &last_axis]);
    let sums = graph.sub(&from, &behind);
    let lengths = (0..classes).flat_map(|j| (0..classes).map(move |k| k.saturating_sub(j) + 1));
    let shares: Vec<f64> = lengths.map(|length| 1.0 / length as f64).collect();
    let shares = graph.doubles(&shares, &[classes, classes]);
    let means = graph.mul(&sums, &shares);

    // Where groups begin and end; the first position begins one, the last ends one.
    let here = graph.columns(sorted, 0, classes - 1);
    let next = graph.columns(sorted, 1, classes);
    let steps = graph.op("Greater", &[&here, &next]);
    let top = graph.columns(sorted, 0, 1);
    let always = graph.op("Equal", &[&top, &top]);
    let ends = graph.op_with("Concat", &[&steps, &always], &[("axis", -1)]);
    let ends = graph.op("Unsqueeze", &[&ends, &last_axis]);
    let starts = graph.op_with("Concat", &[&always, &steps], &[("axis", -1)]);
    let starts = graph.op("Unsqueeze", &[&starts, &first_axis]);

    let lowest = graph.double(f64::NEG_INFINITY);
    let means = graph.choose(&ends, &means, &lowest);
    let pairs = (0..classes).flat_map(|j| (0..classes).map(move |k| k >= j));
    let ordered = graph.booleans(&pairs.collect::<Vec<_>>(), &[classes, classes]);
    let mut largest = graph.choose(&ordered, &means, &lowest);
    // max over k ≥ i, by doubling the reach.
    let mut reach = 1;
    while reach < classes {
        let ahead = graph.columns(&largest, reach, classes);
        let same = graph.columns(&largest, 0, classes - reach);
        let joined = graph.op("Max", &[&ahead, &same]);
        let rest = graph.columns(&largest, classes - reach, classes);
        largest = graph.op_with("Concat", &[&joined, &rest], &[("axis", -1)]);
        reach *= 2;
    }
    let highest = graph.double(f64::INFINITY);
    let candidates = graph.op("And", &[&starts, &ordered]);
    let candidates = graph.choose(&candidates, &largest, &highest);
    let axes = graph.integers(&[1]);
    graph.op_with("ReduceMin", &[&candidates, &axes], &[("keepdims", 0)])
}

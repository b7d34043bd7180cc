//! The projection of any model onto the input's order, without a loop.
//!
//! Isotonic regression by divide and conquer. Let l be the values of the left half of a segment of the sorted row
//! and r those of the right half, each already non-increasing. Then max(l, t) followed by min(r, t) solves the
//! whole segment, where the level t balances what the halves gain and lose: Σ max(t − l, 0) = Σ max(r − t, 0).
//! Sorting the values of both halves and adding them up tells which of them move to t, and t is the mean of
//! those. From single classes to whole rows this takes ⌈log₂ K⌉ rounds of a few operations on N×K numbers.
//!
//! Rounding of t cannot break the order: max(l, t) and min(r, t) are non-increasing for any t. Clamping t between
//! the last of l and the first of r leaves solved segments unchanged. Classes with equal scores must get equal
//! results: they are sorted by ascending probability, so that the regression has to pool them.

use ordercal::models::{OrderedModel, SLIVER};

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for OrderedModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let inner = self.inner().to_graph(graph, scores)?;
        let probabilities = graph.softmax(&inner);
        // By descending score and, among equal scores, by ascending probability: sorting is stable. The scores keep
        // their `-inf`, so that masked classes are not pooled with the smallest possible one.
        let (ascending, first) = graph.sort(&probabilities, scores.classes, false);
        let by_probability = graph.gather_columns(&scores.ranked, &first);
        let (_, second) = graph.sort(&by_probability, scores.classes, true);
        let order = graph.gather_columns(&first, &second);
        let sorted = graph.gather_columns(&ascending, &second);
        let pooled = pool(graph, scores.classes, sorted);
        let placed = graph.scatter_columns(&probabilities, &order, &pooled);

        // ln((1 − ε) pooled + ε tempered).
        let logs = graph.op("Log", &[&placed]);
        let most = graph.offset(&logs, (-SLIVER).ln_1p());
        let tempered = scores.tempered(graph, self.inverse_temperature());
        let sliver = graph.offset(&tempered, SLIVER.ln());
        let mixed = graph.log_sum_exp(&[most, sliver]);
        Ok(scores.mask(graph, &mixed))
    }
}

/// The non-increasing rows closest to these in squares: isotonic regression of every row.
fn pool(graph: &mut Graph, classes: usize, mut values: Value) -> Value {
    let padded = classes.next_power_of_two();
    if padded > classes {
        // Zeros at the end are never pooled with probabilities, which are not below 0.
        let ends = graph.integers(&[0, 0, 0, (padded - classes) as i64]);
        let zero = graph.double(0.0);
        values = graph.op("Pad", &[&values, &ends, &zero]);
    }
    let mut half = 1;
    while half < padded {
        let shape = graph.integers(&[-1, 2 * half as i64]);
        let segments = graph.op("Reshape", &[&values, &shape]);
        values = join(graph, half, &segments);
        half *= 2;
    }
    // The last segments were whole rows.
    if padded > classes {
        values = graph.columns(&values, 0, classes);
    }
    values
}

/// Solves segments whose halves are solved.
fn join(graph: &mut Graph, half: usize, segments: &Value) -> Value {
    let left = graph.columns(segments, 0, half);
    let right = graph.columns(segments, half, 2 * half);
    let last = graph.columns(segments, half - 1, half);
    let first = graph.columns(segments, half, half + 1);
    let level = if half == 1 {
        let sum = graph.add(&left, &right);
        graph.scale(&sum, 0.5)
    } else {
        level(graph, half, segments)
    };
    let low = graph.op("Min", &[&last, &first]);
    let high = graph.op("Max", &[&last, &first]);
    let level = graph.op("Max", &[&level, &low]);
    let level = graph.op("Min", &[&level, &high]);
    let left = graph.op("Max", &[&left, &level]);
    let right = graph.op("Min", &[&right, &level]);
    graph.op_with("Concat", &[&left, &right], &[("axis", -1)])
}

/// The level t of each segment; arbitrary where nothing has to move.
fn level(graph: &mut Graph, half: usize, segments: &Value) -> Value {
    let width = 2 * half;
    let (sorted, places) = graph.sort(segments, width, true);
    let last_left = graph.integers(&[half as i64 - 1]);
    let from_right = graph.op("Greater", &[&places, &last_left]);
    let zero = graph.double(0.0);
    let rights = graph.select(&from_right, &sorted, &zero);
    let lefts = graph.select(&from_right, &zero, &sorted);
    let ones = graph.cast_f64(&from_right);

    // If t lies between a value and the next smaller one, the values that move to t are the right ones above it
    // and the left ones below it. Here are their sums and counts, for each such place of t. Adding only what
    // moves keeps small sums as exact as large ones.
    let axis = graph.integers(&[1]);
    let above = graph.op("CumSum", &[&rights, &axis]);
    let below = graph.op_with(
        "CumSum",
        &[&lefts, &axis],
        &[("reverse", 1), ("exclusive", 1)],
    );
    let sums = graph.add(&above, &below);
    // Of the i largest values c are from the right, so half − (i − c) left ones are smaller.
    let count = graph.op("CumSum", &[&ones, &axis]);
    let twice = graph.scale(&count, 2.0);
    let left_over: Vec<f64> = (1..=width).map(|i| half as f64 - i as f64).collect();
    let left_over = graph.doubles(&left_over, &[width]);
    let counts = graph.add(&twice, &left_over);

    // The left gains less the lower t is. With t at a value, it gains enough if count · value ≥ sum; t lies between
    // the last value for which that holds and the next.
    let reached = graph.mul(&counts, &sorted);
    let short = graph.op("Greater", &[&sums, &reached]);
    let short = graph.cast_f64(&short);
    let short = graph.reduce("ReduceSum", &short);
    let end = graph.double(width as f64 - 1.0);
    let last = graph.sub(&end, &short);
    let last = graph.op("Max", &[&last, &zero]);
    let last = graph.cast_i64(&last);
    let sum = graph.gather_columns(&sums, &last);
    let count = graph.gather_columns(&counts, &last);
    let one = graph.double(1.0);
    let count = graph.op("Max", &[&count, &one]);
    graph.op("Div", &[&sum, &count])
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputType;
    use crate::interpreter::{self, Tensor};
    use ordercal::Rng;
    use ordercal::models::Projector;

    /// Runs the graph of `pool` on rows.
    fn pooled_by_graph(rows: &[Vec<f32>]) -> Vec<f32> {
        let classes = rows[0].len();
        let mut graph = Graph::default();
        let values = graph.cast_f64(&Value::input("scores"));
        let values = pool(&mut graph, classes, values);
        let values = graph.cast_f32(&values);
        graph.output(&values, "probabilities");
        graph.output(&values, "logits");
        let model = graph.into_model(classes, InputType::F32, "", &[]);
        let input = Tensor::matrix(rows.len(), classes, rows.concat());
        let outputs = interpreter::run(&model, input).unwrap();
        outputs["probabilities"].as_f32().unwrap().to_vec()
    }

    /// Rows for which pooling adjacent violators takes the fewest and the most steps, and random rows.
    fn rows(classes: usize) -> Vec<Vec<f32>> {
        let made = |value: &dyn Fn(usize) -> f32| (0..classes).map(value).collect::<Vec<_>>();
        let last = classes - 1;
        let mut rows = vec![
            made(&|i| i as f32),
            made(&|i| (last - i) as f32),
            made(&|_| 0.25),
            made(&|_| 0.0),
            made(&|i| (i % 2) as f32),
            // The last value is pooled with all the others, one after the other.
            made(&|i| if i == last { 1e6 } else { (last - i) as f32 }),
            made(&|i| if i == 0 { 0.0 } else { (last - i + 1) as f32 }),
            made(&|i| 0.5_f32.powi(i as i32 % 60)),
        ];
        let mut rng = Rng::new(classes as u64);
        for row in 0..60 {
            let step = row as f64 / 10.0;
            let values = (0..classes).map(|i| {
                let peaked = (2.0 * rng.normal() - step * i as f64 / classes as f64).exp();
                if rng.below(9) == 0 {
                    0.0
                } else {
                    peaked as f32
                }
            });
            rows.push(values.collect());
        }
        rows
    }

    #[test]
    fn divide_and_conquer_equals_pooling_adjacent_violators() {
        for classes in [2, 3, 4, 5, 8, 9, 31, 64, 100, 257] {
            let rows = rows(classes);
            let found = pooled_by_graph(&rows);
            let descending: Vec<f32> = (0..classes).rev().map(|i| i as f32).collect();
            let order: Vec<u32> = (0..classes as u32).collect();
            for (row, found) in rows.iter().zip(found.chunks_exact(classes)) {
                let mut expected: Vec<f64> = row.iter().map(|&v| v.into()).collect();
                Projector::default().project(&descending, &order, &mut expected);
                for (f, e) in found.iter().zip(&expected) {
                    let apart = (f64::from(*f) - e).abs();
                    assert!(apart <= 1e-6 * e, "{row:?}: {found:?}, not {expected:?}");
                }
                assert!(found.is_sorted_by(|a, b| a >= b), "{found:?}");
            }
        }
    }
}

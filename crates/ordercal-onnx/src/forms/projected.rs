//! Any free form projected onto the input's order, without a loop.
//!
//! Isotonic regression by halves. Take two neighbouring stretches of the sorted row, each solved already, so
//! that neither the values l of the left one nor the values r of the right one rise. Together they are solved
//! by max(l, t) and min(r, t), where t is such that the left gains what the right loses:
//! Σ max(t − l, 0) = Σ max(r − t, 0). Sorting the values of both and adding them up tells which of them move to
//! t, and t is the mean of those. From single classes to whole rows that takes ⌈log₂ K⌉ rounds, each of a
//! few operations on N×K numbers.
//!
//! The order does not hang on the rounding of t: max(l, t) and min(r, t) never rise. t is held between the last
//! of l and the first of r, so that nothing moves where nothing has to, and what moves ends equal. Equal scores
//! have to end equal, too: their probabilities are put in the wrong order, smallest first, which leaves the
//! regression nothing but to pool them.

use ordercal::SLIVER;

use super::{Rows, log_sum};
use crate::graph::{Graph, Value};

/// The logits of the projected model, given those of the free one.
pub fn logits(graph: &mut Graph, rows: &Rows, inner: &Value, beta: f64) -> Value {
    let probabilities = graph.op_with("Softmax", &[inner], &[("axis", -1)]);
    // By score and, among equal scores, from the smallest probability up: sorting is stable. Scores are sorted
    // as they are: masked classes must not share a result with the smallest possible one.
    let (ascending, first) = sort(graph, &probabilities, rows.classes, false);
    let scores = along(graph, &rows.scores, &first);
    let (_, second) = sort(graph, &scores, rows.classes, true);
    let order = along(graph, &first, &second);
    let wanted = along(graph, &ascending, &second);
    let pooled = pool(graph, rows.classes, wanted);
    let placed = graph.op_with(
        "ScatterElements",
        &[&probabilities, &order, &pooled],
        &[("axis", 1)],
    );

    // ln((1 − ε) pooled + ε tempered), as the library mixes them.
    let logs = graph.op("Log", &[&placed]);
    let most = graph.offset(&logs, (-SLIVER).ln_1p());
    let tempered = rows.tempered(graph, beta);
    let sliver = graph.offset(&tempered, SLIVER.ln());
    let mixed = log_sum(graph, &[most, sliver]);
    rows.mask(graph, &mixed)
}

/// The rows sorted, and where each element was.
fn sort(graph: &mut Graph, values: &Value, width: usize, descending: bool) -> (Value, Value) {
    let count = graph.integers(&[width as i64]);
    let [sorted, places] = graph.ops(
        "TopK",
        &[values, &count],
        &[("axis", -1), ("largest", descending.into()), ("sorted", 1)],
    );
    (sorted, places)
}

/// The elements of each row at the given places of it.
fn along(graph: &mut Graph, values: &Value, places: &Value) -> Value {
    graph.op_with("GatherElements", &[values, places], &[("axis", 1)])
}

/// The closest values to these that do not rise along the row.
fn pool(graph: &mut Graph, classes: usize, mut values: Value) -> Value {
    let padded = classes.next_power_of_two();
    if padded > classes {
        // Probabilities are not below 0, so nothing is ever pooled with zeros at the end.
        let ends = graph.integers(&[0, 0, 0, (padded - classes) as i64]);
        let zero = graph.double(0.0);
        values = graph.op("Pad", &[&values, &ends, &zero]);
    }
    let mut half = 1;
    while half < padded {
        let pairs = rows_of(graph, &values, 2 * half);
        values = join(graph, half, &pairs);
        half *= 2;
    }
    if padded > classes {
        values = graph.columns(&values, 0, classes);
    }
    values
}

fn rows_of(graph: &mut Graph, values: &Value, width: usize) -> Value {
    let shape = graph.integers(&[-1, width as i64]);
    graph.op("Reshape", &[values, &shape])
}

/// Solves rows whose halves are solved.
fn join(graph: &mut Graph, half: usize, pairs: &Value) -> Value {
    let left = graph.columns(pairs, 0, half);
    let right = graph.columns(pairs, half, 2 * half);
    let last = graph.columns(pairs, half - 1, half);
    let first = graph.columns(pairs, half, half + 1);
    let level = if half == 1 {
        let sum = graph.add(&left, &right);
        graph.scale(&sum, 0.5)
    } else {
        level(graph, half, pairs)
    };
    let low = graph.op("Min", &[&last, &first]);
    let high = graph.op("Max", &[&last, &first]);
    let level = graph.op("Max", &[&level, &low]);
    let level = graph.op("Min", &[&level, &high]);
    let left = graph.op("Max", &[&left, &level]);
    let right = graph.op("Min", &[&right, &level]);
    graph.op_with("Concat", &[&left, &right], &[("axis", -1)])
}

/// t, the level at which the left halves gain what the right ones lose; anything where nothing has to move.
fn level(graph: &mut Graph, half: usize, pairs: &Value) -> Value {
    let width = 2 * half;
    let (sorted, places) = sort(graph, pairs, width, true);
    let in_left = graph.integers(&[half as i64 - 1]);
    let from_right = graph.op("Greater", &[&places, &in_left]);
    let zero = graph.double(0.0);
    let rights = graph.choose(&from_right, &sorted, &zero);
    let lefts = graph.choose(&from_right, &zero, &sorted);
    let ones = graph.widen(&from_right);

    // For a level between a value and the next smaller one: the right values above it and the left ones below
    // it, their number and their sum. Only what moves is added, so that small sums are as exact as large ones.
    let axis = graph.integers(&[1]);
    let above = graph.op("CumSum", &[&rights, &axis]);
    let below = graph.op_with(
        "CumSum",
        &[&lefts, &axis],
        &[("reverse", 1), ("exclusive", 1)],
    );
    let sums = graph.add(&above, &below);
    // Behind the i-th value, with c right ones so far, are half − (i − c) left ones.
    let count = graph.op("CumSum", &[&ones, &axis]);
    let twice = graph.scale(&count, 2.0);
    let left_over: Vec<f64> = (1..=width).map(|i| half as f64 - i as f64).collect();
    let left_over = graph.doubles(&left_over, &[width]);
    let counts = graph.add(&twice, &left_over);

    // At a level of a value the left gains its number times the value less its sum; the level sought lies behind
    // the last value with which that is not too little.
    let reached = graph.mul(&counts, &sorted);
    let short = graph.op("Greater", &[&sums, &reached]);
    let short = graph.widen(&short);
    let short = graph.reduce("ReduceSum", &short, 1);
    let end = graph.double(width as f64 - 1.0);
    let last = graph.sub(&end, &short);
    let last = graph.op("Max", &[&last, &zero]);
    let last = graph.count(&last);
    let sum = along(graph, &sums, &last);
    let count = along(graph, &counts, &last);
    let one = graph.double(1.0);
    let count = graph.op("Max", &[&count, &one]);
    graph.op("Div", &[&sum, &count])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::{self, Tensor};
    use ordercal::{Projector, Rng};

    /// What the graph makes of rows that are sorted already.
    fn by_halves(rows: &[Vec<f32>]) -> Vec<f32> {
        let classes = rows[0].len();
        let mut graph = Graph::default();
        let values = graph.widen(&Value::input("scores"));
        let values = pool(&mut graph, classes, values);
        let values = graph.narrow(&values);
        graph.output(&values, "probabilities");
        graph.output(&values, "logits");
        let model = graph.into_model(classes, "", &[]);
        let input = Tensor::matrix(rows.len(), classes, rows.concat());
        let outputs = interpreter::run(&model, input).unwrap();
        outputs["probabilities"].as_f32().unwrap().to_vec()
    }

    /// Rows that take pooling one by one the fewest and the most steps, and rows in between.
    fn rows(classes: usize) -> Vec<Vec<f32>> {
        let made = |value: &dyn Fn(usize) -> f32| (0..classes).map(value).collect::<Vec<_>>();
        let last = classes - 1;
        let mut rows = vec![
            made(&|i| i as f32),
            made(&|i| (last - i) as f32),
            made(&|_| 0.25),
            made(&|_| 0.0),
            made(&|i| (i % 2) as f32),
            // The last joins all the others, one after the other.
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
    fn halves_give_what_pooling_one_by_one_gives() {
        for classes in [2, 3, 4, 5, 8, 9, 31, 64, 100, 257] {
            let rows = rows(classes);
            let found = by_halves(&rows);
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

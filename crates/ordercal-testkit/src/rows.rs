//! Generators of rows of scores: realistic ones with labels, and hostile ones.

use ndarray::Array2;
use ordercal::{Dataset, Rng, ScoreKind, Scores};

/// Logits and labels of a simulated overconfident classifier.
///
/// Labels follow softmax(logits / 2), so the best temperature is about 2.
pub fn overconfident(rows: usize, classes: usize, seed: u64) -> (Array2<f32>, Vec<u32>) {
    let mut rng = Rng::new(seed);
    let mut logits = Array2::<f32>::zeros((rows, classes));
    let mut labels = Vec::with_capacity(rows);
    for mut row in logits.rows_mut() {
        let favourite = rng.below(classes);
        let lift = 2.0 + 6.0 * rng.uniform();
        for (class, logit) in row.iter_mut().enumerate() {
            let noise = 2.0 * rng.normal();
            *logit = (noise + if class == favourite { lift } else { 0.0 }) as f32;
        }
        labels.push(draw(&mut rng, row.iter().map(|&v| f64::from(v) / 2.0)));
    }
    (logits, labels)
}

/// [`overconfident`] as a [`Dataset`].
pub fn overconfident_data(rows: usize, classes: usize, seed: u64) -> Dataset<'static> {
    let (logits, labels) = overconfident(rows, classes, seed);
    let scores = Scores::new(ScoreKind::Logits, logits).expect("finite logits");
    Dataset::new(scores, &labels).expect("labels in range")
}

/// Logits and labels of a classifier that is the more overconfident the further its first choice is ahead, so that no
/// temperature suits all rows: labels follow softmax(0.7 x), in which the lead g of the largest score is 3 ln(1 + g/3).
pub fn curved_data(rows: usize, classes: usize, seed: u64) -> Dataset<'static> {
    let mut rng = Rng::new(seed);
    let mut logits = Array2::<f32>::zeros((rows, classes));
    let mut labels = Vec::with_capacity(rows);
    for mut row in logits.rows_mut() {
        let favourite = rng.below(classes);
        let lift = 4.0 + 16.0 * rng.uniform();
        for (class, logit) in row.iter_mut().enumerate() {
            let noise = 2.0 * rng.normal();
            *logit = (noise + if class == favourite { lift } else { 0.0 }) as f32;
        }
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for &logit in &row {
            second = second.max(logit.min(first));
            first = first.max(logit);
        }
        let curved = |&logit: &f32| {
            let lead = f64::from(logit) - f64::from(second);
            0.7 * if lead > 0.0 {
                f64::from(second) + 3.0 * (lead / 3.0).ln_1p()
            } else {
                f64::from(logit)
            }
        };
        labels.push(draw(&mut rng, row.iter().map(curved)));
    }
    let scores = Scores::new(ScoreKind::Logits, logits).expect("finite logits");
    Dataset::new(scores, &labels).expect("labels in range")
}

/// Draws a class with probability softmax(logits).
pub fn draw(rng: &mut Rng, logits: impl Iterator<Item = f64> + Clone) -> u32 {
    let top = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.clone().map(|v| (v - top).exp()).sum();
    let mut left = rng.uniform() * total;
    let mut last = 0;
    for (class, v) in logits.enumerate() {
        let weight = (v - top).exp();
        if weight > 0.0 {
            last = class;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
    }
    last as u32
}

/// The number of kinds of hostile rows.
const KINDS: usize = 10;

/// Fills a row with scores that make it difficult to keep the order: ties, differences of one unit in the last place,
/// denormals, huge magnitudes, masked classes, and mixtures of them.
pub fn hostile(rng: &mut Rng, row: &mut [f32]) {
    hostile_of(rng.below(KINDS), rng, row);
}

fn hostile_of(kind: usize, rng: &mut Rng, row: &mut [f32]) {
    match kind {
        0 => row
            .iter_mut()
            .for_each(|v| *v = (rng.normal() * 5.0) as f32),
        // A handful of distinct values: many ties, zeros of both signs among them.
        1 => {
            let values = [0.0, -0.0, 1.5, -3.25, 1.500_000_1];
            row.iter_mut()
                .for_each(|v| *v = values[rng.below(values.len())]);
        }
        // Neighbouring floats in random order.
        2 | 3 => {
            let start = (rng.normal() * 10_f64.powi(rng.below(9) as i32 - 4)) as f32;
            let mut value = start;
            for v in row.iter_mut() {
                *v = value;
                if rng.below(4) > 0 {
                    value = value.next_up();
                }
            }
            rng.shuffle(row);
        }
        4 => row.iter_mut().for_each(|v| {
            let denormal = f32::from_bits(rng.below(50) as u32);
            *v = if rng.below(2) == 0 {
                denormal
            } else {
                -denormal
            };
        }),
        5 => {
            let extremes = [
                1e30,
                -1e30,
                3e38,
                -3e38,
                f32::MAX,
                f32::MIN,
                1e30_f32.next_up(),
                0.0,
                1.0,
            ];
            row.iter_mut()
                .for_each(|v| *v = extremes[rng.below(extremes.len())]);
        }
        6 => row.iter_mut().for_each(|v| *v = 7.125),
        // One class far ahead: the others' probabilities underflow.
        7 => {
            row.iter_mut()
                .for_each(|v| *v = (-rng.uniform() * 1000.0) as f32);
            let ahead = rng.below(row.len());
            row[ahead] = (rng.uniform() * 1e4) as f32;
        }
        8 => row
            .iter_mut()
            .for_each(|v| *v = (rng.normal() * 20.0).round() as f32),
        _ => {
            let tiny = (rng.normal() * 1e-3) as f32;
            row.iter_mut()
                .for_each(|v| *v = 15.0 + tiny * rng.below(3) as f32);
        }
    }
    if rng.below(4) == 0 {
        for v in row.iter_mut() {
            if rng.below(3) == 0 {
                *v = f32::NEG_INFINITY;
            }
        }
        if row.iter().all(|v| *v == f32::NEG_INFINITY) {
            let spared = rng.below(row.len());
            row[spared] = 0.5;
        }
    }
}

/// A matrix of hostile rows. Those of every other matrix are all of one kind: a row whose order is in doubt would send the rows
/// beside it the slow way, too.
pub fn hostile_matrix(rows: usize, classes: usize, rng: &mut Rng) -> Array2<f32> {
    let mut matrix = Array2::zeros((rows, classes));
    let one = (rng.below(2) == 0).then(|| rng.below(KINDS));
    for mut row in matrix.rows_mut() {
        let kind = one.unwrap_or_else(|| rng.below(KINDS));
        let row = row.as_slice_mut().expect("rows of a new matrix");
        hostile_of(kind, rng, row);
    }
    matrix
}

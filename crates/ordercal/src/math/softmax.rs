//! Softmax of a row, with a sum that does not depend on the order of the classes.

use super::exp::{exp_f32, exp_f64, ln_f64};
use super::simd::vectorized;

const LANES: usize = 8;
/// Rows below this are not worth lanes of their own: the processor works on several rows at once.
const SHORT: usize = 24;

/// The largest of a row.
#[inline(always)]
fn largest(values: &[f64]) -> f64 {
    let larger = |a: f64, b: f64| if a > b { a } else { b };
    if values.len() < SHORT {
        return values.iter().copied().fold(f64::NEG_INFINITY, larger);
    }
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = if value > *lane { value } else { *lane };
    }
    let halves = [0, 1, 2, 3].map(|i| larger(lanes[i], lanes[i + 4]));
    larger(larger(halves[0], halves[2]), larger(halves[1], halves[3]))
}

/// The sum of numbers up to 1, the same for any order of them.
///
/// Each is first rounded to a multiple of 2^(⌈log₂ K⌉ − 51). Sums of such multiples up to K are exact in 64
/// bits, and the rounding costs at most K²·2^−51 in all: 5e-10 of a sum of at least 1 at 1000 classes, if all
/// were rounded the same way.
#[inline(always)]
fn exact_sum(values: &[f64]) -> f64 {
    let grain = grain(values.len());
    let rounded = |value: f64| (value + grain) - grain;
    if values.len() < SHORT {
        return values.iter().fold(0.0, |sum, &value| sum + rounded(value));
    }
    let mut sums = [0.0; LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (sum, &value) in sums.iter_mut().zip(chunk) {
            *sum += rounded(value);
        }
    }
    for (sum, &value) in sums.iter_mut().zip(chunks.remainder()) {
        *sum += rounded(value);
    }
    let halves = [0, 1, 2, 3].map(|i| sums[i] + sums[i + 4]);
    (halves[0] + halves[2]) + (halves[1] + halves[3])
}

/// Adding and subtracting this rounds to the multiples that K numbers are summed in.
#[inline(always)]
fn grain(classes: usize) -> f64 {
    1.5 * f64::from(classes.next_power_of_two() as u32) * 2.0
}

vectorized! {
    /// Turns rows of 64-bit logits into e^(v − max) in place; writes the max and the sum of each row.
    ///
    /// Permuting a row permutes its result bit for bit: its sum is [exact](exact_sum). Masked classes (`-inf`)
    /// become 0.
    pub(crate) fn exponentials_of_rows(values: &mut [f64], classes: usize, tops: &mut [f64], sums: &mut [f64]) {
        for (row, top) in values.chunks_exact_mut(classes).zip(tops) {
            *top = largest(row);
            for value in row {
                *value -= *top;
            }
        }
        // All rows at once, so that short ones fill the vectors, too; and in a loop of its own: together with
        // the sums it was not vectorised, and took four times as long.
        for value in values.iter_mut() {
            *value = exp_f64(*value);
        }
        for (row, sum) in values.chunks_exact(classes).zip(sums) {
            *sum = exact_sum(row);
        }
    }
}

/// Turns a row of 64-bit logits into e^(v − max) in place and returns max and the sum of the row.
pub(crate) fn exponentials(values: &mut [f64]) -> (f64, f64) {
    let (mut top, mut sum) = ([0.0], [0.0]);
    exponentials_of_rows(values, values.len(), &mut top, &mut sum);
    (top[0], sum[0])
}

/// Elements whose rows are worked on together: they stay in the first-level cache.
pub(crate) const GROUP: usize = 2048;
/// The most rows of a group.
const GROUP_ROWS: usize = GROUP / 2;

/// How many rows make a group.
pub(crate) fn group(classes: usize) -> usize {
    (GROUP / classes).clamp(1, GROUP_ROWS)
}

/// Rows of logits to probabilities, in place.
pub(crate) fn probabilities_of_rows(values: &mut [f64], classes: usize) {
    let (mut tops, mut sums) = ([0.0; GROUP_ROWS], [0.0; GROUP_ROWS]);
    for rows in values.chunks_mut(group(classes) * classes) {
        exponentials_of_rows(rows, classes, &mut tops, &mut sums);
        scale(rows, classes, &sums);
    }
}

vectorized! {
    fn scale(values: &mut [f64], classes: usize, sums: &[f64]) {
        for (row, &sum) in values.chunks_exact_mut(classes).zip(sums) {
            let scale = 1.0 / sum;
            for value in row {
                *value *= scale;
            }
        }
    }
}

/// Logits to probabilities, in place.
pub(crate) fn probabilities(values: &mut [f64]) {
    probabilities_of_rows(values, values.len());
}

/// Logits to log-probabilities, in place; `scratch` is of the same length.
pub(crate) fn log_probabilities(values: &mut [f64], scratch: &mut [f64]) {
    scratch.copy_from_slice(values);
    let (max, sum) = exponentials(scratch);
    let log_sum = sum.ln();
    for value in values {
        *value = (*value - max) - log_sum;
    }
}

vectorized! {
    /// ln Σ eˣ of rows of scores, the same for any order of a row, to about seven digits: exponentials are taken
    /// in 32 bits. `e` has room for all scores.
    pub(crate) fn log_sums(scores: &[f32], classes: usize, e: &mut [f32], logs: &mut [f64]) {
        let e = &mut e[..scores.len()];
        let rows = scores.chunks_exact(classes).zip(e.chunks_exact_mut(classes));
        for ((scores, e), log) in rows.zip(logs.iter_mut()) {
            let top = top(scores);
            for (e, &score) in e.iter_mut().zip(scores) {
                *e = score - top;
            }
            *log = f64::from(top);
        }
        for value in e.iter_mut() {
            *value = exp_f32(*value);
        }
        let grain = grain(classes);
        for (e, log) in e.chunks_exact(classes).zip(logs.iter_mut()) {
            let rounded = |value: f32| (f64::from(value) + grain) - grain;
            let mut sum = 0.0;
            let mut rest = e;
            if classes >= SHORT {
                let mut sums = [0.0_f64; WIDE];
                let mut chunks = e.chunks_exact(WIDE);
                for chunk in &mut chunks {
                    for (sum, &value) in sums.iter_mut().zip(chunk) {
                        *sum += rounded(value);
                    }
                }
                for lane in sums {
                    sum += lane;
                }
                rest = chunks.remainder();
            }
            for &value in rest {
                sum += rounded(value);
            }
            *log += ln_f64(sum);
        }
    }
}

/// ln Σ eˣ of one row, as [`log_sums`] gives it.
pub(crate) fn log_sum_exp(scores: &[f32]) -> f64 {
    let mut log = [0.0];
    log_sums(scores, scores.len(), &mut vec![0.0; scores.len()], &mut log);
    log[0]
}

const WIDE: usize = 16;

/// The largest score of a row.
#[inline(always)]
pub(crate) fn top(scores: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    if scores.len() < SHORT {
        return scores.iter().copied().fold(f32::NEG_INFINITY, larger);
    }
    let mut tops = [f32::NEG_INFINITY; WIDE];
    let mut chunks = scores.chunks_exact(WIDE);
    for chunk in &mut chunks {
        for (top, &score) in tops.iter_mut().zip(chunk) {
            *top = larger(score, *top);
        }
    }
    let rest = chunks.remainder().iter().copied();
    tops.into_iter().chain(rest).fold(f32::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn probabilities_agree_with_the_plain_formula() {
        let mut rng = Rng::new(1);
        for classes in [2, 3, 8, 17, 1000] {
            let logits: Vec<f64> = (0..classes).map(|_| rng.normal() * 5.0).collect();
            let sum: f64 = logits.iter().map(|v| v.exp()).sum();
            let mut ours = logits.clone();
            probabilities(&mut ours);
            let mut logs = logits.clone();
            log_probabilities(&mut logs, &mut vec![0.0; classes]);
            for ((p, l), v) in ours.iter().zip(&logs).zip(&logits) {
                assert!((p - v.exp() / sum).abs() < 1e-12);
                assert!((l - (v - sum.ln())).abs() < 1e-11);
            }
        }
    }

    #[test]
    fn the_sum_does_not_depend_on_the_order() {
        let mut rng = Rng::new(2);
        for classes in [2, 5, 100, 1001] {
            let mut logits: Vec<f64> = (0..classes).map(|_| rng.normal() * 9.0).collect();
            let first = exponentials(&mut logits.clone());
            for _ in 0..20 {
                rng.shuffle(&mut logits);
                assert_eq!(exponentials(&mut logits.clone()), first);
            }
        }
    }

    #[test]
    fn rows_together_are_as_rows_alone() {
        let mut rng = Rng::new(3);
        for (rows, classes) in [(1, 2), (700, 3), (40, 100), (3, 5000)] {
            let mut all: Vec<f64> = (0..rows * classes).map(|_| rng.normal() * 9.0).collect();
            let mut alone = all.clone();
            for row in alone.chunks_exact_mut(classes) {
                let (_, sum) = exponentials(row);
                row.iter_mut().for_each(|v| *v *= 1.0 / sum);
            }
            probabilities_of_rows(&mut all, classes);
            assert!(all == alone);
        }
    }

    #[test]
    fn sums_of_scores_agree_with_the_plain_formula_in_any_order() {
        let mut rng = Rng::new(4);
        for classes in [2, 15, 16, 100, 1001] {
            let mut scores: Vec<f32> = (0..classes).map(|_| rng.normal() as f32 * 9.0).collect();
            scores[1] = f32::NEG_INFINITY;
            let plain: f64 = scores.iter().map(|&v| f64::from(v).exp()).sum::<f64>().ln();
            let first = log_sum_exp(&scores);
            assert!((first - plain).abs() < 1e-6, "{first} {plain}");
            for _ in 0..20 {
                rng.shuffle(&mut scores);
                assert_eq!(log_sum_exp(&scores), first);
            }
        }
    }

    #[test]
    fn masked_classes_have_no_probability() {
        let mut row = [f64::NEG_INFINITY, 3.0, f64::NEG_INFINITY, 3.0];
        probabilities(&mut row);
        assert_eq!(row, [0.0, 0.5, 0.0, 0.5]);
    }
}

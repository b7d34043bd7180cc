//! Softmax of a row, with a sum that does not depend on the order of the classes.

use super::exp::{exp_f32, exp_f64, ln_f64};
use super::lanes;
use super::simd::vectorized;

/// Rows below this are not worth lanes of their own: the processor works on several rows at once.
const SHORT: usize = 24;

#[inline(always)]
fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// The largest of a row.
#[inline(always)]
fn largest(values: &[f64]) -> f64 {
    if values.len() < SHORT {
        return values.iter().copied().fold(f64::NEG_INFINITY, larger);
    }
    lanes::fold::<32, _, _>(values, f64::NEG_INFINITY, larger, larger)
}

/// The sum of numbers up to `top`, the same for any order of them.
///
/// Each is first rounded to a multiple of 2^(⌈log₂ K⌉ − 51), times the power of two at or below `top`. Sums of such
/// multiples are exact in 64 bits, and the rounding costs at most K²·2^−51 of `top` in all: 5e-10 of the sum at 1000
/// classes, if all were rounded the same way.
#[inline(always)]
fn exact_sum(values: &[f64], top: f64) -> f64 {
    let grain = power_of_two(top) * grain(values.len());
    let rounded = |value: f64| (value + grain) - grain;
    if values.len() < SHORT {
        return values.iter().fold(0.0, |sum, &value| sum + rounded(value));
    }
    let add = |sum, value| sum + rounded(value);
    lanes::fold::<32, _, _>(values, 0.0, add, |a, b| a + b)
}

/// The power of two at or below a positive, normal number.
#[inline(always)]
fn power_of_two(value: f64) -> f64 {
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    f64::from_bits(value.to_bits() & EXPONENT)
}

/// Adding and subtracting this rounds to the multiples that K numbers are summed in.
#[inline(always)]
fn grain(classes: usize) -> f64 {
    1.5 * f64::from(classes.next_power_of_two() as u32) * 2.0
}

/// Elements whose rows are worked on together: they stay in the first-level cache.
pub(crate) const GROUP: usize = 2048;

/// How many rows make a group.
pub(crate) fn group(classes: usize) -> usize {
    (GROUP / classes).max(1)
}

vectorized! {
    /// Turns rows of 64-bit logits into e^(v − max) in place. Masked classes (`-inf`) become 0.
    pub(crate) fn unnormalised_rows(values: &mut [f64], classes: usize) {
        for values in values.chunks_mut(group(classes) * classes) {
            for row in values.chunks_exact_mut(classes) {
                let top = largest(row);
                for value in row {
                    *value -= top;
                }
            }
            // All rows at once, so that short ones fill the vectors, too.
            for value in values {
                *value = exp_f64(*value);
            }
        }
    }
}

vectorized! {
    /// e^(βx − max βx) of each row of scores, as [`unnormalised_rows`] gives for the products.
    pub(crate) fn unnormalised_tempered(scores: &[f32], classes: usize, beta: f64, unnormalised: &mut [f64]) {
        for (scores, unnormalised) in scores.chunks_exact(classes).zip(unnormalised.chunks_exact_mut(classes)) {
            let top = beta * f64::from(top(scores));
            let logits = scores.iter().map(|&score| beta * f64::from(score) - top);
            if classes < SHORT {
                unnormalised.iter_mut().zip(logits).for_each(|(unnormalised, logit)| *unnormalised = logit);
            } else {
                unnormalised.iter_mut().zip(logits).for_each(|(unnormalised, logit)| *unnormalised = exp_f64(logit));
            }
        }
        if classes < SHORT {
            // All rows at once, so that they fill the vectors.
            for unnormalised in unnormalised {
                *unnormalised = exp_f64(*unnormalised);
            }
        }
    }
}

vectorized! {
    /// Divides each row by its sum. Permuting a row permutes its result bit for bit: its sum is [exact](exact_sum).
    pub(crate) fn normalise_rows(unnormalised: &mut [f64], classes: usize) {
        for row in unnormalised.chunks_exact_mut(classes) {
            let top = largest(row);
            // Rounded to its multiples, a sum can come out below its largest number; a probability is never above 1.
            let scale = 1.0 / larger(exact_sum(row, top), top);
            for value in row {
                *value *= scale;
            }
        }
    }
}

vectorized! {
    /// Turns a row of 64-bit logits into e^(v − max) in place and returns max and the sum of the row.
    pub(crate) fn exponentials(values: &mut [f64]) -> (f64, f64) {
        let top = largest(values);
        // A loop of its own: together with the sum it was not vectorised, and took four times as long.
        for value in values.iter_mut() {
            *value = exp_f64(*value - top);
        }
        (top, exact_sum(values, 1.0))
    }
}

/// Logits to probabilities, in place.
pub(crate) fn probabilities(values: &mut [f64]) {
    unnormalised_rows(values, values.len());
    normalise_rows(values, values.len());
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
        let add = |sum, value: f32| sum + ((f64::from(value) + grain) - grain);
        for (e, log) in e.chunks_exact(classes).zip(logs.iter_mut()) {
            let sum = if classes < SHORT {
                e.iter().copied().fold(0.0, add)
            } else {
                lanes::fold::<32, _, _>(e, 0.0, add, |a, b| a + b)
            };
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

/// The largest score of a row.
#[inline(always)]
pub(crate) fn top(scores: &[f32]) -> f32 {
    if scores.len() < SHORT {
        return scores.iter().copied().fold(f32::NEG_INFINITY, larger);
    }
    lanes::fold::<64, _, _>(scores, f32::NEG_INFINITY, larger, larger)
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
            unnormalised_rows(&mut all, classes);
            normalise_rows(&mut all, classes);
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

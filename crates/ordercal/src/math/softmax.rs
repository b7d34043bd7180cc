//! Softmax of a row, with a sum that does not depend on the order of the classes.

use super::exp::exp_f64;
use super::simd::vectorized;

const LANES: usize = 8;

vectorized! {
    /// Turns a row of 64-bit logits into e^(v − max) in place and returns max and the sum S of the row.
    ///
    /// Permuting the row permutes the result bit for bit: the terms, all at most 1, are summed after
    /// rounding each to a multiple of 2^(⌈log₂ K⌉ − 51). Sums of such multiples up to K are exact in 64
    /// bits, whatever the order, and the rounding costs less than K·2^−50 of S ≥ 1. Masked classes
    /// (`-inf`) become 0.
    pub(crate) fn exponentials(values: &mut [f64]) -> (f64, f64) {
        let mut lanes = [f64::NEG_INFINITY; LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = if value > *lane { value } else { *lane };
            }
        }
        let mut max = f64::NEG_INFINITY;
        for &value in lanes.iter().chain(chunks.remainder()) {
            max = if value > max { value } else { max };
        }

        // Exponentials in a loop of their own: together with the sums they were not vectorised, and took
        // four times as long.
        for value in values.iter_mut() {
            *value = exp_f64(*value - max);
        }
        let grain = 1.5 * f64::from(values.len().next_power_of_two() as u32) * 2.0;
        let mut sums = [0.0; LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (sum, &value) in sums.iter_mut().zip(chunk) {
                *sum += (value + grain) - grain;
            }
        }
        for (sum, &value) in sums.iter_mut().zip(chunks.remainder()) {
            *sum += (value + grain) - grain;
        }
        let mut total = 0.0;
        for sum in sums {
            total += sum;
        }
        (max, total)
    }
}

/// Logits to probabilities, in place.
pub(crate) fn probabilities(values: &mut [f64]) {
    let (_, sum) = exponentials(values);
    for value in values {
        *value /= sum;
    }
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
    fn masked_classes_have_no_probability() {
        let mut row = [f64::NEG_INFINITY, 3.0, f64::NEG_INFINITY, 3.0];
        probabilities(&mut row);
        assert_eq!(row, [0.0, 0.5, 0.0, 0.5]);
    }
}

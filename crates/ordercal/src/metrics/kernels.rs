//! The inner loops of the metrics, compiled for each SIMD instruction set.

use crate::math::exp::exp_f64;
use crate::math::lanes::{accumulate, fold};
use crate::math::simd::vectorized;

const LANES: usize = 8;

vectorized! {
    /// Converts 32-bit values to 64 bits, and −0 to 0: their bits would sort differently.
    pub(crate) fn widen(source: &[f32], target: &mut [f64]) {
        for (target, &value) in target.iter_mut().zip(source) {
            *target = f64::from(value) + 0.0;
        }
    }
}

vectorized! {
    /// Whether all values are at least 0 (and not NaN), and their sum.
    pub(crate) fn total(values: &[f64]) -> (bool, f64) {
        let valid = values.iter().fold(true, |valid, &value| valid & (value >= 0.0));
        let sums = accumulate::<LANES, _, _>(values, 0.0, |sum, value| sum + value);
        (valid, sums.iter().sum())
    }
}

vectorized! {
    /// Raises probabilities to the smallest normal `f32`, and returns their sum.
    pub(crate) fn raise(probs: &mut [f64]) -> f64 {
        const SMALLEST: f64 = f32::MIN_POSITIVE as f64;
        for p in probs.iter_mut() {
            *p = if *p > SMALLEST { *p } else { SMALLEST };
        }
        accumulate::<LANES, _, _>(probs, 0.0, |sum, value| sum + value).iter().sum()
    }
}

vectorized! {
    /// How many values are at most `edge`, and their sum.
    pub(crate) fn up_to(values: &[f64], edge: f64) -> (f64, f64) {
        let counts = accumulate::<32, _, _>(values, 0.0, |count, v| count + if v <= edge { 1.0 } else { 0.0 });
        let sums = accumulate::<32, _, _>(values, 0.0, |sum, v| sum + if v <= edge { v } else { 0.0 });
        (counts.iter().sum(), sums.iter().sum())
    }
}

vectorized! {
    /// e^(score − max) · scale, bit for bit equal to the row's exponentials times its scale.
    pub(crate) fn probabilities(scores: &[f32], max: f64, scale: f64, target: &mut [f64]) {
        for (target, &score) in target.iter_mut().zip(scores) {
            *target = exp_f64(f64::from(score) - max) * scale;
        }
    }
}

vectorized! {
    /// Σ (scale · value)².
    pub(crate) fn sum_of_squares(values: &[f64], scale: f64) -> f64 {
        let sums = accumulate::<LANES, _, _>(values, 0.0, |sum, value: f64| {
            let p = value * scale;
            sum + p * p
        });
        sums.iter().sum()
    }
}

vectorized! {
    /// Σ aᵢ bᵢ.
    pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
        let mut lanes = [0.0; LANES];
        let mut left = a.chunks_exact(LANES);
        let mut right = b.chunks_exact(LANES);
        for (a, b) in (&mut left).zip(&mut right) {
            for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
                *lane += a * b;
            }
        }
        for ((lane, &a), &b) in lanes.iter_mut().zip(left.remainder()).zip(right.remainder()) {
            *lane += a * b;
        }
        lanes.iter().sum()
    }
}

vectorized! {
    /// The largest value; none may be NaN.
    pub(crate) fn largest(values: &[f64]) -> f64 {
        let larger = |a: f64, b: f64| if b > a { b } else { a };
        fold::<LANES, _, _>(values, f64::NEG_INFINITY, larger, larger)
    }
}

/// The first class with the largest value, and how many classes precede the label: those with a larger
/// value, and those with an equal value and a smaller index.
#[inline(always)]
fn rank<T: Copy + PartialOrd>(values: &[T], label: usize, largest: T) -> (u32, u32) {
    let own = values[label];
    let mut first = u32::MAX;
    let mut before = 0;
    // Two loops, so that neither compares the index with the label.
    for (class, &value) in values[..label].iter().enumerate() {
        first = first.min(if value >= largest {
            class as u32
        } else {
            u32::MAX
        });
        before += u32::from(value >= own);
    }
    let offset = label as u32;
    for (class, &value) in values[label..].iter().enumerate() {
        first = first.min(if value >= largest {
            offset + class as u32
        } else {
            u32::MAX
        });
        before += u32::from(value > own);
    }
    (first, before)
}

vectorized! {
    /// [`rank`] of 32-bit scores.
    pub(crate) fn rank_narrow(values: &[f32], label: usize, largest: f32) -> (u32, u32) {
        rank(values, label, largest)
    }
}

vectorized! {
    /// [`rank`] of 64-bit probabilities.
    pub(crate) fn rank_wide(values: &[f64], label: usize, largest: f64) -> (u32, u32) {
        rank(values, label, largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn kernels_agree_with_plain_loops() {
        let mut rng = Rng::new(4);
        for len in [1, 2, 7, 8, 9, 33, 1000] {
            // Few distinct values, so that there are ties.
            let values: Vec<f64> = (0..len).map(|_| rng.below(6) as f64 / 4.0).collect();
            let other: Vec<f64> = (0..len).map(|_| rng.uniform()).collect();
            let narrow: Vec<f32> = values.iter().map(|&v| v as f32).collect();
            let mut wide = vec![0.0; len];
            widen(&narrow, &mut wide);
            assert_eq!(wide, values);

            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!((largest(&values) - max).abs() < 1e-300);
            let squares: f64 = values.iter().map(|v| v * v * 0.25).sum();
            assert!((sum_of_squares(&values, 0.5) - squares).abs() < 1e-12);
            let product: f64 = values.iter().zip(&other).map(|(a, b)| a * b).sum();
            assert!((dot(&values, &other) - product).abs() < 1e-12);
            probabilities(&narrow, max, 0.5, &mut wide);
            for (p, v) in wide.iter().zip(&values) {
                assert!((p - (v - max).exp() * 0.5).abs() < 1e-15);
            }

            for label in 0..len.min(20) {
                let mut order: Vec<usize> = (0..len).collect();
                order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
                let before = order.iter().position(|&class| class == label).unwrap();
                let expected = (order[0] as u32, before as u32);
                assert_eq!(rank_wide(&values, label, max), expected);
                assert_eq!(rank_narrow(&narrow, label, max as f32), expected);
            }
        }
    }
}

//! The inner loops of the metrics, compiled for each SIMD instruction set.

use super::order_statistics::bucket;
use super::predictions::Normaliser;
use super::row_stats::RowStat;
use crate::math::exp::exp_f64;
use crate::math::lanes::{accumulate, fold};
use crate::math::simd::vectorized;
use crate::math::softmax;

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
    /// Copies values, −0 as 0.
    pub(crate) fn without_negative_zeros(source: &[f64], target: &mut [f64]) {
        for (target, &value) in target.iter_mut().zip(source) {
            *target = value + 0.0;
        }
    }
}

/// The sum of values, in lanes.
#[inline(always)]
fn sum(values: &[f64]) -> f64 {
    if values.len() <= LANES {
        // What the lanes would give.
        return values.iter().sum();
    }
    accumulate::<LANES, _, _>(values, 0.0, |sum, value| sum + value)
        .iter()
        .sum()
}

vectorized! {
    /// Whether all values of all rows are at least 0 (and not NaN), and every row sums to 1 within the tolerance.
    pub(crate) fn are_distributions(values: &[f64], classes: usize, tolerance: f64) -> bool {
        let possible = values.iter().fold(true, |valid, &value| valid & (value >= 0.0));
        let rows = values.chunks_exact(classes);
        rows.fold(possible, |valid, row| valid & ((sum(row) - 1.0).abs() <= tolerance))
    }
}

/// Raises probabilities to the smallest normal `f32`.
#[inline(always)]
fn raise_all(probs: &mut [f64]) {
    const SMALLEST: f64 = f32::MIN_POSITIVE as f64;
    for p in probs {
        *p = if *p > SMALLEST { *p } else { SMALLEST };
    }
}

vectorized! {
    /// Raises probabilities to the smallest normal `f32`, and returns their sum.
    pub(crate) fn raise(probs: &mut [f64]) -> f64 {
        raise_all(probs);
        sum(probs)
    }
}

vectorized! {
    /// Raises probabilities in parts of rows, and multiplies them by the scales of the rows.
    pub(crate) fn raise_and_scale(probs: &mut [f64], normalisers: &[Normaliser]) {
        let width = probs.len() / normalisers.len();
        raise_all(probs);
        for (probs, normaliser) in probs.chunks_exact_mut(width).zip(normalisers) {
            for p in probs {
                *p *= normaliser.scale;
            }
        }
    }
}

vectorized! {
    /// The sum of values.
    pub(crate) fn total(values: &[f64]) -> f64 {
        sum(values)
    }
}

vectorized! {
    /// Reads rows of scores: fills `e` with e^(score − max), and the statistics. One loop takes the exponentials of
    /// all rows, because short ones alone would not fill the vectors.
    pub(crate) fn read_scores(scores: &[f32], classes: usize, labels: &[u32], e: &mut [f64], stats: &mut [RowStat]) {
        let rows = scores.chunks_exact(classes).zip(e.chunks_exact_mut(classes));
        for ((scores, e), (stat, &label)) in rows.zip(stats.iter_mut().zip(labels)) {
            let label = label as usize;
            let top = softmax::top(scores);
            (stat.predicted, stat.rank) = rank(scores, label, top);
            let top = f64::from(top);
            stat.nll = top - f64::from(scores[label]);
            for (e, &score) in e.iter_mut().zip(scores) {
                *e = f64::from(score) - top;
            }
        }
        for e in e.iter_mut() {
            *e = exp_f64(*e);
        }
        for (e, (stat, &label)) in e.chunks_exact_mut(classes).zip(stats.iter_mut().zip(labels)) {
            stat.scale = 1.0 / softmax::sum_of_exponentials(e);
            stat.confidence = stat.scale;
            stat.nll = positive(stat.nll - stat.scale.ln());
            stat.brier = brier(e, stat.scale, label as usize);
        }
    }
}

vectorized! {
    /// Reads rows of probabilities, which are raised to the smallest normal `f32` and divided by their sum if `read`.
    pub(crate) fn read_probs(probs: &mut [f64], classes: usize, labels: &[u32], read: bool, stats: &mut [RowStat]) {
        if read {
            raise_all(probs);
        }
        for (probs, (stat, &label)) in probs.chunks_exact_mut(classes).zip(stats.iter_mut().zip(labels)) {
            let label = label as usize;
            stat.scale = if read { 1.0 / sum(probs) } else { 1.0 };
            let largest = largest_of(probs);
            (stat.predicted, stat.rank) = rank(probs, label, largest);
            stat.confidence = largest * stat.scale;
            stat.nll = positive(-(probs[label] * stat.scale).ln());
            stat.brier = brier(probs, stat.scale, label);
        }
    }
}

/// −ln 1 is −0, which would print with its sign.
#[inline(always)]
fn positive(nll: f64) -> f64 {
    nll.max(0.0)
}

/// Σⱼ (scale · eⱼ − 1{y = j})².
#[inline(always)]
fn brier(e: &mut [f64], scale: f64, label: usize) -> f64 {
    // The label's term is added apart as (1 − p)²: p² − 2p + 1 would cancel.
    let own = std::mem::replace(&mut e[label], 0.0);
    let add = |sum: f64, value: f64| {
        let p = value * scale;
        sum + p * p
    };
    let others = if e.len() <= LANES {
        e.iter().copied().fold(0.0, add)
    } else {
        accumulate::<LANES, _, _>(e, 0.0, add).iter().sum()
    };
    e[label] = own;
    let p = own * scale;
    others + (1.0 - p) * (1.0 - p)
}

vectorized! {
    /// The [`bucket`]s of values; the first and the last of them.
    pub(crate) fn buckets(values: &[f64], keys: &mut [u16]) -> (u16, u16) {
        for (key, &value) in keys.iter_mut().zip(values) {
            *key = bucket(value);
        }
        let first = keys.iter().fold(u16::MAX, |first, &key| first.min(key));
        (first, keys.iter().fold(0, |last, &key| last.max(key)))
    }
}

vectorized! {
    /// Lists the values of at least `edge` with their places, and returns the sum of the others.
    pub(crate) fn split(values: &[f64], edge: f64, listed: &mut Vec<(u32, f64)>) -> f64 {
        const PIECE: usize = 4 * LANES;
        listed.clear();
        let mut lanes = [0.0; LANES];
        for (place, piece) in values.chunks(PIECE).enumerate() {
            let few = piece.iter().fold(false, |few, &value| few | (value >= edge));
            if few {
                let numbered = (place * PIECE..).zip(piece);
                let found = numbered.filter(|(_, value)| **value >= edge);
                listed.extend(found.map(|(place, &value)| (place as u32, value)));
            }
            for piece in piece.chunks(LANES) {
                for (lane, &value) in lanes.iter_mut().zip(piece) {
                    *lane += if value >= edge { 0.0 } else { value };
                }
            }
        }
        lanes.iter().sum()
    }
}

vectorized! {
    /// e^(score − max) · scale of parts of rows, bit for bit equal to the rows' exponentials times their scales.
    pub(crate) fn probabilities(scores: &[f32], normalisers: &[Normaliser], target: &mut [f64]) {
        let width = scores.len() / normalisers.len();
        let parts = scores.chunks_exact(width).zip(target.chunks_exact_mut(width));
        for ((scores, target), &Normaliser { max, scale }) in parts.zip(normalisers) {
            for (target, &score) in target.iter_mut().zip(scores) {
                *target = exp_f64(f64::from(score) - max) * scale;
            }
        }
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

/// The largest value; none may be NaN.
#[inline(always)]
fn largest_of(values: &[f64]) -> f64 {
    let larger = |a: f64, b: f64| if b > a { b } else { a };
    if values.len() <= LANES {
        return values.iter().copied().fold(f64::NEG_INFINITY, larger);
    }
    fold::<LANES, _, _>(values, f64::NEG_INFINITY, larger, larger)
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
    /// The first class with the largest score.
    pub(crate) fn first_largest(scores: &[f32]) -> u32 {
        rank(scores, 0, softmax::top(scores)).0
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
            assert!((largest_of(&values) - max).abs() < 1e-300);
            assert!((total(&other) - other.iter().sum::<f64>()).abs() < 1e-12);
            let product: f64 = values.iter().zip(&other).map(|(a, b)| a * b).sum();
            assert!((dot(&values, &other) - product).abs() < 1e-12);
            probabilities(&narrow, &[Normaliser { max, scale: 0.5 }], &mut wide);
            for (p, v) in wide.iter().zip(&values) {
                assert!((p - (v - max).exp() * 0.5).abs() < 1e-15);
            }

            let mut listed = Vec::new();
            for edge in [0.0, 0.3, 1.0, 9.0] {
                let rest = split(&other, edge, &mut listed);
                let (above, below): (Vec<_>, Vec<_>) = (0..)
                    .zip(other.iter().copied())
                    .partition(|&(_, v)| v >= edge);
                assert_eq!(listed, above);
                assert!((rest - below.iter().map(|&(_, v)| v).sum::<f64>()).abs() < 1e-12);
            }

            for label in 0..len.min(20) {
                let mut order: Vec<usize> = (0..len).collect();
                order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
                let before = order.iter().position(|&class| class == label).unwrap();
                let expected = (order[0] as u32, before as u32);
                assert_eq!(rank(&values, label, max), expected);
                assert_eq!(rank(&narrow, label, max as f32), expected);
                assert_eq!(first_largest(&narrow), expected.0);
                let rest = |class: usize| values[class] * 0.5 - f64::from(u8::from(class == label));
                let squares: f64 = (0..len).map(|class| rest(class) * rest(class)).sum();
                assert!((brier(&mut values.clone(), 0.5, label) - squares).abs() < 1e-12);
            }
        }
    }
}

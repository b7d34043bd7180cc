//! Rounding without a sort, for maps that transform each score by itself.
//!
//! If every logit is an increasing function of its own score, only rounding errors can change the order of two classes.
//! [`Elementwise::keeps_order`] compares those errors with the smallest possible step between results: where it
//! answers yes, the 64-bit results are in the order of the scores. Rounding to 32 bits is monotone, so it can create
//! ties but never swap two results. [`TieDetector`] finds ties of a row with a hash table, [`new_ties`] new ties of many short
//! rows by comparing all pairs.

// Ties are equal to the last bit.
#![allow(clippy::float_cmp)]

use super::round::OutputBounds;
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::math::tile::{LANES, Lanes};
use crate::real::Real;

/// An increasing map of each score by itself, with bounds on its slope.
///
/// The logit of class k is f(x_k + c), where f is increasing and c is the same for all classes of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Elementwise {
    /// A lower bound on the slope of f.
    pub min_slope: f64,
    /// An upper bound on the slope of f.
    pub max_slope: f64,
    /// An upper bound on everything that is added to or subtracted from a score on the way to its logit.
    pub max_offset: f64,
}

/// A bound on the rounding error of a 64-bit result, relative to the numbers it was computed from: 32 times the error of
/// a single operation, enough for a dozen operations and an exponential.
const ERROR: f64 = 1.0 / (1_u64 << 48) as f64;
/// Neighbouring 32-bit floats differ by at least this fraction of the smaller one.
const STEP: f64 = 1.0 / (1_u64 << 24) as f64;
/// Larger results might be clamped, several of them to the same number.
const MAX_RESULT: f64 = 1e300;

impl Elementwise {
    /// Multiplication by a number.
    pub(crate) fn scaling(factor: f64) -> Self {
        Self {
            min_slope: factor,
            max_slope: factor,
            max_offset: 0.0,
        }
    }

    /// Whether the 64-bit results of these scores are certain to be in the order of the scores.
    pub(crate) fn keeps_order(&self, scores: &[f32]) -> bool {
        let (smallest, largest) = extremes(scores);
        let (smallest, largest) = (f64::from(smallest), f64::from(largest));
        let size = self.max_slope * (largest + self.max_offset);
        size < MAX_RESULT && self.min_slope * smallest * STEP >= 4.0 * ERROR * (size + 1.0)
    }
}

vectorized! {
    /// The smallest nonzero and the largest finite magnitude.
    fn extremes(scores: &[f32]) -> (f32, f32) {
        let smaller = |a: f32, b: f32| if b < a { b } else { a };
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        // Zeros and masked classes are left out.
        let nonzero = |magnitude: f32| if magnitude > 0.0 { magnitude } else { f32::INFINITY };
        let finite = |magnitude: f32| if magnitude < f32::INFINITY { magnitude } else { 0.0 };
        let low = |least: f32, score: f32| smaller(least, nonzero(score.abs()));
        let high = |most: f32, score: f32| larger(most, finite(score.abs()));
        (
            lanes::fold::<64, _, _>(scores, f32::INFINITY, low, smaller),
            lanes::fold::<64, _, _>(scores, 0.0, high, larger),
        )
    }
}

vectorized! {
    /// For each row of a tile: whether two classes with different scores have equal probabilities, by comparing all pairs.
    ///
    /// Probabilities below the smallest normal number may be equal.
    pub(crate) fn new_ties(scores: &[Lanes<f32>], probs: &[Lanes<f32>]) -> Lanes<bool> {
        // 0 where there is a tie. An exclusive or is 0 for equal bits only, and rounded probabilities have no −0.
        let mut least = [u32::MAX; LANES];
        for (place, (score, prob)) in scores.iter().zip(probs).enumerate() {
            let mut bits = [0; LANES];
            for (bits, &prob) in bits.iter_mut().zip(prob) {
                *bits = if prob >= f32::MIN_POSITIVE { prob.to_bits() } else { u32::MAX };
            }
            for (others, other_probs) in scores[..place].iter().zip(probs) {
                for lane in 0..LANES {
                    let difference = bits[lane] ^ other_probs[lane].to_bits();
                    let difference = if others[lane] == score[lane] { u32::MAX } else { difference };
                    least[lane] = least[lane].min(difference);
                }
            }
        }
        least.map(|least| least == 0)
    }
}

/// The largest number of slots: one for each hash of 16 bits.
const SLOTS: usize = 1 << 16;

/// Finds equal results.
#[derive(Debug, Clone)]
pub(crate) struct TieDetector {
    /// A hash of each result of the current row.
    hashes: Vec<u16>,
    /// How far products are shifted to become hashes.
    shift: u32,
    /// The number of the last row that used each slot, so that the table need not be cleared between rows.
    slots: Vec<u8>,
    /// The number of the current row, from 1 to 255 and then from 1 again.
    row: u8,
}

impl TieDetector {
    pub(crate) fn new(classes: usize) -> Self {
        // For short rows, few enough for the first-level cache; for long rows, enough to make collisions rare.
        let used = (64 * classes).next_power_of_two().clamp(4096, SLOTS);
        Self {
            hashes: vec![0; classes],
            shift: u32::BITS - used.ilog2(),
            slots: vec![0; used],
            row: 0,
        }
    }

    /// Whether two results are equal that may not be if their scores differ. 64-bit results were not rounded, so only their
    /// scores can be equal.
    pub(crate) fn has_tie<T: Real>(&mut self, bounds: &OutputBounds, output: &[T]) -> bool {
        let Some(output) = T::as_f32(output) else {
            return false;
        };
        if self.row == u8::MAX {
            self.row = 0;
            self.slots.fill(0);
        }
        self.row += 1;
        hash_all(output, self.shift, &mut self.hashes);
        let strict_from = bounds.strict_from as f32;
        let mut start = 0;
        while let Some(next) = next_used(&self.hashes[start..], self.row, &mut self.slots) {
            let value = output[start + next];
            start += next + 1;
            let exempt = value < strict_from || value == f32::NEG_INFINITY;
            // Different results may share a hash.
            if !exempt && count(&output[..start], value) > 1 {
                return true;
            }
        }
        false
    }
}

/// The first hash whose slot the row has used already. Up to there, slots get the number of the row.
///
/// A function of its own: the compiler keeps more of a larger one in memory instead of registers.
#[inline(never)]
fn next_used(hashes: &[u16], row: u8, slots: &mut [u8]) -> Option<usize> {
    for (place, &hash) in hashes.iter().enumerate() {
        let slot = &mut slots[usize::from(hash)];
        if *slot == row {
            return Some(place);
        }
        *slot = row;
    }
    None
}

vectorized! {
    /// Fibonacci hashing; equal values have equal hashes.
    fn hash_all(values: &[f32], shift: u32, hashes: &mut [u16]) {
        for (hash, &value) in hashes.iter_mut().zip(values) {
            *hash = (value.to_bits().wrapping_mul(0x9e37_79b1) >> shift) as u16;
        }
    }
}

vectorized! {
    /// How often a value occurs.
    fn count(values: &[f32], value: f32) -> u32 {
        // Without an early exit, so that the loop is vectorised.
        let mut count = 0;
        for &other in values {
            count += u32::from(other == value);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::exp::exp_f64;
    use crate::rng::Rng;

    #[test]
    fn ties_are_those_that_all_pairs_show() {
        let mut rng = Rng::new(81);
        let mut seen = [0, 0];
        let logits = OutputBounds::logits::<f32>();
        for classes in [2, 5, 10, 100, 199, 200, 1000] {
            let mut ties = TieDetector::new(classes);
            for _ in 0..200 {
                let spread = classes * classes / 2 + 1;
                let output: Vec<f32> = (0..classes).map(|_| rng.below(spread) as f32).collect();
                let any = (0..classes).any(|i| output[..i].contains(&output[i]));
                assert_eq!(ties.has_tie(&logits, &output), any);
                seen[usize::from(any)] += 1;
            }
        }
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }

    #[test]
    fn masks_and_vanished_results_may_be_tied() {
        let probs = [0.5_f32, 0.4, 0.0, 0.0, 1e-39, 1e-39];
        let mut ties = TieDetector::new(6);
        assert!(!ties.has_tie(&OutputBounds::probs::<f32>(), &probs));
        assert!(ties.has_tie(&OutputBounds::logits::<f32>(), &probs));
        let masked = f32::NEG_INFINITY;
        let logits = [2.0_f32, 1.0, masked, masked, -1.0, -2.0];
        assert!(!ties.has_tie(&OutputBounds::logits::<f32>(), &logits));
    }

    #[test]
    fn new_ties_of_tiles_are_those_that_all_pairs_show() {
        let mut rng = Rng::new(83);
        let mut seen = [0, 0];
        for classes in [2, 5, 32] {
            let mut scores = vec![[0.0_f32; LANES]; classes];
            for score in scores.as_flattened_mut() {
                let spread = classes * classes / 2 + 1;
                *score = rng.below(4 * spread) as f32;
            }
            // Neighbouring scores share a result now and then; results that vanished may be equal.
            let mut probs: Vec<_> = scores.iter().map(|s| s.map(|v| (v / 4.0).ceil())).collect();
            for (scores, probs) in scores.iter_mut().zip(&mut probs) {
                (scores[0], probs[0]) = (f32::NEG_INFINITY, 0.0);
                probs[1] = 1e-39;
            }
            let found = new_ties(&scores, &probs);
            for (lane, found) in found.into_iter().enumerate() {
                let tie = |i: usize, j: usize| {
                    let p = probs[i][lane];
                    p == probs[j][lane] && scores[i][lane] != scores[j][lane] && p >= 1e-37
                };
                let any = (0..classes).any(|i| (0..i).any(|j| tie(i, j)));
                assert_eq!(found, any);
                seen[usize::from(any)] += 1;
            }
        }
        assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}");
    }

    #[test]
    fn results_that_keep_their_order_are_in_order_in_64_bits() {
        let mut rng = Rng::new(82);
        let mut kept = 0;
        for _ in 0..20_000 {
            let beta = 10_f64.powf(4.0 * rng.uniform() - 2.0);
            let start = (10_f64.powf(8.0 * rng.uniform() - 5.0)) as f32;
            let mut row = [0.0_f32; 6];
            for (place, score) in row.iter_mut().enumerate() {
                *score = f32::from_bits(start.to_bits() + place as u32);
            }
            if Elementwise::scaling(beta).keeps_order(&row) {
                kept += 1;
                let top = beta * f64::from(row[5]) + 1.0;
                let probs = row.map(|v| exp_f64(beta * f64::from(v) - top));
                assert!(
                    probs.windows(2).all(|pair| pair[0] < pair[1]),
                    "{row:?} {beta}"
                );
            }
        }
        assert!(kept > 5000, "{kept}");
    }

    #[test]
    fn tiny_and_huge_scores_may_change_places() {
        assert!(Elementwise::scaling(1.0).keeps_order(&[0.0, -3.0, 4.0, f32::NEG_INFINITY]));
        for row in [[1e-9_f32, 1.0], [1.0, 1e30], [f32::MIN_POSITIVE, 0.0]] {
            assert!(!Elementwise::scaling(1.0).keeps_order(&row), "{row:?}");
        }
        for (slope, row) in [(1.7e308, [0.9_f32, 1.0]), (1e300, [-1e30, -2e30])] {
            assert!(!Elementwise::scaling(slope).keeps_order(&row), "{slope}");
        }
    }
}

//! Rounding rows whose order cannot have changed but by rounding itself, without sorting them.
//!
//! Where every logit is an increasing function of its own score alone, two scores change places only if
//! rounding errors are larger than what lies between their results. [`Elementwise::keeps_order`] says, from how steep
//! the function is and from the row's extremes, that they are not: in 64 bits the results then have the order
//! of the scores. Rounding to 32 bits never swaps two numbers, so what is left to look for are different
//! scores with equal results, and those are found by a hash table instead of a sort.

// Equality to the last bit is what this is about.
#![allow(clippy::float_cmp)]

use super::round::Bounds;
use crate::data::ScoreKind;
use crate::math::simd::vectorized;
use crate::real::Real;

/// How a map's logits depend on scores, each on its own alone (and on what is the same for the whole row).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elementwise {
    /// The least that the logit grows by per unit of the score.
    pub min_slope: f64,
    /// The most.
    pub max_slope: f64,
    /// What is added to or taken from a score on the way is at most this.
    pub max_offset: f64,
}

/// What a 64-bit result may be off by, in units of the magnitudes it was computed from: 32 times the rounding
/// error of a single operation, for a dozen operations and the exponential behind them.
const ERROR: f64 = 1.0 / (1_u64 << 48) as f64;
/// Neighbouring 32-bit floats differ by at least this share of the smaller one.
const STEP: f64 = 1.0 / (1_u64 << 24) as f64;

impl Elementwise {
    /// Whether different scores of these rows have results that differ the same way, in 64 bits.
    pub(crate) fn keeps_order(&self, scores: &[f32]) -> bool {
        let (smallest, largest) = extremes(scores);
        let (smallest, largest) = (f64::from(smallest), f64::from(largest));
        let size = self.max_slope * (largest + self.max_offset);
        // Results beyond that would be held at the end of the range, several of them at one place.
        size < 1e300 && self.min_slope * smallest * STEP >= 4.0 * ERROR * (size + 1.0)
    }
}

vectorized! {
    /// The smallest magnitude that is not 0 and the largest that is finite.
    fn extremes(scores: &[f32]) -> (f32, f32) {
        const LANES: usize = 16;
        let (mut smallest, mut largest) = ([f32::INFINITY; LANES], [0.0_f32; LANES]);
        let mut look = |lane: usize, score: f32| {
            let magnitude = score.abs();
            // Zeros and masked classes are left out.
            let low = if magnitude > 0.0 { magnitude } else { f32::INFINITY };
            let high = if magnitude < f32::INFINITY { magnitude } else { 0.0 };
            smallest[lane] = if low < smallest[lane] { low } else { smallest[lane] };
            largest[lane] = if high > largest[lane] { high } else { largest[lane] };
        };
        let mut chunks = scores.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &score) in chunk.iter().enumerate() {
                look(lane, score);
            }
        }
        for (lane, &score) in chunks.remainder().iter().enumerate() {
            look(lane, score);
        }
        let smallest = smallest.iter().copied().fold(f32::INFINITY, f32::min);
        (smallest, largest.iter().copied().fold(0.0, f32::max))
    }
}

/// Rounds results whose order is right; [`TieDetector`] then tells which rows rounding has broken.
pub(crate) fn round_all<T: Real>(kind: ScoreKind, values: &[f64], output: &mut [T]) {
    match kind {
        // As the softmax leaves them, they are within bounds.
        ScoreKind::Probs => T::round_probs(values, output),
        ScoreKind::Logits | ScoreKind::LogProbs => {
            let bounds = Bounds::of_logits::<T>();
            T::round_all(values, (bounds.lowest, bounds.highest), output);
        }
    }
}

/// Finds different scores with equal results.
#[derive(Debug, Clone)]
pub(crate) struct TieDetector {
    slots: Vec<u16>,
    taken: Taken,
    /// The number of the row, counted modulo 255: a slot that says another one is free.
    row: u8,
}

/// In which row each slot was last taken: few slots for short rows, which then stay in the first-level cache; more
/// for long ones, so that not too many results share a slot by chance. Their number is known to the
/// compiler, which leaves out the check of each index.
#[derive(Debug, Clone)]
enum Taken {
    Few(Box<[u8; 4096]>),
    Many(Box<[u8; 65536]>),
}

/// Rows of fewer classes make do with few slots.
const LONG: usize = 200;

impl TieDetector {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            slots: vec![0; classes],
            taken: if classes < LONG {
                Taken::Few(Box::new([0; 4096]))
            } else {
                Taken::Many(Box::new([0; 65536]))
            },
            row: 0,
        }
    }

    /// Whether a row of results, rounded from ones in the order of `input`, has an equal pair where the
    /// input has none. In 64 bits nothing was rounded.
    pub(crate) fn has_new_tie<T: Real>(
        &mut self,
        kind: ScoreKind,
        input: &[f32],
        output: &[T],
    ) -> bool {
        let Some(output) = T::narrow(output) else {
            return false;
        };
        let row = Row {
            input,
            output,
            // Results that vanish may be equal.
            least: match kind {
                ScoreKind::Probs => f32::MIN_POSITIVE,
                ScoreKind::Logits | ScoreKind::LogProbs => f32::MIN,
            },
        };
        if self.row == u8::MAX {
            self.row = 0;
            match &mut self.taken {
                Taken::Few(taken) => taken.fill(0),
                Taken::Many(taken) => taken.fill(0),
            }
        }
        self.row += 1;
        match &mut self.taken {
            Taken::Few(taken) => row.has_twins(self.row, &mut self.slots, taken),
            Taken::Many(taken) => row.has_twins(self.row, &mut self.slots, taken),
        }
    }
}

struct Row<'a> {
    input: &'a [f32],
    output: &'a [f32],
    least: f32,
}

impl Row<'_> {
    #[inline(always)]
    fn has_twins<const SLOTS: usize>(
        &self,
        number: u8,
        slots: &mut [u16],
        taken: &mut [u8; SLOTS],
    ) -> bool {
        spread(self.output, slots);
        // Ties are looked up one by one, which is not worth it where there are many.
        let mut left = 8 + self.input.len() / 16;
        for (place, &slot) in slots.iter().enumerate() {
            let slot = &mut taken[usize::from(slot) % SLOTS];
            if *slot == number && self.is_shared(place) {
                if left == 0 || self.has_twin(place) {
                    return true;
                }
                left -= 1;
            }
            *slot = number;
        }
        false
    }

    /// Whether a result that matters has been there before.
    #[cold]
    fn is_shared(&self, place: usize) -> bool {
        let value = self.output[place];
        value >= self.least && count(&self.output[..place], value) > 0
    }

    /// Whether another score before has the same result.
    fn has_twin(&self, place: usize) -> bool {
        let (score, value) = (self.input[place], self.output[place]);
        let mut before = self.input[..place].iter().zip(self.output);
        before.any(|(&other, &result)| result == value && other != score)
    }
}

vectorized! {
    /// A slot for each value: equal values have equal ones.
    fn spread(values: &[f32], slots: &mut [u16]) {
        for (slot, &value) in slots.iter_mut().zip(values) {
            *slot = (value.to_bits().wrapping_mul(0x9e37_79b1) >> 16) as u16;
        }
    }
}

vectorized! {
    /// How often a value is there.
    fn count(values: &[f32], value: f32) -> u32 {
        // No early end: the loop is short, and vectorised without one.
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
    fn twins_are_those_that_all_pairs_show() {
        let mut rng = Rng::new(81);
        let mut seen = [0, 0];
        for classes in [2, 5, 10, 100, 199, 200, 1000] {
            let mut ties = TieDetector::new(classes);
            for _ in 0..200 {
                let spread = classes * classes / 2 + 1;
                let input: Vec<f32> = (0..classes).map(|_| rng.below(4 * spread) as f32).collect();
                // Neighbouring scores share a result now and then.
                let output: Vec<f32> = input.iter().map(|v| (v / 4.0).ceil()).collect();
                let pair = |i: usize, j: usize| output[i] == output[j] && input[i] != input[j];
                let any = (0..classes).any(|i| (0..i).any(|j| pair(i, j)));
                assert_eq!(ties.has_new_tie(ScoreKind::Logits, &input, &output), any);
                seen[usize::from(any)] += 1;
            }
        }
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }

    #[test]
    fn ties_masks_and_vanished_results_are_no_twins() {
        let input = [1.0, 1.0, f32::NEG_INFINITY, f32::NEG_INFINITY, -3.0, -4.0];
        let probs = [0.5_f32, 0.5, 0.0, 0.0, 0.0, 0.0];
        let mut ties = TieDetector::new(6);
        assert!(!ties.has_new_tie(ScoreKind::Probs, &input, &probs));
        assert!(ties.has_new_tie(ScoreKind::Logits, &input, &probs));
        let masked = f32::NEG_INFINITY;
        let logits = [2.0, 2.0, masked, masked, -1.0, -2.0];
        assert!(!ties.has_new_tie(ScoreKind::Logits, &input, &logits));
    }

    #[test]
    fn what_holds_is_in_order_in_64_bits() {
        let mut rng = Rng::new(82);
        let mut held = 0;
        for _ in 0..20_000 {
            let beta = 10_f64.powf(4.0 * rng.uniform() - 2.0);
            let elementwise = Elementwise {
                min_slope: beta,
                max_slope: beta,
                max_offset: 0.0,
            };
            let start = (10_f64.powf(8.0 * rng.uniform() - 5.0)) as f32;
            let mut row = [0.0_f32; 6];
            for (place, score) in row.iter_mut().enumerate() {
                *score = f32::from_bits(start.to_bits() + place as u32);
            }
            if elementwise.keeps_order(&row) {
                held += 1;
                let top = beta * f64::from(row[5]) + 1.0;
                let probs = row.map(|v| exp_f64(beta * f64::from(v) - top));
                assert!(
                    probs.windows(2).all(|pair| pair[0] < pair[1]),
                    "{row:?} {beta}"
                );
            }
        }
        assert!(held > 5000, "{held}");
    }

    #[test]
    fn tiny_and_far_flung_scores_do_not_hold() {
        let elementwise = Elementwise {
            min_slope: 1.0,
            max_slope: 1.0,
            max_offset: 0.0,
        };
        assert!(elementwise.keeps_order(&[0.0, -3.0, 4.0, f32::NEG_INFINITY]));
        for row in [[1e-9_f32, 1.0], [1.0, 1e30], [f32::MIN_POSITIVE, 0.0]] {
            assert!(!elementwise.keeps_order(&row), "{row:?}");
        }
        for (slope, row) in [(1.7e308, [0.9_f32, 1.0]), (1e300, [-1e30, -2e30])] {
            let steep = Elementwise {
                min_slope: slope,
                max_slope: slope,
                max_offset: 0.0,
            };
            assert!(!steep.keeps_order(&row), "{slope}");
        }
    }
}

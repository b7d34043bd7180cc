//! Rounding rows whose order cannot have changed but by rounding itself, without sorting them.
//!
//! Where every logit is an increasing function of its own score alone, two scores change places only if
//! rounding errors are larger than what lies between their results. [`Steady::holds`] says, from how steep
//! the function is and from the row's extremes, that they are not: in 64 bits the results then have the order
//! of the scores. Rounding to 32 bits never swaps two numbers, so what is left to look for are different
//! scores with equal results, and those are found by a hash table instead of a sort.

use super::round::Bounds;
use crate::data::ScoreKind;
use crate::math::simd::vectorized;
use crate::real::Real;

/// How a map's logits depend on scores, each on its own alone (and on what is the same for the whole row).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// The least that the logit grows by per unit of the score.
    pub least_slope: f64,
    /// The most.
    pub most_slope: f64,
    /// What is added to or taken from a score on the way is at most this.
    pub reach: f64,
}

/// What a 64-bit result may be off by, in units of the magnitudes it was computed from: 32 times the rounding
/// error of a single operation, for a dozen operations and the exponential behind them.
const ERROR: f64 = 1.0 / (1_u64 << 48) as f64;
/// Neighbouring 32-bit floats differ by at least this share of the smaller one.
const STEP: f64 = 1.0 / (1_u64 << 24) as f64;

impl Steady {
    /// Whether different scores of these rows have results that differ the same way, in 64 bits.
    pub(crate) fn holds(&self, scores: &[f32]) -> bool {
        let (smallest, largest) = extremes(scores);
        let (smallest, largest) = (f64::from(smallest), f64::from(largest));
        let error = ERROR * (self.most_slope * (largest + self.reach) + 1.0);
        self.least_slope * smallest * STEP >= 4.0 * error
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

/// Rounds results whose order is right; [`Twins`] then tells which rows rounding has broken.
pub(crate) fn round_all<T: Real>(kind: ScoreKind, values: &[f64], output: &mut [T]) {
    let bounds = match kind {
        ScoreKind::Probs => Bounds::of_probs::<T>(),
        ScoreKind::Logits | ScoreKind::LogProbs => Bounds::of_logits::<T>(),
    };
    T::round_all(values, (bounds.lowest, bounds.highest), output);
}

/// Finds different scores with equal results.
#[derive(Debug, Clone)]
pub(crate) struct Twins {
    slots: Vec<u32>,
    taken: Taken,
}

/// A bit for each slot that is taken: few for short rows, as they are all cleared for each; more for long ones, so
/// that not too many results share a slot by chance, but no more than the first-level cache holds. Their
/// number is known to the compiler, which leaves out the check of each index.
#[derive(Debug, Clone)]
enum Taken {
    Few(Box<[u64; 64]>),
    Many(Box<[u64; 2048]>),
}

/// Rows of fewer classes make do with few slots.
const LONG: usize = 200;

impl Twins {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            slots: vec![0; classes],
            taken: if classes < LONG {
                Taken::Few(Box::new([0; 64]))
            } else {
                Taken::Many(Box::new([0; 2048]))
            },
        }
    }

    /// Whether a row of results, rounded from ones in the order of `input`, has an equal pair where the
    /// input has none. In 64 bits nothing was rounded.
    pub(crate) fn found<T: Real>(&mut self, kind: ScoreKind, input: &[f32], output: &[T]) -> bool {
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
        match &mut self.taken {
            Taken::Few(taken) => row.has_twins(&mut self.slots, taken),
            Taken::Many(taken) => row.has_twins(&mut self.slots, taken),
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
    fn has_twins<const WORDS: usize>(&self, slots: &mut [u32], taken: &mut [u64; WORDS]) -> bool {
        taken.fill(0);
        spread(self.output, 6 + WORDS.ilog2(), slots);
        // Ties are looked up one by one, which is not worth it where there are many.
        let mut left = 8 + self.input.len() / 16;
        for (place, &slot) in slots.iter().enumerate() {
            let word = &mut taken[(slot >> 6) as usize % WORDS];
            let bit = 1 << (slot & 63);
            if *word & bit != 0 && self.is_shared(place) {
                if left == 0 || self.has_twin(place) {
                    return true;
                }
                left -= 1;
            }
            *word |= bit;
        }
        false
    }

    /// Whether a result that matters is there more than once.
    #[cold]
    fn is_shared(&self, place: usize) -> bool {
        let value = self.output[place];
        value >= self.least && count(self.output, value) > 1
    }

    /// Whether another score has the same result.
    fn has_twin(&self, place: usize) -> bool {
        let (score, value) = (self.input[place], self.output[place]);
        let mut all = self.input.iter().zip(self.output);
        all.any(|(&other, &result)| result == value && other != score)
    }
}

vectorized! {
    /// A slot for each value: equal values have equal ones.
    fn spread(values: &[f32], bits: u32, slots: &mut [u32]) {
        let shift = 32 - bits;
        for (slot, &value) in slots.iter_mut().zip(values) {
            *slot = value.to_bits().wrapping_mul(0x9e37_79b1) >> shift;
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

//! The inputs of a network: scores shifted, scaled and clamped to the range of the calibration data.

use serde::{Deserialize, Serialize};

use crate::math::simd::vectorized;
use crate::math::softmax;

/// What is subtracted from a row of scores before a network reads it.
///
/// A softmax does not depend on a common shift of a row, but a network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// Nothing: the scores as they are, as in the paper.
    Raw,
    /// The log-sum-exp of the row, which leaves log-probabilities.
    #[default]
    LogSoftmax,
    /// The mean of the row.
    Centred,
}

impl InputKind {
    /// What to subtract from a row of scores, given the classes that are not masked.
    ///
    /// The mean of [`Centred`](Self::Centred) is summed in the order given: pass sorted scores where the result must
    /// not depend on the order of the classes.
    pub(crate) fn shift(self, possible: &[f32]) -> f64 {
        match self {
            Self::Raw => 0.0,
            Self::LogSoftmax => softmax::log_sum_exp(possible),
            Self::Centred => {
                let sum: f64 = possible.iter().map(|&y| f64::from(y)).sum();
                sum / possible.len() as f64
            }
        }
    }

    /// Whether [`shifts`](Self::shifts) needs the order of the classes.
    pub(crate) fn needs_order(self) -> bool {
        self == Self::Centred
    }

    /// The shift of each row, independent of the order of its classes. `order` holds the sorted classes of each row; it
    /// may be empty unless they are [needed](Self::needs_order).
    pub(crate) fn shifts(self, scores: &[f32], classes: usize, order: &[u32], shifts: &mut [f64]) {
        match self {
            Self::Raw => shifts.fill(0.0),
            Self::LogSoftmax => softmax::log_sums(scores, classes, shifts),
            Self::Centred => {
                let rows = scores
                    .chunks_exact(classes)
                    .zip(order.chunks_exact(classes));
                for ((scores, order), shift) in rows.zip(shifts) {
                    let descending = order.iter().map(|&class| scores[class as usize]);
                    let possible = descending.take_while(|&score| score > f32::NEG_INFINITY);
                    *shift = self.shift(&possible.collect::<Vec<f32>>());
                }
            }
        }
    }
}

/// The largest magnitude of an input, in units of the scale.
const MAX_INPUT: f64 = 100.0;

/// How scores become a network's inputs, learned from the calibration data.
///
/// input = clamp((score − shift) / scale, low, high). The scale is the median over rows of the root mean square of a
/// row's shifted scores: a fit does not depend on the units of the logits, and a few outliers do not make all other
/// inputs tiny. Scores outside the calibration range are clamped to it, because the extrapolation of a ReLU network is
/// arbitrary, and because scores of ±1e30 must stay finite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    pub kind: InputKind,
    pub scale: f64,
    pub low: f64,
    pub high: f64,
}

impl Inputs {
    /// Learns scale and range from rows of scores in descending order, without masked classes.
    pub(crate) fn learn<'a>(kind: InputKind, rows: impl Iterator<Item = &'a [f32]>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut sizes = Vec::new();
        for row in rows {
            let shift = kind.shift(row);
            let (mut squares, mut count) = (0.0, 0.0);
            for &score in row {
                let value = f64::from(score) - shift;
                low = low.min(value);
                high = high.max(value);
                squares += value * value;
                count += 1.0;
            }
            // Constant rows carry no information on the scale.
            if squares > 0.0 {
                sizes.push((squares / count).sqrt());
            }
        }
        let middle = sizes.len() / 2;
        let scale = match sizes.len() {
            0 => 1.0,
            _ => *sizes.select_nth_unstable_by(middle, f64::total_cmp).1,
        };
        Self {
            kind,
            scale,
            low: (low / scale).max(-MAX_INPUT),
            high: (high / scale).min(MAX_INPUT),
        }
    }

    /// The input for a score of a row with this shift.
    #[inline(always)]
    pub(crate) fn value(&self, score: f32, shift: f64) -> f32 {
        ((f64::from(score) - shift) / self.scale).clamp(self.low, self.high) as f32
    }
}

vectorized! {
    /// Writes the inputs of a row; what lies below `least`, masked classes too, is read as `least`.
    pub(crate) fn read_row(inputs: &Inputs, scores: &[f32], least: f32, shift: f64, targets: &mut [f32]) {
        for (target, &score) in targets.iter_mut().zip(scores) {
            *target = inputs.value(if score > least { score } else { least }, shift);
        }
    }
}

//! What a network reads: scores shifted, scaled and held within the range it was trained on.

use serde::{Deserialize, Serialize};

use crate::math::simd::vectorized;
use crate::math::softmax;

/// The shift of a row before a network reads it. A softmax ignores shifts; a network does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// The scores as they are: what the paper does.
    Raw,
    /// Less the log-sum-exp of the row: log-probabilities.
    #[default]
    LogSoftmax,
    /// Less the mean of the row.
    Centred,
}

impl InputKind {
    /// What to subtract from a row, given its possible (not masked) scores in descending order.
    ///
    /// It depends on the set of scores alone; for all but [`Centred`](Self::Centred) they need not be sorted,
    /// and may hold masked ones.
    pub(crate) fn shift(self, descending: &[f32]) -> f64 {
        match self {
            Self::Raw => 0.0,
            Self::LogSoftmax => softmax::log_sum_exp(descending),
            Self::Centred => {
                let sum: f64 = descending.iter().map(|&y| f64::from(y)).sum();
                sum / descending.len() as f64
            }
        }
    }
}

/// How far from 0 an input can be, in units of an ordinary row's root mean square.
const FARTHEST: f64 = 100.0;

/// How scores become a network's inputs, learned from the calibration data.
///
/// Input = clamp((score − shift) / scale). The scale is the median over rows of the root mean square of a
/// row's shifted scores, so a fit does not depend on the units of the logits, and a few wild rows do not
/// flatten all others. The clamp holds what lies outside the calibration range at its edge: a ReLU
/// network's extrapolation would be arbitrary, and scores of ±1e30 stay finite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    pub kind: InputKind,
    pub scale: f64,
    pub low: f64,
    pub high: f64,
}

impl Inputs {
    /// Learns scale and range from rows given as possible scores in descending order.
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
            // Flat rows say nothing about the scale.
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
            low: (low / scale).max(-FARTHEST),
            high: (high / scale).min(FARTHEST),
        }
    }

    /// The inputs of a whole row; masked scores read as `smallest`.
    pub(crate) fn read(&self, scores: &[f32], smallest: f32, shift: f64, inputs: &mut [f32]) {
        read_row(self, scores, smallest, shift, inputs);
    }

    /// The input that a score of a row with this shift becomes.
    #[inline(always)]
    pub(crate) fn value(&self, score: f32, shift: f64) -> f32 {
        ((f64::from(score) - shift) / self.scale).clamp(self.low, self.high) as f32
    }
}

vectorized! {
    fn read_row(inputs: &Inputs, scores: &[f32], smallest: f32, shift: f64, targets: &mut [f32]) {
        for (target, &score) in targets.iter_mut().zip(scores) {
            let score = if score > f32::NEG_INFINITY { score } else { smallest };
            *target = inputs.value(score, shift);
        }
    }
}

//! The features of a linear map.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{check, check_beta, count_unmasked};
use crate::data::Dataset;
use crate::error::Result;
use crate::math::exp::ln_f64;
use crate::math::simd::vectorized;
use crate::math::softmax;
use crate::nn::input::InputKind;

/// The largest absolute value of a feature; products of larger ones would overflow 32-bit floats.
const MAX_FEATURE: f64 = 1e6;

/// The features u of a linear map, K numbers, as a function of a row of scores x.
///
/// The feature of a masked class (`-inf`) must be finite: it is the smallest feature of the unmasked classes of the row.
///
/// β > 0 is an inverse temperature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Features {
    /// u = β(x − shift), clamped to a range: that of the calibration data, extended by its own width on either side, and
    /// within ±1e6. Only extreme scores such as ±1e30 are changed.
    Tempered {
        /// The shift that is subtracted from a row.
        input: InputKind,
        /// β.
        beta: f64,
        /// The range to which u is clamped: lower and upper bound.
        range: (f64, f64),
    },
    /// u = ln((1 − s)·softmax(βx) + s/K), where K is the number of unmasked classes of the row.
    Mixed {
        /// β.
        beta: f64,
        /// s, the weight of the uniform distribution, between 0 and 1.
        share: f64,
    },
}

impl Features {
    /// Tempered scores, with the range taken from the rows of positive weight.
    pub(crate) fn tempered(input: InputKind, beta: f64, data: &Dataset<'_>) -> Self {
        let (low, high) = data
            .scores()
            .as_slice()
            .par_chunks(data.classes())
            .enumerate()
            .filter(|(row, _)| data.weight(*row) > 0.0)
            .map(|(_, scores)| {
                let shift = shift(input, beta, scores);
                let possible = scores.iter().filter(|s| **s > f32::NEG_INFINITY);
                possible.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &s| {
                    let value = beta * f64::from(s) - shift;
                    (low.min(value), high.max(value))
                })
            })
            .reduce(
                || (f64::INFINITY, f64::NEG_INFINITY),
                |a, b| (a.0.min(b.0), a.1.max(b.1)),
            );
        let width = high - low;
        let range = (
            (low - width).clamp(-MAX_FEATURE, MAX_FEATURE),
            (high + width).clamp(-MAX_FEATURE, MAX_FEATURE),
        );
        Self::Tempered { input, beta, range }
    }

    /// Validates stored features.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the field that is out of range.
    pub(crate) fn validate(&self) -> Result<()> {
        let beta = match self {
            Self::Tempered { beta, .. } | Self::Mixed { beta, .. } => *beta,
        };
        check_beta(beta)?;
        match *self {
            Self::Tempered {
                range: (low, high), ..
            } => {
                let good = -MAX_FEATURE <= low && low <= high && high <= MAX_FEATURE;
                let found = format!("{low}..{high}");
                check(good, "range", found, "two numbers in order within ±1e6")
            }
            Self::Mixed { share, .. } => {
                let good = share > 0.0 && share < 1.0;
                check(good, "share", share, "a number between 0 and 1")
            }
        }
    }

    /// Writes the features of some rows.
    pub(crate) fn of_block(
        &self,
        scores: &[f32],
        classes: usize,
        scratch: &mut Vec<f64>,
        features: &mut [f32],
    ) {
        let rows = scores.chunks_exact(classes);
        match *self {
            Self::Tempered {
                input,
                beta,
                range: (low, high),
            } => {
                for (scores, features) in rows.zip(features.chunks_exact_mut(classes)) {
                    let shift = shift(input, beta, scores);
                    for (feature, &score) in features.iter_mut().zip(scores) {
                        *feature = (beta * f64::from(score) - shift).clamp(low, high) as f32;
                    }
                }
            }
            Self::Mixed { beta, share } => {
                scratch.clear();
                scratch.extend(scores.iter().map(|&score| beta * f64::from(score)));
                softmax::unnormalised_rows(scratch, classes);
                softmax::normalise_rows(scratch, classes);
                for (scores, probs) in rows.zip(scratch.chunks_exact_mut(classes)) {
                    let uniform = share / count_unmasked(scores) as f64;
                    for p in probs {
                        *p = (1.0 - share) * *p + uniform;
                    }
                }
                logarithms(scratch, features);
            }
        }
        let rows = scores.chunks_exact(classes);
        for (scores, features) in rows.zip(features.chunks_exact_mut(classes)) {
            fill_masked(scores, features);
        }
    }

    /// The features of all rows, N×K.
    pub(crate) fn of_rows(&self, data: &Dataset<'_>) -> Vec<f32> {
        let classes = data.classes();
        let mut features = vec![0.0; data.rows() * classes];
        let block = softmax::group(classes) * classes;
        features
            .par_chunks_mut(block)
            .zip(data.scores().as_slice().par_chunks(block))
            .for_each_init(Vec::new, |scratch, (features, scores)| {
                self.of_block(scores, classes, scratch, features);
            });
        features
    }
}

vectorized! {
    fn logarithms(values: &[f64], logs: &mut [f32]) {
        for (log, &value) in logs.iter_mut().zip(values) {
            *log = ln_f64(value) as f32;
        }
    }
}

/// The shift that is subtracted from β times a row.
fn shift(input: InputKind, beta: f64, scores: &[f32]) -> f64 {
    let possible = || {
        let finite = scores.iter().filter(|s| **s > f32::NEG_INFINITY);
        finite.map(|&s| f64::from(s))
    };
    match input {
        InputKind::Raw => 0.0,
        InputKind::LogSoftmax => {
            let top = possible().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = possible().map(|s| (s - top).exp()).sum();
            beta * (top + sum.ln())
        }
        InputKind::Centred => {
            let (sum, count) = possible().fold((0.0, 0.0), |(s, c), v| (s + v, c + 1.0));
            beta * sum / count
        }
    }
}

/// Sets the features of masked classes to the smallest feature of the others.
fn fill_masked(scores: &[f32], features: &mut [f32]) {
    if !scores.contains(&f32::NEG_INFINITY) {
        return;
    }
    let pairs = scores.iter().zip(&*features);
    let smallest = pairs
        .filter(|(s, _)| **s > f32::NEG_INFINITY)
        .fold(f32::INFINITY, |smallest, (_, &f)| smallest.min(f));
    for (feature, &score) in features.iter_mut().zip(scores) {
        if score == f32::NEG_INFINITY {
            *feature = smallest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use ndarray::arr2;

    fn compute(features: &Features, scores: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; scores.len()];
        features.of_block(scores, scores.len(), &mut Vec::new(), &mut out);
        out
    }

    #[test]
    fn mixed_features_are_log_probabilities() {
        let features = Features::Mixed {
            beta: 0.5,
            share: 0.1,
        };
        let out = compute(&features, &[2.0, 0.0, f32::NEG_INFINITY, -1e30]);
        let (a, b) = (1_f64.exp(), 1.0);
        let expected = |p: f64| (0.9 * p + 0.1 / 3.0).ln();
        assert!((f64::from(out[0]) - expected(a / (a + b))).abs() < 1e-6);
        assert!((f64::from(out[1]) - expected(b / (a + b))).abs() < 1e-6);
        assert!((f64::from(out[3]) - expected(0.0)).abs() < 1e-6);
        assert_eq!(out[2], out[3], "a masked class has the smallest feature");
    }

    #[test]
    fn only_scores_far_outside_the_calibration_range_are_clamped() {
        let scores = Scores::new(ScoreKind::Logits, arr2(&[[3.0_f32, -1.0], [1e30, 0.0]])).unwrap();
        let weights = vec![1.0, 0.0];
        let data = Dataset::new(scores, &[0, 1]).unwrap();
        let data = data.with_weights(weights).unwrap();
        let features = Features::tempered(InputKind::Raw, 2.0, &data);
        // The row of weight 0 is ignored: the range is −2..6, and its width 8.
        let Features::Tempered { range, .. } = features else {
            panic!()
        };
        assert_eq!(range, (-10.0, 14.0));
        assert_eq!(compute(&features, &[6.5, -4.5]), [13.0, -9.0]);
        assert_eq!(compute(&features, &[1e30, -1e30]), [14.0, -10.0]);
    }

    #[test]
    fn shifts_agree_with_those_of_the_networks() {
        let scores = [1.0_f32, 4.0, f32::NEG_INFINITY, -2.0];
        for kind in [InputKind::Raw, InputKind::LogSoftmax, InputKind::Centred] {
            let sorted = [4.0, 1.0, -2.0];
            // Networks compute the exponentials in 32 bits.
            assert!((shift(kind, 1.0, &scores) - kind.shift(&sorted)).abs() < 1e-6);
        }
    }
}

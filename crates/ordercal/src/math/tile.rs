//! Short rows, transposed in tiles of 64: a vector holds one class of several rows.
//!
//! Rows of ten classes leave most of a vector register empty, and their maxima and sums are chains of single additions.
//! In a tile, both are additions of whole vectors. Every number is computed as in [`softmax`](super::softmax), to the bit.

use super::exp::{exp_f32, exp_f64, ln_f64};
use super::simd::vectorized;
use super::softmax::{larger, rounder};

/// The rows of a tile. Loops over so many numbers stay loops until they are vectorised; loops over one or two vectors are
/// unrolled first, and then the compiler vectorises along the classes instead.
pub(crate) const LANES: usize = 64;

/// One number of each row of a tile, for example the scores of one class.
pub(crate) type Lanes<T> = [T; LANES];

/// Tiles of rows with more classes would not fit the first-level cache.
pub(crate) const MOST_CLASSES: usize = 32;

/// The buffers of one tile, each with one element per class.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tile {
    pub(crate) scores: Vec<Lanes<f32>>,
    pub(crate) logits: Vec<Lanes<f64>>,
    pub(crate) probs: Vec<Lanes<f32>>,
}

impl Tile {
    pub(crate) fn resize(&mut self, classes: usize) {
        self.scores.resize(classes, [0.0; LANES]);
        self.logits.resize(classes, [0.0; LANES]);
        self.probs.resize(classes, [0.0; LANES]);
    }
}

vectorized! {
    /// Transposes 64 rows.
    pub(crate) fn transpose(rows: &[f32], tile: &mut [Lanes<f32>]) {
        let classes = tile.len();
        assert_eq!(rows.len(), classes * LANES, "a whole tile");
        for (class, lanes) in tile.iter_mut().enumerate() {
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = rows[lane * classes + class];
            }
        }
    }
}

vectorized! {
    /// The reverse of [`transpose`].
    pub(crate) fn transpose_back(tile: &[Lanes<f32>], rows: &mut [f32]) {
        let classes = tile.len();
        assert_eq!(rows.len(), classes * LANES, "a whole tile");
        for (class, lanes) in tile.iter().enumerate() {
            for (lane, &value) in lanes.iter().enumerate() {
                rows[lane * classes + class] = value;
            }
        }
    }
}

vectorized! {
    /// The softmax of each row, rounded to 32 bits. The logits are overwritten. No row may be all `-inf`.
    pub(crate) fn probabilities(logits: &mut [Lanes<f64>], probs: &mut [Lanes<f32>]) {
        let mut tops = [f64::NEG_INFINITY; LANES];
        for lanes in logits.iter() {
            for (top, &logit) in tops.iter_mut().zip(lanes) {
                *top = larger(*top, logit);
            }
        }
        for lanes in logits.iter_mut() {
            for (logit, &top) in lanes.iter_mut().zip(&tops) {
                *logit = exp_f64(*logit - top);
            }
        }
        // The largest term is e⁰ = 1, so the terms are rounded to multiples of the same number in all rows.
        let rounder = rounder(logits.len());
        let mut scales = [0.0; LANES];
        for lanes in logits.iter() {
            for (sum, &e) in scales.iter_mut().zip(lanes) {
                *sum += (e + rounder) - rounder;
            }
        }
        for scale in &mut scales {
            *scale = 1.0 / larger(*scale, 1.0);
        }
        for (lanes, probs) in logits.iter().zip(probs) {
            for ((prob, &e), &scale) in probs.iter_mut().zip(lanes).zip(&scales) {
                *prob = (e * scale) as f32;
            }
        }
    }
}

vectorized! {
    /// The log-sum-exp of each row, as [`softmax::log_sums`](super::softmax::log_sums) gives it.
    pub(crate) fn log_sums(scores: &[Lanes<f32>], logs: &mut Lanes<f64>) {
        let mut tops = [f32::NEG_INFINITY; LANES];
        for lanes in scores {
            for (top, &score) in tops.iter_mut().zip(lanes) {
                *top = larger(*top, score);
            }
        }
        let rounder = rounder(scores.len());
        let mut sums = [0.0; LANES];
        for lanes in scores {
            for ((sum, &score), &top) in sums.iter_mut().zip(lanes).zip(&tops) {
                *sum += (f64::from(exp_f32(score - top)) + rounder) - rounder;
            }
        }
        for ((log, &sum), &top) in logs.iter_mut().zip(&sums).zip(&tops) {
            *log = f64::from(top) + ln_f64(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::softmax;
    use crate::rng::Rng;

    #[test]
    fn tiles_are_as_rows_alone() {
        let mut rng = Rng::new(7);
        for classes in [2, 3, 10, 17, MOST_CLASSES] {
            let mut rows: Vec<f32> = (0..classes * LANES)
                .map(|_| rng.normal() as f32 * 30.0)
                .collect();
            // A masked class, and a row of equal scores.
            rows[1] = f32::NEG_INFINITY;
            rows[classes..2 * classes].fill(0.5);
            let mut tile = Tile::default();
            tile.resize(classes);
            transpose(&rows, &mut tile.scores);
            let mut back = vec![0.0; rows.len()];
            transpose_back(&tile.scores, &mut back);
            assert_eq!(back, rows);

            let mut logs = [0.0; LANES];
            log_sums(&tile.scores, &mut logs);
            for (row, &log) in rows.chunks_exact(classes).zip(&logs) {
                assert_eq!(softmax::log_sum_exp(row), log);
            }

            let mut wide: Vec<f64> = rows.iter().map(|&score| f64::from(score)).collect();
            for (logits, scores) in tile.logits.iter_mut().zip(&tile.scores) {
                *logits = scores.map(f64::from);
            }
            probabilities(&mut tile.logits, &mut tile.probs);
            transpose_back(&tile.probs, &mut back);
            for (row, probs) in wide
                .chunks_exact_mut(classes)
                .zip(back.chunks_exact(classes))
            {
                softmax::probabilities(row);
                let rounded: Vec<f32> = row.iter().map(|&p| p as f32).collect();
                assert_eq!(rounded, probs);
            }
        }
    }
}

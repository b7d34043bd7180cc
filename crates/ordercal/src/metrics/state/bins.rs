//! Fixed-point sums over the rows of a bin, and the fine bins that approximate sorted rows.

use super::fixed::{Fixed, float};
use crate::metrics::binning::BinSum;
use crate::metrics::cox;

/// Fixed-point sums over the rows of a bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FixedBinSum {
    pub(super) rows: u64,
    pub(super) weight: Fixed,
    pub(super) confidence: Fixed,
    pub(super) hits: Fixed,
}

impl FixedBinSum {
    #[inline]
    pub(super) fn add(&mut self, weight: Fixed, confidence: Fixed, hit: bool) {
        self.rows += 1;
        self.weight += weight;
        self.confidence += confidence;
        if hit {
            self.hits += weight;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.weight += other.weight;
        self.confidence += other.confidence;
        self.hits += other.hits;
    }

    pub(super) fn sum(&self) -> BinSum {
        BinSum {
            rows: self.rows,
            weight: float(self.weight),
            confidence: float(self.confidence),
            hits: float(self.hits),
        }
    }
}

/// Bins whose widths shrink geometrically towards 0 and 1, where most confidences are.
///
/// Each octave [2⁻ʲ⁻¹, 2⁻ʲ) of a probability p ≤ ½ has `2^digits` bins, given by the leading binary digits of
/// p; for p > ½ the same holds for 1 − p. All probabilities closer to 0 or 1 than the last octave share a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FineBins {
    digits: u32,
    low_octaves: usize,
    high_octaves: usize,
}

impl FineBins {
    /// For the top label: relative width 1/128, at most 1/512 wide.
    pub(super) const TOP: Self = Self {
        digits: 7,
        low_octaves: 20,
        high_octaves: 40,
    };
    /// For every class: relative width 1/8.
    pub(super) const CLASS: Self = Self {
        digits: 3,
        low_octaves: 40,
        high_octaves: 20,
    };

    /// The number of bins.
    pub(super) fn len(self) -> usize {
        ((self.low_octaves + self.high_octaves) << self.digits) + 2
    }

    /// The bin of a probability, which does not decrease with the probability.
    pub(super) fn index(self, p: f64) -> usize {
        if p <= 0.5 {
            self.step(p, self.low_octaves)
        } else {
            // 1 − p is exact here; rounding can bring p above 1, which is clamped.
            self.len() - 1 - self.step((1.0 - p).max(0.0), self.high_octaves)
        }
    }

    /// How much the log-odds ln(p / (1 − p)) vary within the bin that holds p, given its log-odds.
    pub(super) fn log_odds_width(self, log_odds: f64) -> f64 {
        let octaves = if log_odds > 0.0 {
            self.high_octaves
        } else {
            self.low_octaves
        };
        // The log-odds at which the first and the last bin begin, and the largest that `cox` knows.
        let end = (octaves as f64 + 1.0) * std::f64::consts::LN_2;
        if log_odds.abs() < end {
            // The derivative is 1/(p(1 − p)), at most 2 over the distance to 0 or 1.
            2.0 / f64::from(1_u32 << self.digits)
        } else {
            cox::log_odds(1.0) - end
        }
    }

    /// The bin of a distance up to ½ from 0, counted from 0.
    fn step(self, distance: f64, octaves: usize) -> usize {
        let shift = 52 - self.digits;
        // ½ itself belongs to the last bin of its half.
        let bits = distance.to_bits().min(0.5_f64.to_bits() - 1) >> shift;
        let end = 0.5_f64.to_bits() >> shift;
        let below = (end - bits) as usize;
        ((octaves << self.digits) + 1).saturating_sub(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn fine_bins_are_in_order_and_as_narrow_as_promised() {
        for (scale, relative, widest) in [
            (FineBins::TOP, 1.0 / 128.0, 1.0 / 512.0),
            (FineBins::CLASS, 0.125, 1.0 / 32.0),
        ] {
            let mut rng = Rng::new(32);
            let mut values: Vec<f64> = (0..200_000)
                .map(|i| {
                    let near = rng.uniform() * 2_f64.powi(-(rng.below(60) as i32));
                    if i % 2 == 0 { near } else { 1.0 - near }
                })
                .chain([0.0, 0.5, 0.5_f64.next_up(), 0.5_f64.next_down(), 1.0])
                .collect();
            values.sort_by(f64::total_cmp);
            assert_eq!(scale.index(0.0), 0);
            assert_eq!(scale.index(1.0), scale.len() - 1);
            assert_eq!(scale.index(1.0005), scale.len() - 1);
            let mut first = values[0];
            for pair in values.windows(2) {
                let (a, b) = (scale.index(pair[0]), scale.index(pair[1]));
                assert!(a <= b, "{pair:?} are in bins {a} and {b}");
                if a != b {
                    first = pair[1];
                } else if b > 0 && b < scale.len() - 1 {
                    let width = pair[1] - first;
                    assert!(width <= widest, "{first} to {}", pair[1]);
                    let distance = first.min(1.0 - first);
                    assert!(
                        width <= distance * relative + 1e-17,
                        "{first} to {}",
                        pair[1]
                    );
                }
            }
        }
    }
}

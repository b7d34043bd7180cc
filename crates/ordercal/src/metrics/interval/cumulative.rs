//! Noise of the largest cumulative gap.

use super::{FACTORS, Simulated};
use crate::metrics::binning::Sorted;

/// Rows in order of confidence, for the largest cumulative gap.
pub(super) struct CumulativeGaps {
    rows: Vec<usize>,
    residual: Vec<f64>,
    /// The row's own weight times its residual.
    own: Vec<f64>,
    /// Whether the next row has another confidence.
    last_of_tie: Vec<bool>,
    /// The place where the cumulative noise varies most.
    widest: usize,
    total: f64,
}

impl CumulativeGaps {
    pub(super) fn new(rows: &Sorted<'_>, order: &[usize]) -> Self {
        let n = rows.confidence.len();
        let residual: Vec<f64> = rows
            .confidence
            .iter()
            .zip(rows.hit)
            .map(|(confidence, hit)| confidence - hit)
            .collect();
        let weight = |row: usize| rows.weight.map_or(1.0, |w| w[row]);
        let own: Vec<f64> = (0..n).map(|row| weight(row) * residual[row]).collect();
        let (mut sum, mut squares, mut largest, mut widest) = (0.0, 0.0, -1.0, 0);
        for (place, gap) in own.iter().enumerate() {
            sum += gap;
            squares += gap * gap;
            let variance = squares - sum * sum / n as f64;
            if variance > largest {
                (largest, widest) = (variance, place);
            }
        }
        Self {
            rows: order.to_vec(),
            residual,
            own,
            last_of_tie: (0..n)
                .map(|row| row + 1 == n || rows.confidence[row + 1] > rows.confidence[row])
                .collect(),
            widest,
            total: (0..n).map(weight).sum(),
        }
    }

    pub(super) fn simulate(&self, weights: &[f64], scale: f64) -> Simulated {
        let mut found = Simulated::default();
        let mut noise = 0.0;
        let mut gap = 0.0;
        for (place, &row) in self.rows.iter().enumerate() {
            noise += weights[row] * scale * self.residual[place] - self.own[place];
            gap += self.own[place];
            if place == self.widest {
                found.slope = noise / self.total;
            }
            if self.last_of_tie[place] {
                for (error, factor) in found.error.iter_mut().zip(FACTORS) {
                    *error = error.max((factor * gap + noise).abs());
                }
            }
        }
        for error in &mut found.error {
            *error /= self.total;
        }
        found
    }
}

//! Noise of the smooth error.

use super::{FACTORS, Simulated};
use crate::metrics::binning::Sorted;
use crate::metrics::smooth;

/// Rows on the grid of the smooth error, at the kernel width of the observed rows.
pub(super) struct SmoothGaps {
    width: f64,
    rows: Vec<usize>,
    residual: Vec<f64>,
    /// The node below each row, and how far it is on the way to the next.
    places: Vec<(usize, f64)>,
    nodes: usize,
    gap: Vec<f64>,
    density: f64,
    /// Σ of the rows' own weights times their residuals.
    own: f64,
    total: f64,
}

impl SmoothGaps {
    pub(super) fn new(rows: &Sorted<'_>, order: &[usize]) -> Self {
        let (_, width) = smooth::smooth_error_and_width(rows);
        let intervals = smooth::grid_intervals(width);
        let residual: Vec<f64> = rows
            .confidence
            .iter()
            .zip(rows.hit)
            .map(|(confidence, hit)| confidence - hit)
            .collect();
        let places = rows.confidence.iter();
        let places: Vec<(usize, f64)> = places.map(|&c| smooth::locate(c, intervals)).collect();
        let weight = |row: usize| rows.weight.map_or(1.0, |w| w[row]);
        let total = (0..residual.len()).map(weight).sum();
        let own = (0..residual.len())
            .map(|row| weight(row) * residual[row])
            .sum();
        let mut found = Self {
            width,
            rows: order.to_vec(),
            residual,
            places,
            nodes: intervals + 1,
            gap: Vec::new(),
            density: smooth::density(rows, width),
            own,
            total,
        };
        found.gap = found.smoothed(|place| weight(place));
        found
    }

    /// The smoothed residuals at evenly spaced points, given what each row weighs.
    fn smoothed(&self, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut grid = vec![0.0; self.nodes];
        for (place, (&residual, &(node, fraction))) in
            self.residual.iter().zip(&self.places).enumerate()
        {
            let residual = weight(place) * residual;
            grid[node] += (1.0 - fraction) * residual;
            grid[node + 1] += fraction * residual;
        }
        smooth::smoothed_points(&grid, self.width)
    }

    pub(super) fn simulate(&self, weights: &[f64], scale: f64) -> Simulated {
        let resampled = self.smoothed(|place| weights[self.rows[place]] * scale);
        let error = FACTORS.map(|factor| {
            let pairs = resampled.iter().zip(&self.gap);
            let sum: f64 = pairs.map(|(r, g)| (r - g + factor * g).abs()).sum();
            sum / self.density
        });
        let pairs = self.rows.iter().zip(&self.residual);
        let sum: f64 = pairs.map(|(&row, residual)| weights[row] * residual).sum();
        // Rows are independent, so that the variance of Σ ± residual is the same for all signs: all +.
        let slope = (sum * scale - self.own) / self.total;
        Simulated { error, slope }
    }
}

//! Gaps between confidence and accuracy, and draws of their noise.

use super::{FACTORS, SLOPE, Simulated};
use crate::metrics::binning::BinSum;
use crate::metrics::top_label::SortedRows;
use crate::metrics::{Metric, MetricOptions, Predictions, smooth};
use crate::rng::Rng;

/// Gaps of rows in bins.
pub(super) struct BinnedGaps {
    metric: Metric,
    norm: f64,
    bins: Vec<GapBin>,
    total: f64,
    /// How much of the surplus of rows each gap takes back.
    recentred: f64,
}

struct GapBin {
    weight: f64,
    /// Σ weight · (confidence − hit).
    gap: f64,
    /// The standard deviation of that.
    deviation: f64,
    /// The variance of the bin's accuracy, estimated from its rows.
    variance: f64,
}

impl BinnedGaps {
    pub(super) fn new(
        metric: Metric,
        options: &MetricOptions,
        bins: Vec<BinSum>,
        spread: f64,
    ) -> Self {
        let filled = bins.iter().filter(|bin| !bin.is_empty());
        let of_sum = |bin: &BinSum| {
            // An accuracy of 0 or 1 is not taken at its word: one more row, as sure as the others, is counted.
            let accuracy = (bin.hits + bin.confidence / bin.weight) / (bin.weight + 1.0);
            // The noise of the outcomes in the bin, and that of the number of rows in it.
            let noise = (accuracy * (1.0 - accuracy)).max(0.0) + bin.gap() * bin.gap();
            let hits = bin.hits / bin.weight;
            GapBin {
                weight: bin.weight,
                gap: bin.confidence - bin.hits,
                deviation: (spread * bin.weight * noise).sqrt(),
                variance: hits * (1.0 - hits) / (bin.weight - 1.0),
            }
        };
        let bins: Vec<GapBin> = filled.map(of_sum).collect();
        let total: f64 = bins.iter().map(|bin| bin.weight).sum();
        // All bins together have as many rows as were observed: the covariance of the noise is that of independent
        // gaps, less spread · gap · gapᵀ / total.
        let squares: f64 = bins.iter().map(|bin| bin.leverage().powi(2)).sum();
        let kept = (1.0 - spread * squares / total).max(0.0).sqrt();
        let recentred = if squares > 0.0 {
            (1.0 - kept) / squares
        } else {
            0.0
        };
        Self {
            metric,
            norm: options.norm,
            bins,
            total,
            recentred,
        }
    }

    /// Σ share · gap² over the bins that count.
    pub(super) fn plug_in_square(&self) -> f64 {
        let bins = self.bins.iter().filter(|bin| bin.weight >= 2.0);
        bins.map(|bin| bin.gap * bin.gap / bin.weight).sum::<f64>() / self.total
    }

    pub(super) fn simulate(&self, rng: &mut Rng) -> Simulated {
        let mut noise: Vec<f64> = self.bins.iter().map(|_| rng.normal()).collect();
        let pairs = self.bins.iter().zip(&noise);
        let surplus: f64 = pairs.map(|(bin, noise)| bin.leverage() * noise).sum();
        for (noise, bin) in noise.iter_mut().zip(&self.bins) {
            *noise = *noise * bin.deviation - self.recentred * surplus * bin.gap;
        }
        let mut found = Simulated::default();
        for (error, factor) in found.iter_mut().zip(FACTORS) {
            *error = self.error(&noise, factor);
        }
        let pairs = self.bins.iter().zip(&noise);
        let slope: f64 = pairs.map(|(bin, noise)| bin.gap / bin.weight * noise).sum();
        found[SLOPE] = 2.0 * slope / self.total;
        found
    }

    /// The metric before its root, of `factor` times the gaps with noise.
    fn error(&self, noise: &[f64], factor: f64) -> f64 {
        let pairs = self.bins.iter().zip(noise);
        let gaps = pairs.map(|(bin, noise)| (bin, factor * bin.gap + noise));
        match self.metric {
            Metric::Mce => {
                let gaps = gaps.map(|(bin, gap)| (gap / bin.weight).abs());
                gaps.fold(0.0, f64::max)
            }
            Metric::DebiasedEce | Metric::MarginalCe => {
                let gaps = gaps.filter(|(bin, _)| bin.weight >= 2.0);
                let squares =
                    gaps.map(|(bin, gap)| gap * gap / bin.weight - bin.weight * bin.variance);
                squares.sum::<f64>().max(0.0) / self.total
            }
            _ if self.norm <= 1.0 => gaps.map(|(_, gap)| gap.abs()).sum::<f64>() / self.total,
            _ => {
                let powers =
                    gaps.map(|(bin, gap)| bin.weight * (gap / bin.weight).abs().powf(self.norm));
                powers.sum::<f64>() / self.total
            }
        }
    }
}

impl GapBin {
    /// The gap in standard deviations; 0 if there is no noise.
    fn leverage(&self) -> f64 {
        if self.deviation > 0.0 {
            self.gap / self.deviation
        } else {
            0.0
        }
    }
}

/// Gaps of rows in order of confidence.
pub(super) struct SortedGaps {
    rows: Vec<usize>,
    residual: Vec<f64>,
    /// The row's own weight times its residual.
    own: Vec<f64>,
    gaps: Vec<f64>,
    kind: SortedKind,
    /// The cumulative noise up to this place is the noise to first order.
    widest: usize,
    total: f64,
}

enum SortedKind {
    /// Cumulative gaps, at the last of rows with one confidence. The error is the largest.
    Cumulative { is_last: Vec<bool> },
    /// Residuals smoothed by the kernel of the observed rows. The error is their sum.
    Smooth {
        width: f64,
        confidence: Vec<f64>,
        density: f64,
    },
}

impl SortedGaps {
    pub(super) fn new(metric: Metric, predictions: &Predictions<'_>) -> Self {
        let top = SortedRows::of_top_label(predictions.stats());
        let weight = top.sort_weights(predictions.weights());
        let rows = top.sorted(weight.as_deref());
        let n = rows.confidence.len();
        let pairs = rows.confidence.iter().zip(rows.hit);
        let residual: Vec<f64> = pairs.map(|(confidence, hit)| confidence - hit).collect();
        let weight = |row: usize| rows.weight.map_or(1.0, |w| w[row]);
        let own: Vec<f64> = (0..n).map(|row| weight(row) * residual[row]).collect();
        let (kind, widest) = if metric == Metric::Ks {
            let is_last = rows.confidence.windows(2).map(|pair| pair[1] > pair[0]);
            let is_last = is_last.chain([true]).collect();
            (SortedKind::Cumulative { is_last }, widest(&own))
        } else {
            let (_, width) = smooth::smooth_error_and_width(&rows);
            let kind = SortedKind::Smooth {
                width,
                confidence: rows.confidence.to_vec(),
                density: smooth::density(&rows, width),
            };
            // Rows are independent, so that the variance of Σ ± residual is the same for all signs: all +.
            (kind, n - 1)
        };
        let mut found = Self {
            rows: top.rows().to_vec(),
            residual,
            gaps: Vec::new(),
            kind,
            widest,
            total: (0..n).map(weight).sum(),
            own,
        };
        found.gaps = found.gaps_of(&found.own);
        found
    }

    /// The gaps that residuals in order of confidence make.
    fn gaps_of(&self, residuals: &[f64]) -> Vec<f64> {
        match &self.kind {
            SortedKind::Cumulative { is_last } => {
                let mut sum = 0.0;
                let sums = residuals
                    .iter()
                    .zip(is_last)
                    .filter_map(|(residual, &is_last)| {
                        sum += residual;
                        is_last.then_some(sum / self.total)
                    });
                sums.collect()
            }
            SortedKind::Smooth {
                width,
                confidence,
                density,
            } => {
                let points = smooth::smoothed_residuals(confidence, residuals, *width);
                points.into_iter().map(|point| point / density).collect()
            }
        }
    }

    /// The simulation, given the weights of the rows in a resample.
    pub(super) fn simulate(&self, weights: &[f64]) -> Simulated {
        // What makes the weights of the resample sum to those of the rows.
        let scale = self.total / weights.iter().sum::<f64>();
        let rows = self.rows.iter().zip(&self.residual).zip(&self.own);
        let noise = rows.map(|((&row, residual), own)| weights[row] * scale * residual - own);
        let noise: Vec<f64> = noise.collect();
        let moved = self.gaps_of(&noise);
        let mut found = Simulated::default();
        for (error, factor) in found.iter_mut().zip(FACTORS) {
            let gaps = self.gaps.iter().zip(&moved);
            let gaps = gaps.map(|(gap, noise)| (factor * gap + noise).abs());
            *error = match self.kind {
                SortedKind::Cumulative { .. } => gaps.fold(0.0, f64::max),
                SortedKind::Smooth { .. } => gaps.sum(),
            };
        }
        found[SLOPE] = noise[..=self.widest].iter().sum::<f64>() / self.total;
        found
    }
}

/// The place up to which the sum of residuals varies most.
fn widest(own: &[f64]) -> usize {
    let (mut sum, mut squares, mut largest, mut widest) = (0.0, 0.0, -1.0, 0);
    for (place, gap) in own.iter().enumerate() {
        sum += gap;
        squares += gap * gap;
        let variance = squares - sum * sum / own.len() as f64;
        if variance > largest {
            (largest, widest) = (variance, place);
        }
    }
    widest
}

//! Noise of gaps in bins.

use super::{FACTORS, Resamples, Simulated};
use crate::math::simd::vectorized;
use crate::metrics::binning::{BinSum, Sorted, equal_width_bin, left_closed_bin};
use crate::metrics::order_statistics::OrderStatistics;
use crate::metrics::{Metric, MetricOptions};

/// How gaps of bins become a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum GapNorm {
    /// Σ share · |gap|ᵖ.
    Power(f64),
    /// Σ share · (gap² − variance of the accuracy), not below 0.
    Debiased,
    /// The largest |gap|.
    Largest,
}

fn norm_of(metric: Metric, options: &MetricOptions) -> GapNorm {
    match metric {
        Metric::Mce => GapNorm::Largest,
        Metric::DebiasedEce | Metric::MarginalCe => GapNorm::Debiased,
        _ => GapNorm::Power(options.norm),
    }
}

/// Rows in bins that the observed rows define.
pub(super) struct ObservedBins {
    pub(super) norm: GapNorm,
    pub(super) bins: Vec<ObservedBin>,
    /// Of every row.
    residuals: Vec<BinnedResidual>,
    total: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ObservedBin {
    weight: f64,
    hits: f64,
    /// Σ weight · (confidence − hit).
    gap: f64,
}

impl ObservedBin {
    /// The standard deviation of the gap's sum. An accuracy of 0 or 1 is not taken at its word: one more row, as sure
    /// as the others, is counted.
    pub(super) fn noise(&self) -> f64 {
        if self.weight <= 0.0 {
            return 0.0;
        }
        let confidence = (self.gap + self.hits) / self.weight;
        let accuracy = (self.hits + confidence) / (self.weight + 1.0);
        (self.weight * accuracy * (1.0 - accuracy)).max(0.0).sqrt()
    }
}

struct BinnedResidual {
    bin: u32,
    residual: f64,
}

impl ObservedBins {
    pub(super) fn new(
        metric: Metric,
        options: &MetricOptions,
        confidence: &[f64],
        hit: &[f64],
        own: Option<&[f64]>,
    ) -> Self {
        let count = options.bins;
        let edges = match metric {
            Metric::AdaptiveEce | Metric::DebiasedEce | Metric::MarginalCe => {
                Some(equal_mass_edges(confidence, hit, own, count))
            }
            _ => None,
        };
        let bin_of = |confidence: f64| match &edges {
            Some(edges) => edges.partition_point(|&edge| edge < confidence),
            None if metric == Metric::ClasswiseEceSum => left_closed_bin(confidence, count),
            None => equal_width_bin(confidence, count),
        };
        let mut bins = vec![ObservedBin::default(); count];
        let mut residuals = Vec::with_capacity(confidence.len());
        for (row, (&value, &hit)) in confidence.iter().zip(hit).enumerate() {
            let bin = bin_of(value);
            let weight = own.map_or(1.0, |w| w[row]);
            let residual = value - hit;
            bins[bin].weight += weight;
            bins[bin].hits += weight * hit;
            bins[bin].gap += weight * residual;
            let bin = bin as u32;
            residuals.push(BinnedResidual { bin, residual });
        }
        let total = bins.iter().map(|bin| bin.weight).sum();
        Self {
            norm: norm_of(metric, options),
            bins,
            residuals,
            total,
        }
    }

    /// ObservedBins of which only the sums are known.
    pub(super) fn of_sums(metric: Metric, options: &MetricOptions, sums: &[BinSum]) -> Self {
        let bin = |sum: &BinSum| ObservedBin {
            weight: sum.weight,
            hits: sum.hits,
            gap: sum.confidence - sum.hits,
        };
        let bins: Vec<ObservedBin> = sums.iter().map(bin).collect();
        Self {
            norm: norm_of(metric, options),
            total: bins.iter().map(|bin| bin.weight).sum(),
            bins,
            residuals: Vec::new(),
        }
    }

    /// Σ share · gap² over the bins that count.
    pub(super) fn plug_in_square(&self) -> f64 {
        let bins = self.bins.iter().filter(|bin| bin.weight >= 2.0);
        bins.map(|bin| bin.gap * bin.gap / bin.weight).sum::<f64>() / self.total
    }

    /// What each of several resamples says.
    pub(super) fn simulate(&self, resamples: &Resamples) -> Vec<Simulated> {
        let count = resamples.count();
        // Σ weight · residual of every bin, for all resamples side by side.
        let mut sums = vec![0.0; self.bins.len() * count];
        add_weighted(&self.residuals, &resamples.by_row, count, &mut sums);
        let mut noise = vec![0.0; self.bins.len()];
        let one = |(place, scale): (usize, &f64)| {
            for (bin, noise) in noise.iter_mut().enumerate() {
                *noise = sums[bin * count + place] * scale - self.bins[bin].gap;
            }
            Simulated {
                error: FACTORS.map(|factor| self.error(&noise, factor)),
                slope: self.slope(&noise),
            }
        };
        resamples.scales.iter().enumerate().map(one).collect()
    }

    /// Before the root.
    pub(super) fn error(&self, noise: &[f64], factor: f64) -> f64 {
        let pairs = self.bins.iter().zip(noise);
        let filled = pairs.filter(|(bin, _)| bin.weight > 0.0);
        let gaps = filled.map(|(bin, noise)| (bin, factor * bin.gap + noise));
        match self.norm {
            GapNorm::Power(norm) if norm <= 1.0 => {
                gaps.map(|(_, gap)| gap.abs()).sum::<f64>() / self.total
            }
            GapNorm::Power(norm) => {
                gaps.map(|(bin, gap)| bin.weight * (gap / bin.weight).abs().powf(norm))
                    .sum::<f64>()
                    / self.total
            }
            GapNorm::Largest => gaps
                .map(|(bin, gap)| (gap / bin.weight).abs())
                .fold(0.0, f64::max),
            GapNorm::Debiased => {
                let sum: f64 = gaps
                    .filter(|(bin, _)| bin.weight >= 2.0)
                    .map(|(bin, gap)| {
                        let accuracy = bin.hits / bin.weight;
                        let variance = accuracy * (1.0 - accuracy) / (bin.weight - 1.0);
                        gap * gap / bin.weight - bin.weight * variance
                    })
                    .sum();
                (sum / self.total).max(0.0)
            }
        }
    }

    /// The derivative of Σ share · gap² at the observed gaps along the noise, for the debiased metrics.
    fn slope(&self, noise: &[f64]) -> f64 {
        if self.norm != GapNorm::Debiased {
            return 0.0;
        }
        let pairs = self.bins.iter().zip(noise);
        let filled = pairs.filter(|(bin, _)| bin.weight > 0.0);
        let part = |(bin, noise): (&ObservedBin, &f64)| 2.0 * bin.gap / bin.weight * noise;
        filled.map(part).sum::<f64>() / self.total
    }
}

vectorized! {
    /// Adds residual · weight to the sums of a row's bin, for each of `count` resamples.
    fn add_weighted(residuals: &[BinnedResidual], by_row: &[f64], count: usize, sums: &mut [f64]) {
        for (row, weights) in residuals.iter().zip(by_row.chunks_exact(count)) {
            let sums = &mut sums[row.bin as usize * count..][..count];
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum += weight * row.residual;
            }
        }
    }
}

fn equal_mass_edges(confidence: &[f64], hit: &[f64], own: Option<&[f64]>, bins: usize) -> Vec<f64> {
    if own.is_none() {
        return OrderStatistics::default().equal_mass_edges(confidence, bins);
    }
    let mut order: Vec<usize> = (0..confidence.len()).collect();
    order.sort_by(|&a, &b| confidence[a].total_cmp(&confidence[b]));
    let sorted: Vec<f64> = order.iter().map(|&row| confidence[row]).collect();
    let hit: Vec<f64> = order.iter().map(|&row| hit[row]).collect();
    let weight: Option<Vec<f64>> = own.map(|w| order.iter().map(|&row| w[row]).collect());
    let mut edges = Sorted::new(&sorted, &hit, weight.as_deref()).equal_mass_edges(bins);
    // By rounding, an edge can lie below the one before it.
    for place in 1..edges.len() {
        edges[place] = edges[place].max(edges[place - 1]);
    }
    edges
}

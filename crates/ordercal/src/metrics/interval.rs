//! Intervals of calibration errors.
//!
//! # Why not the percentile bootstrap
//! A calibration error is a norm of gaps between confidence and accuracy, T = ‖g‖ with g = γ + noise. Noise makes a
//! norm larger, so T overestimates ‖γ‖, and a resample, which adds noise once more, overestimates T by about as
//! much again: percentiles of resamples lie above the truth and often above T itself. At perfect calibration the
//! truth is 0, the end of the range, where neither the basic, the bias-corrected nor the BCa interval helps.
//!
//! # What is done instead
//! All gaps are linear in the rows' weights, so a resample gives the noise by itself: d = g* − g, the *centred
//! bootstrap*. Adding it to gaps that are shrunk by a factor λ simulates what T would be if the true error were λT:
//!
//! T(λ) = ‖λ g + d‖
//!
//! - **Lower end: inversion of a test.** The smallest λT at which the observed T is not unusually large, that is not
//!   above the upper quantile of T(λ). It is 0 if T is not unusual under perfect calibration, T(0) = ‖d‖; for this
//!   case the method is the *consistency resampling* of Bröcker and Smith (2007).
//! - **Upper end: the noise of T where the error is large**, T minus the lower quantile of T(2) − 2T. Far from 0 the
//!   noise of a norm is that of a linear function, and its bias is small. For `ks`, `sm_ece` and the debiased metrics,
//!   gaps of both signs can cancel in T, and T(2) with them: theirs is the noise to first order, the directional
//!   derivative along d, where it is widest.
//! - The ends are moved to T if it is outside.
//!
//! At a true error of 0 the interval can fail on one side only. The lower tail therefore has 0.85 of what the level
//! leaves, and the upper one a half: 4.25 % and 2.5 % for 95 %.
//!
//! Means over rows (accuracy, log-likelihood, Brier score) have no such bias: theirs are percentile intervals.
//!
//! J. Bröcker and L. A. Smith (2007). Increasing the reliability of reliability diagrams.

mod bins;
mod cumulative;
mod smooth;

use rayon::prelude::*;

use self::bins::{GapNorm, ObservedBins};
use self::cumulative::CumulativeGaps;
use self::smooth::SmoothGaps;
use super::binning::{BinSum, root};
use super::bootstrap::{BootstrapOptions, Interval, quantile};
use super::columns::for_each_class;
use super::definition::Compute;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use super::top_label::TopLabel;
use crate::rng::Rng;

/// The factors λ at which T(λ) is simulated. Up to 1, its quantile is interpolated between them.
const FACTORS: [f64; 7] = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 2.0];
/// The place of 2 among them.
const TWICE: usize = FACTORS.len() - 1;

/// What share of 1 − level the lower tail has.
const LOWER_TAIL: f64 = 0.85;

/// What one resample says about a metric.
#[derive(Debug, Clone, Copy, Default)]
struct Simulated {
    /// T(λ) for every λ of [`FACTORS`]; its power until all classes are added up.
    error: [f64; FACTORS.len()],
    /// The directional derivative along the noise: of T for `ks` and `sm_ece`, of T² for the debiased metrics.
    slope: f64,
}

/// How much every row weighs in each of several resamples.
struct Resamples {
    /// Row by row, so that a row is added to all resamples at once.
    by_row: Vec<f64>,
    /// What makes the weights of each resample sum to those of the rows.
    scales: Vec<f64>,
}

impl Resamples {
    fn new(weightings: &[Vec<f64>], total: f64) -> Self {
        let rows = weightings.first().map_or(0, Vec::len);
        let by_row = (0..rows).flat_map(|row| weightings.iter().map(move |weights| weights[row]));
        let scale = |weights: &Vec<f64>| total / weights.iter().sum::<f64>();
        Self {
            by_row: by_row.collect(),
            scales: weightings.iter().map(scale).collect(),
        }
    }

    fn count(&self) -> usize {
        self.scales.len()
    }
}

/// Whether a metric looks at every class.
fn is_per_class(metric: Metric) -> bool {
    matches!(metric.definition().compute, Compute::PerClass(..))
}

/// Whether a metric is a norm of gaps, which [`GapIntervals`] are made for.
pub(super) fn is_norm_of_gaps(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ece
            | Metric::Mce
            | Metric::AdaptiveEce
            | Metric::DebiasedEce
            | Metric::Ks
            | Metric::SmEce
    ) || is_per_class(metric)
}

/// A percentile interval that contains the value.
///
/// Resamples on which the metric is undefined do not count.
pub(super) fn percentile(value: f64, mut resampled: Vec<f64>, level: f64) -> Interval {
    resampled.retain(|value| !value.is_nan());
    if value.is_nan() || resampled.is_empty() {
        return undefined(value);
    }
    resampled.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Interval {
        value,
        lower: quantile(&resampled, tail).min(value),
        upper: quantile(&resampled, 1.0 - tail).max(value),
    }
}

/// The interval of a metric that is undefined, on the rows or on all resamples.
fn undefined(value: f64) -> Interval {
    Interval {
        value,
        lower: f64::NAN,
        upper: f64::NAN,
    }
}

/// The basic bootstrap interval, in which percentiles are reflected about the value so that the bias of a resample
/// is subtracted instead of added; it contains the value.
pub(super) fn basic(value: f64, mut resampled: Vec<f64>, level: f64) -> Interval {
    resampled.retain(|value| !value.is_nan());
    if value.is_nan() || resampled.is_empty() {
        return undefined(value);
    }
    resampled.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    let reflect = |end: f64| {
        if end.is_finite() {
            2.0 * value - end
        } else {
            value
        }
    };
    Interval {
        value,
        lower: reflect(quantile(&resampled, 1.0 - tail)).min(value),
        upper: reflect(quantile(&resampled, tail)).max(value),
    }
}

/// How much the power of one class's gaps counts.
fn class_share(metric: Metric, classes: usize) -> f64 {
    match metric {
        Metric::ClasswiseEce | Metric::MarginalCe => 1.0 / classes as f64,
        _ => 1.0,
    }
}

/// The interval of a metric of which only the sums of bins are known: for every class, or for the predicted one.
///
/// The noise of a bin's gap is normal with the variance of as many hits, Σ weight · a(1 − a) for the accuracy a.
pub(super) fn of_bin_sums(
    metric: Metric,
    tables: &[Vec<BinSum>],
    options: &MetricOptions,
    value: f64,
    how: &BootstrapOptions,
) -> Interval {
    let tables: Vec<ObservedBins> = tables
        .iter()
        .map(|sums| ObservedBins::of_sums(metric, options, sums))
        .collect();
    let share = class_share(metric, tables.len());
    let simulate = |index: usize| {
        let mut rng = Rng::new(how.seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut sum = Simulated::default();
        for bins in &tables {
            let noise: Vec<f64> = bins
                .bins
                .iter()
                .map(|bin| bin.noise() * rng.normal())
                .collect();
            for (sum, factor) in sum.error.iter_mut().zip(FACTORS) {
                *sum += share * bins.error(&noise, factor);
            }
        }
        if metric != Metric::Mce {
            sum.error = sum.error.map(|power| root(power, options.norm));
        }
        sum
    };
    let simulated = (0..how.resamples).into_par_iter().map(simulate).collect();
    finish(metric, simulated, value, value, how.level)
}

/// Simulates the noise of one metric, batch of resamples by batch.
pub(super) struct GapIntervals<'p, 'a> {
    metric: Metric,
    predictions: &'p Predictions<'a>,
    options: &'p MetricOptions,
    top: Option<TopGaps>,
    /// Σ of the rows' weights.
    total: f64,
    simulated: Vec<Simulated>,
    /// ‖g‖ without the subtraction of variances, which λ refers to.
    plug_in: f64,
}

/// What metrics of the predicted class read.
enum TopGaps {
    Bins(Box<ObservedBins>),
    Cumulative(CumulativeGaps),
    Smooth(SmoothGaps),
}

impl<'p, 'a> GapIntervals<'p, 'a> {
    pub(super) fn new(
        metric: Metric,
        predictions: &'p Predictions<'a>,
        options: &'p MetricOptions,
        value: f64,
    ) -> Self {
        let weights = predictions.weights();
        let total = weights.map_or(predictions.rows() as f64, |w| w.iter().sum());
        let top = (!is_per_class(metric)).then(|| TopGaps::new(metric, predictions, options));
        let plug_in = match &top {
            Some(TopGaps::Bins(bins)) if metric == Metric::DebiasedEce => {
                bins.plug_in_square().sqrt()
            }
            _ => value,
        };
        Self {
            metric,
            predictions,
            options,
            top,
            total,
            simulated: Vec::new(),
            plug_in,
        }
    }

    /// Takes in resamples for all of several metrics.
    pub(super) fn add_to_all(all: &mut [Self], weightings: &[Vec<f64>]) {
        let Some(first) = all.first() else { return };
        let resamples = Resamples::new(weightings, first.total);
        let (predictions, options) = (first.predictions, first.options);
        let by_class = |one: &&mut Self| one.top.is_none();
        let (mut per_class, top): (Vec<&mut Self>, Vec<&mut Self>) =
            all.iter_mut().partition(by_class);
        for one in top {
            if let Some(top) = &one.top {
                one.simulated.extend(top.simulate(&resamples, weightings));
            }
        }
        if per_class.is_empty() {
            return;
        }
        let metrics: Vec<Metric> = per_class.iter().map(|one| one.metric).collect();
        let labels = predictions.labels();
        let found = for_each_class(
            predictions,
            || vec![0.0; predictions.rows()],
            |class, column, hit| {
                for (hit, &label) in hit.iter_mut().zip(labels) {
                    *hit = f64::from(u8::from(label as usize == class));
                }
                let simulate = |&metric: &Metric| {
                    let own = predictions.weights();
                    let bins = ObservedBins::new(metric, options, column, hit, own);
                    (bins.plug_in_square(), bins.simulate(&resamples))
                };
                metrics.iter().map(simulate).collect::<Vec<_>>()
            },
        );
        for (place, one) in per_class.iter_mut().enumerate() {
            one.add_up(
                found.iter().map(|metrics| &metrics[place]),
                weightings.len(),
            );
        }
    }

    /// Adds up what the classes say.
    fn add_up<'f>(
        &mut self,
        per_class: impl ExactSizeIterator<Item = &'f (f64, Vec<Simulated>)>,
        resamples: usize,
    ) {
        let (metric, options) = (self.metric, self.options);
        let share = class_share(metric, per_class.len());
        let mut sums = vec![Simulated::default(); resamples];
        let mut squares = 0.0;
        // Of the two classes `ece_positive` looks at the second.
        let skipped = usize::from(metric == Metric::EcePositive);
        for (square, class) in per_class.skip(skipped) {
            squares += square;
            for (sum, one) in sums.iter_mut().zip(class) {
                for (sum, error) in sum.error.iter_mut().zip(one.error) {
                    *sum += error * share;
                }
                sum.slope += one.slope * share;
            }
        }
        if metric == Metric::MarginalCe {
            self.plug_in = (squares * share).sqrt();
        }
        for sum in &mut sums {
            for error in &mut sum.error {
                *error = match metric {
                    Metric::MarginalCe => error.sqrt(),
                    _ => root(*error, options.norm),
                };
            }
        }
        self.simulated.extend(sums);
    }

    /// The interval, after all resamples.
    pub(super) fn finish(self, value: f64, level: f64) -> Interval {
        finish(self.metric, self.simulated, value, self.plug_in, level)
    }
}

/// The interval that simulations of T(λ) say.
fn finish(
    metric: Metric,
    simulated: Vec<Simulated>,
    value: f64,
    plug_in: f64,
    level: f64,
) -> Interval {
    let tail = 1.0 - level;
    let column = |read: &dyn Fn(&Simulated) -> f64| -> Vec<f64> {
        let mut found: Vec<f64> = simulated.iter().map(read).collect();
        found.sort_by(f64::total_cmp);
        found
    };
    let reach: Vec<f64> = (0..TWICE)
        .map(|place| quantile(&column(&|s| s.error[place]), 1.0 - LOWER_TAIL * tail))
        .collect();
    let lower = match reach.iter().position(|&reach| reach >= value) {
        Some(0) => 0.0,
        Some(place) => {
            let (below, above) = (reach[place - 1], reach[place]);
            let part = (value - below) / (above - below);
            let factor = FACTORS[place - 1] + part * (FACTORS[place] - FACTORS[place - 1]);
            factor * plug_in
        }
        None => value,
    };
    let spread = || {
        let slopes = column(&|s| s.slope);
        // Which way the noise went is chance: the longer of the two sides.
        quantile(&slopes, 1.0 - tail / 2.0).max(-quantile(&slopes, tail / 2.0))
    };
    let upper = match metric {
        Metric::DebiasedEce | Metric::MarginalCe => (value * value + spread()).max(0.0).sqrt(),
        Metric::Ks | Metric::SmEce => value + spread(),
        _ => {
            let noise = column(&|s| s.error[TWICE] - 2.0 * value);
            value - quantile(&noise, tail / 2.0)
        }
    };
    // No other error can be above 1.
    let largest = match metric {
        Metric::ClasswiseEceSum => f64::INFINITY,
        _ => 1.0,
    };
    Interval {
        value,
        lower: lower.min(value),
        upper: upper.min(largest).max(value),
    }
}

impl TopGaps {
    fn new(metric: Metric, predictions: &Predictions<'_>, options: &MetricOptions) -> Self {
        let stats = predictions.stats();
        let own = predictions.weights();
        match metric {
            Metric::Ks | Metric::SmEce => {
                let sorted = TopLabel::new(stats);
                let weight = sorted.sort_weights(own);
                let rows = sorted.sorted(weight.as_deref());
                if metric == Metric::Ks {
                    Self::Cumulative(CumulativeGaps::new(&rows, sorted.rows()))
                } else {
                    Self::Smooth(SmoothGaps::new(&rows, sorted.rows()))
                }
            }
            _ => {
                let confidence: Vec<f64> = stats.iter().map(|s| s.confidence).collect();
                let hit: Vec<f64> = stats.iter().map(|s| f64::from(u8::from(s.hit()))).collect();
                Self::Bins(Box::new(ObservedBins::new(
                    metric,
                    options,
                    &confidence,
                    &hit,
                    own,
                )))
            }
        }
    }

    /// T(λ) on each resample.
    fn simulate(&self, resamples: &Resamples, weightings: &[Vec<f64>]) -> Vec<Simulated> {
        let pairs = weightings.par_iter().zip(&resamples.scales);
        match self {
            Self::Bins(bins) => {
                let mut found = bins.simulate(resamples);
                for error in found.iter_mut().flat_map(|one| &mut one.error) {
                    *error = match bins.norm {
                        GapNorm::Power(norm) => root(*error, norm),
                        GapNorm::Debiased => error.sqrt(),
                        GapNorm::Largest => *error,
                    };
                }
                found
            }
            Self::Cumulative(rows) => pairs.map(|(w, &scale)| rows.simulate(w, scale)).collect(),
            Self::Smooth(rows) => pairs.map(|(w, &scale)| rows.simulate(w, scale)).collect(),
        }
    }
}

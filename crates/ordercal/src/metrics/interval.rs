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
//! bootstrap*. For gaps in bins, d is drawn from the normal distribution that it nearly has, which needs only the bins'
//! sums: the same for rows and for a [`MetricState`](super::MetricState). Adding it to gaps that are shrunk by a factor λ simulates what T would be if the true error were λT:
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

mod gaps;

use rayon::prelude::*;

use self::gaps::{BinnedGaps, SortedGaps};
use super::binning::{BinSum, Binning, root};
use super::bootstrap::{BootstrapOptions, Interval, draw, generator, quantile};
use super::classwise::for_class_bins;
use super::definition::Compute;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use super::top_label::{SortedRows, equal_width_sums};

/// The factors λ at which T(λ) is simulated. Up to 1, its quantile is interpolated between them.
const FACTORS: [f64; 7] = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 2.0];
/// The place of 2 among them.
const TWICE: usize = FACTORS.len() - 1;
/// The place behind them.
const SLOPE: usize = FACTORS.len();

/// The share of 1 − level that the lower tail has.
const LOWER_TAIL: f64 = 0.85;

/// T(λ) under one draw of the noise for every λ of [`FACTORS`]; and the directional derivative along the noise, of T for
/// `ks` and `sm_ece`, of T² for the debiased metrics.
type Simulated = [f64; FACTORS.len() + 1];

/// Whether a metric is a norm of gaps, which [`of_gaps`] is for.
pub(super) fn is_norm_of_gaps(metric: Metric) -> bool {
    let compute = &metric.definition().compute;
    is_sorted(metric) || matches!(compute, Compute::Bins(..) | Compute::PerClass(..))
}

fn is_sorted(metric: Metric) -> bool {
    matches!(metric, Metric::Ks | Metric::SmEce)
}

/// A percentile interval that contains the value.
///
/// Resamples on which the metric is undefined do not count.
pub(super) fn percentile(value: f64, resampled: Vec<f64>, level: f64) -> Interval {
    between_quantiles(value, resampled, level, |low, high| (low, high))
}

/// The basic bootstrap interval, in which percentiles are reflected about the value so that the bias of a resample
/// is subtracted instead of added; it contains the value.
pub(super) fn basic(value: f64, resampled: Vec<f64>, level: f64) -> Interval {
    let reflect = |end: f64| {
        if end.is_finite() {
            2.0 * value - end
        } else {
            value
        }
    };
    between_quantiles(value, resampled, level, |low, high| {
        (reflect(high), reflect(low))
    })
}

fn between_quantiles(
    value: f64,
    mut resampled: Vec<f64>,
    level: f64,
    ends: impl Fn(f64, f64) -> (f64, f64),
) -> Interval {
    resampled.retain(|value| !value.is_nan());
    let (mut lower, mut upper) = (f64::NAN, f64::NAN);
    if !value.is_nan() && !resampled.is_empty() {
        resampled.sort_by(f64::total_cmp);
        let tail = (1.0 - level) / 2.0;
        (lower, upper) = ends(quantile(&resampled, tail), quantile(&resampled, 1.0 - tail));
        (lower, upper) = (lower.min(value), upper.max(value));
    }
    Interval {
        value,
        lower,
        upper,
    }
}

/// The interval of a metric of gaps in bins, given the sums of the bins, class by class.
///
/// Rows are counted `spread` times as much as their weights say.
pub(super) fn of_bins(
    metric: Metric,
    tables: Vec<Vec<BinSum>>,
    options: &MetricOptions,
    value: f64,
    spread: f64,
    how: &BootstrapOptions,
) -> Interval {
    let share = match metric {
        Metric::ClasswiseEce | Metric::MarginalCe => 1.0 / tables.len() as f64,
        _ => 1.0,
    };
    let is_debiased = matches!(metric, Metric::DebiasedEce | Metric::MarginalCe);
    let tables: Vec<BinnedGaps> = tables
        .into_iter()
        .map(|sums| BinnedGaps::new(metric, options, sums, spread))
        .collect();
    let simulate = |index: usize| {
        let mut rng = generator(how.seed, index as u64);
        let mut sum = Simulated::default();
        for bins in &tables {
            for (sum, one) in sum.iter_mut().zip(bins.simulate(&mut rng)) {
                *sum += share * one;
            }
        }
        for power in &mut sum[..SLOPE] {
            *power = match metric {
                Metric::Mce => *power,
                _ if is_debiased => power.sqrt(),
                _ => root(*power, options.norm),
            };
        }
        sum
    };
    let simulated: Vec<Simulated> = (0..how.resamples).into_par_iter().map(simulate).collect();
    // ‖g‖ without the subtraction of variances, which λ refers to.
    let squares = || tables.iter().map(|bins| share * bins.plug_in_square());
    let plug_in = if is_debiased {
        squares().sum::<f64>().sqrt()
    } else {
        value
    };
    finish(metric, &simulated, value, plug_in, how.level)
}

/// The sums of the bins that a metric reads.
fn tables_of(
    metric: Metric,
    predictions: &Predictions<'_>,
    options: &MetricOptions,
) -> Vec<Vec<BinSum>> {
    let (weights, bins) = (predictions.weights(), options.bins);
    match metric.definition().compute {
        Compute::PerClass(binning, _) => {
            let keep = |_, sums| sums;
            let mut found = for_class_bins(predictions, &[weights], bins, &[binning], keep);
            let mut tables = found.remove(0).remove(0);
            // Of the two classes `ece_positive` looks at the second.
            tables.drain(..usize::from(metric == Metric::EcePositive));
            tables
        }
        Compute::Bins(Binning::EqualWidth, _) => {
            vec![equal_width_sums(predictions.stats(), weights, bins)]
        }
        _ => {
            let rows = SortedRows::of_top_label(predictions.stats());
            let weights = rows.sort_weights(weights);
            vec![
                rows.sorted(weights.as_deref())
                    .bin_sums(Binning::EqualMass, bins),
            ]
        }
    }
}

/// The interval of a metric that is a norm of gaps.
pub(super) fn of_gaps(
    metric: Metric,
    value: f64,
    predictions: &Predictions<'_>,
    options: &MetricOptions,
    how: &BootstrapOptions,
) -> Interval {
    if is_sorted(metric) {
        let gaps = SortedGaps::new(metric, predictions);
        let resamples = (0..how.resamples as u64).into_par_iter();
        let simulate = |index| gaps.simulate(&draw(predictions, how.seed, index));
        let simulated: Vec<Simulated> = resamples.map(simulate).collect();
        return finish(metric, &simulated, value, value, how.level);
    }
    let spread = predictions.weights().map_or(1.0, |weights| {
        let squares: f64 = weights.iter().map(|w| w * w).sum();
        squares / weights.iter().sum::<f64>()
    });
    let tables = tables_of(metric, predictions, options);
    of_bins(metric, tables, options, value, spread, how)
}

/// The interval that the simulations of T(λ) give.
fn finish(
    metric: Metric,
    simulated: &[Simulated],
    value: f64,
    plug_in: f64,
    level: f64,
) -> Interval {
    let tail = 1.0 - level;
    let column = |place: usize| -> Vec<f64> {
        let mut found: Vec<f64> = simulated.iter().map(|one| one[place]).collect();
        found.sort_by(f64::total_cmp);
        found
    };
    let reach: Vec<f64> = (0..TWICE)
        .map(|place| quantile(&column(place), 1.0 - LOWER_TAIL * tail))
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
        let slopes = column(SLOPE);
        // Which way the noise went is chance: the longer of the two sides.
        quantile(&slopes, 1.0 - tail / 2.0).max(-quantile(&slopes, tail / 2.0))
    };
    let upper = match metric {
        Metric::DebiasedEce | Metric::MarginalCe => (value * value + spread()).max(0.0).sqrt(),
        Metric::Ks | Metric::SmEce => value + spread(),
        _ => 3.0 * value - quantile(&column(TWICE), tail / 2.0),
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

//! Bootstrap intervals, and paired comparisons of two sets of predictions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::evaluate::Evaluator;
use super::interval::{GapIntervals, basic, is_norm_of_gaps, percentile};
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use crate::error::{Error, Result};
use crate::rng::Rng;

/// The parameters of a bootstrap.
///
/// ```
/// use ordercal::metrics::BootstrapOptions;
///
/// let how = BootstrapOptions::default().with_resamples(200).with_level(0.9).with_seed(1);
/// assert!(how.validate().is_ok());
/// assert!(how.with_level(1.0).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BootstrapOptions {
    /// The number of resamples; default 1000.
    pub resamples: usize,
    /// The level of the interval; default 0.95.
    pub level: f64,
    /// The seed; default 1357. Resample i depends only on the seed, on i and on the number of rows.
    pub seed: u64,
}

impl Default for BootstrapOptions {
    fn default() -> Self {
        Self {
            resamples: 1000,
            level: 0.95,
            seed: 1357,
        }
    }
}

impl BootstrapOptions {
    /// Sets [`resamples`](Self::resamples).
    pub fn with_resamples(mut self, resamples: usize) -> Self {
        self.resamples = resamples;
        self
    }

    /// Sets [`level`](Self::level).
    pub fn with_level(mut self, level: f64) -> Self {
        self.level = level;
        self
    }

    /// Sets [`seed`](Self::seed).
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first option that is out of range.
    pub fn validate(&self) -> Result<()> {
        if !(1..=1_000_000).contains(&self.resamples) {
            return Err(Error::InvalidParameter {
                name: "resamples",
                value: self.resamples.to_string(),
                expected: "1 to 1000000",
            });
        }
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::InvalidParameter {
                name: "level",
                value: self.level.to_string(),
                expected: "above 0 and below 1",
            });
        }
        Ok(())
    }
}

/// The value of a metric with its bootstrap interval.
///
/// ```
/// use ordercal::metrics::{Metric, paired_difference};
///
/// let (first, second) = ((0.1, &[0.11, 0.09][..]), (0.2, &[0.2, 0.18][..]));
/// let interval = paired_difference(Metric::Nll, first, second, 0.95).difference;
/// assert!(interval.lower <= interval.value && interval.value <= interval.upper);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interval {
    /// The value on the rows themselves; the interval contains it.
    pub value: f64,
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// The difference of a metric between two sets of predictions of the same rows.
///
/// ```
/// use ordercal::metrics::{Metric, paired_difference};
///
/// // On the same four resamples the first is better in three, and they are equal in one.
/// let first = (0.10, &[0.11, 0.09, 0.12, 0.2][..]);
/// let second = (0.15, &[0.14, 0.15, 0.13, 0.2][..]);
/// let compared = paired_difference(Metric::Nll, first, second, 0.95);
/// assert_eq!((compared.first_wins, compared.second_wins), (0.75, 0.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PairedDifference {
    /// The first value minus the second, with the bootstrap interval of the difference.
    pub difference: Interval,
    /// The share of resamples in which the first is better ([`Metric::higher_is_better`] says which way).
    pub first_wins: f64,
    /// The share of resamples in which the second is better; the rest are ties.
    pub second_wins: f64,
}

/// Bootstrap intervals (Efron 1979), from resamples of N rows drawn with replacement.
///
#[doc = include_str!("interval.md")]
///
/// Quantiles are interpolated linearly. The same seed gives the same interval whatever the number of
/// threads.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, bootstrap};
///
/// let probs = array![[0.7_f64, 0.3], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1, 0])?;
/// let options = BootstrapOptions::default().with_resamples(200);
/// let nll = bootstrap(&predictions, &[Metric::Nll], &MetricOptions::default(), &options)?[&Metric::Nll];
/// assert!(nll.lower < nll.value && nll.value < nll.upper);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn bootstrap(
    predictions: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
    how: &BootstrapOptions,
) -> Result<BTreeMap<Metric, Interval>> {
    bootstrap_watched(predictions, metrics, options, how, &|_, _| {
        ControlFlow::Continue(())
    })
}

/// [`bootstrap()`] that calls `watch(done, of)` after every batch of resamples, and ends if it returns a break.
///
/// # Errors
/// If an option is out of range, or [`Error::Cancelled`].
///
/// ```
/// use std::ops::ControlFlow;
///
/// use ndarray::array;
/// use ordercal::Error;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, bootstrap_watched};
///
/// let probs = array![[0.7_f64, 0.3], [0.6, 0.4], [0.2, 0.8]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1])?;
/// let (options, how) = (MetricOptions::default(), BootstrapOptions::default());
/// let stopped = bootstrap_watched(&predictions, &[Metric::Nll], &options, &how, &|_, _| ControlFlow::Break(()));
/// assert_eq!(stopped, Err(Error::Cancelled));
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn bootstrap_watched(
    predictions: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
    how: &BootstrapOptions,
    watch: &dyn Fn(usize, usize) -> ControlFlow<()>,
) -> Result<BTreeMap<Metric, Interval>> {
    how.validate()?;
    let values = Evaluator::new(predictions, metrics, options)?.value();
    let values = metrics.iter().copied().zip(values);
    let (gaps, means): (Vec<_>, Vec<_>) = values.partition(|&(metric, _)| is_norm_of_gaps(metric));

    let metrics: Vec<Metric> = means.iter().map(|&(metric, _)| metric).collect();
    let evaluator = Evaluator::new(predictions, &metrics, options)?;
    let mut resampled: Vec<Vec<f64>> = Vec::with_capacity(how.resamples);
    let mut simulated: Vec<GapIntervals<'_, '_>> = gaps
        .iter()
        .map(|&(metric, value)| GapIntervals::new(metric, predictions, options, value))
        .collect();
    for_each_batch(predictions, how, |weightings, done| {
        GapIntervals::add_to_all(&mut simulated, weightings);
        if !metrics.is_empty() {
            let weightings: Vec<Option<&[f64]>> = weightings.iter().map(|w| Some(&w[..])).collect();
            resampled.extend(evaluator.values(&weightings));
        }
        match watch(done, how.resamples) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    })?;

    let mut found = BTreeMap::new();
    for (place, (metric, value)) in means.into_iter().enumerate() {
        let column = resampled.iter().map(|values| values[place]).collect();
        found.insert(metric, percentile(value, column, how.level));
    }
    for ((metric, value), one) in gaps.into_iter().zip(simulated) {
        found.insert(metric, one.finish(value, how.level));
    }
    Ok(found)
}

/// The metrics on every resample, to be compared later by [`paired_difference`].
///
/// # Errors
/// If an option is out of range.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, resampled};
///
/// let probs = array![[0.7_f64, 0.3], [0.6, 0.4], [0.2, 0.8]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1])?;
/// let how = BootstrapOptions::default().with_resamples(100);
/// let drawn = resampled(&predictions, &[Metric::Nll], &MetricOptions::default(), &how)?;
/// assert_eq!(drawn[&Metric::Nll].len(), 100);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn resampled(
    predictions: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
    how: &BootstrapOptions,
) -> Result<BTreeMap<Metric, Vec<f64>>> {
    how.validate()?;
    let evaluator = Evaluator::new(predictions, metrics, options)?;
    let values = resample(&evaluator, predictions, how);
    let columns = metrics.iter().enumerate().map(|(place, &metric)| {
        let column = values.iter().map(|values| values[place]).collect();
        (metric, column)
    });
    Ok(columns.collect())
}

/// Compares two sets of values on the same resamples, each given as (value on the rows, values on the
/// resamples).
///
/// ```
/// use ordercal::metrics::{Metric, paired_difference};
///
/// let first = (0.10, &[0.11, 0.09, 0.12][..]);
/// let second = (0.20, &[0.20, 0.18, 0.22][..]);
/// let compared = paired_difference(Metric::Nll, first, second, 0.95);
/// assert!(compared.difference.upper < 0.0 && compared.first_wins > 0.999);
/// ```
///
/// # Panics
/// If the numbers of resamples differ, or there are none.
pub fn paired_difference(
    metric: Metric,
    first: (f64, &[f64]),
    second: (f64, &[f64]),
    level: f64,
) -> PairedDifference {
    assert_eq!(first.1.len(), second.1.len(), "resamples come in pairs");
    let pairs = first.1.iter().zip(second.1);
    let differences: Vec<f64> = pairs.map(|(l, r)| difference(*l, *r)).collect();
    let sign = if metric.higher_is_better() { -1.0 } else { 1.0 };
    let share = |wins: &dyn Fn(f64) -> bool| {
        let pairs = first.1.iter().zip(second.1);
        let errors = pairs.map(|(l, r)| difference(metric.error(*l), metric.error(*r)));
        let count = errors.filter(|&d| wins(sign * d)).count();
        count as f64 / differences.len() as f64
    };
    PairedDifference {
        first_wins: share(&|d| d < 0.0),
        second_wins: share(&|d| d > 0.0),
        difference: basic(difference(first.0, second.0), differences, level),
    }
}

/// Compares two sets of predictions of the same rows on the same resamples.
///
/// Sampling noise common to both cancels, so the interval of the difference is narrower than the two
/// intervals suggest. A difference is significant if its interval does not contain 0.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, compare};
///
/// let sharp = array![[0.9_f64, 0.1], [0.8, 0.2], [0.3, 0.7]];
/// let vague = array![[0.6_f64, 0.4], [0.6, 0.4], [0.4, 0.6]];
/// let labels = [0, 0, 1];
/// let compared = compare(
///     &Predictions::from_probs(sharp.view(), &labels)?,
///     &Predictions::from_probs(vague.view(), &labels)?,
///     &[Metric::Nll],
///     &MetricOptions::default(),
///     &BootstrapOptions::default().with_resamples(100),
/// )?;
/// assert!(compared[&Metric::Nll].difference.upper < 0.0);
/// assert!(compared[&Metric::Nll].first_wins > 0.999);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range, or the labels or weights of the two differ.
pub fn compare(
    first: &Predictions<'_>,
    second: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
    how: &BootstrapOptions,
) -> Result<BTreeMap<Metric, PairedDifference>> {
    how.validate()?;
    check_paired(first, second)?;
    let left = Evaluator::new(first, metrics, options)?;
    let right = Evaluator::new(second, metrics, options)?;
    let (left_values, right_values) = (left.value(), right.value());
    // Both have the same resamples, because these depend on the seed and the weights only.
    let left_resampled = resample(&left, first, how);
    let right_resampled = resample(&right, second, how);
    let compared = metrics.iter().enumerate().map(|(place, &metric)| {
        let column =
            |values: &[Vec<f64>]| -> Vec<f64> { values.iter().map(|v| v[place]).collect() };
        let (left, right) = (column(&left_resampled), column(&right_resampled));
        let compared = paired_difference(
            metric,
            (left_values[place], &left),
            (right_values[place], &right),
            how.level,
        );
        (metric, compared)
    });
    Ok(compared.collect())
}

/// Two infinite losses are a tie; ∞ − ∞ would be NaN.
fn difference(left: f64, right: f64) -> f64 {
    if left.is_infinite() && right.is_infinite() {
        0.0
    } else {
        left - right
    }
}

fn check_paired(first: &Predictions<'_>, second: &Predictions<'_>) -> Result<()> {
    let unpaired = |what, row| Err(Error::UnpairedPredictions { what, row });
    if first.rows() != second.rows() {
        return unpaired("numbers of rows", None);
    }
    let labels = first.labels().iter().zip(second.labels());
    if let Some(row) = labels.into_iter().position(|(a, b)| a != b) {
        return unpaired("labels", Some(row));
    }
    let weight = |p: &Predictions<'_>, row: usize| p.weights().map_or(1.0, |w| w[row]).to_bits();
    match (0..first.rows()).find(|&row| weight(first, row) != weight(second, row)) {
        Some(row) => unpaired("weights", Some(row)),
        None => Ok(()),
    }
}

/// The metrics on every resample.
fn resample(
    evaluator: &Evaluator<'_, '_>,
    predictions: &Predictions<'_>,
    how: &BootstrapOptions,
) -> Vec<Vec<f64>> {
    let mut values = Vec::with_capacity(how.resamples);
    let all = for_each_batch(predictions, how, |weightings, _| {
        let weightings: Vec<Option<&[f64]>> = weightings.iter().map(|w| Some(&w[..])).collect();
        values.extend(evaluator.values(&weightings));
        Ok(())
    });
    debug_assert!(all.is_ok(), "nothing ends it early");
    values
}

/// Draws the resamples in batches: the weights of the rows in each, and the number of resamples done after the batch.
fn for_each_batch(
    predictions: &Predictions<'_>,
    how: &BootstrapOptions,
    mut take: impl FnMut(&[Vec<f64>], usize) -> Result<()>,
) -> Result<()> {
    // Metrics of single classes read the matrix once for a whole batch of resamples; the weights of a batch
    // take at most 64 MB.
    let at_once = ((1 << 23) / predictions.rows()).clamp(1, 64);
    for start in (0..how.resamples).step_by(at_once) {
        let end = how.resamples.min(start + at_once);
        let weightings: Vec<Vec<f64>> = (start..end)
            .into_par_iter()
            .map(|index| draw(predictions, how.seed, index as u64))
            .collect();
        take(&weightings, end)?;
    }
    Ok(())
}

/// The weights of the rows in a resample: each row's own weight times how often it was drawn.
fn draw(predictions: &Predictions<'_>, seed: u64, index: u64) -> Vec<f64> {
    let rows = predictions.rows();
    // Every resample has a generator of its own, so results do not depend on the threads.
    let mut rng = Rng::new(seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    loop {
        let mut weights = vec![0.0; rows];
        for _ in 0..rows {
            weights[rng.below(rows)] += 1.0;
        }
        if let Some(own) = predictions.weights() {
            for (weight, own) in weights.iter_mut().zip(own) {
                *weight *= own;
            }
            // Draw again if all drawn rows have weight 0.
            if weights.iter().all(|&w| w <= 0.0) {
                continue;
            }
        }
        return weights;
    }
}

/// The quantile of sorted values, interpolated linearly between the two nearest.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let fraction = position - below as f64;
    if fraction <= 0.0 {
        return sorted[below];
    }
    sorted[below] + (sorted[above] - sorted[below]) * fraction
}

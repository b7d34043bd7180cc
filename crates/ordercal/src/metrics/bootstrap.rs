//! Bootstrap intervals, and paired comparisons on the same resamples.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use derive_setters::Setters;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::evaluate::Evaluator;
use super::interval::{basic, is_norm_of_gaps, of_gaps, percentile};
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use crate::error::{Error, Result};
use crate::rng::Rng;

/// The parameters of a bootstrap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
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
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first option that is out of range.
    pub fn validate(&self) -> Result<()> {
        if !(1..=1_000_000).contains(&self.resamples) {
            return Err(Error::invalid("resamples", self.resamples, "1 to 1000000"));
        }
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::invalid("level", self.level, "above 0 and below 1"));
        }
        Ok(())
    }
}

/// The value of a metric with its bootstrap interval.
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

    let go_on = |done| match watch(done, how.resamples) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    };
    let mut found = BTreeMap::new();
    for (metric, value) in gaps {
        found.insert(metric, of_gaps(metric, value, predictions, options, how));
        go_on(0)?;
    }
    let metrics: Vec<Metric> = means.iter().map(|&(metric, _)| metric).collect();
    let evaluator = Evaluator::new(predictions, &metrics, options)?;
    let mut resampled: Vec<Vec<f64>> = Vec::with_capacity(how.resamples);
    for_each_batch(predictions, how, |weightings, done| {
        resampled.extend(evaluator.values(&some(weightings)));
        go_on(done)
    })?;
    for (place, (metric, value)) in means.into_iter().enumerate() {
        let column = resampled.iter().map(|values| values[place]).collect();
        found.insert(metric, percentile(value, column, how.level));
    }
    Ok(found)
}

/// The metrics on every resample, to be compared later by [`paired_difference`].
///
/// # Errors
/// If an option is out of range.
pub fn resampled(
    predictions: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
    how: &BootstrapOptions,
) -> Result<BTreeMap<Metric, Vec<f64>>> {
    how.validate()?;
    let evaluator = Evaluator::new(predictions, metrics, options)?;
    let mut values = Vec::with_capacity(how.resamples);
    for_each_batch(predictions, how, |weightings, _| {
        values.extend(evaluator.values(&some(weightings)));
        Ok(())
    })?;
    let columns = metrics.iter().enumerate().map(|(place, &metric)| {
        let column = values.iter().map(|values| values[place]).collect();
        (metric, column)
    });
    Ok(columns.collect())
}

fn some(weightings: &[Vec<f64>]) -> Vec<Option<&[f64]>> {
    weightings.iter().map(|w| Some(&w[..])).collect()
}

/// The difference of a metric between two sets of predictions of the same rows, each given as (value on the rows,
/// values on the [same resamples](resampled)): the first minus the second, with its bootstrap interval.
///
/// Sampling noise common to both cancels, so the interval is narrower than the two intervals suggest. A difference is
/// significant if its interval does not contain 0.
///
/// # Panics
/// If the numbers of resamples differ, or there are none.
pub fn paired_difference(first: (f64, &[f64]), second: (f64, &[f64]), level: f64) -> Interval {
    assert_eq!(first.1.len(), second.1.len(), "resamples come in pairs");
    let pairs = first.1.iter().zip(second.1);
    let differences = pairs.map(|(l, r)| difference(*l, *r)).collect();
    basic(difference(first.0, second.0), differences, level)
}

/// Two infinite losses are a tie; ∞ − ∞ would be NaN.
fn difference(left: f64, right: f64) -> f64 {
    if left.is_infinite() && right.is_infinite() {
        0.0
    } else {
        left - right
    }
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
pub(super) fn draw(predictions: &Predictions<'_>, seed: u64, index: u64) -> Vec<f64> {
    let rows = predictions.rows();
    let mut rng = generator(seed, index);
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

/// Every resample has a generator of its own, so results do not depend on the threads.
pub(super) fn generator(seed: u64, index: u64) -> Rng {
    Rng::new(seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
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

//! Several metrics at once, with one pass over the scores for all that read them in the same form.

use std::collections::BTreeMap;

use super::binning::Binning;
use super::classwise::class_errors;
use super::definition::Compute;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use super::row_stats::{RowStat, WeightedRows};
use super::top_label::{TopLabel, equal_width_sums};
use crate::error::Result;

/// Computes the given metrics.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
/// use ordercal::{Dataset, ScoreKind, Scores};
///
/// let logits = array![[2.0_f32, 0.5, -1.0], [0.1, 0.3, 0.2]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 2])?;
/// let metrics = Metric::for_classes(data.classes());
/// let values = evaluate(&Predictions::from(&data), &metrics, &MetricOptions::default())?;
/// assert_eq!(values.len(), metrics.len());
/// assert!((values[&Metric::Accuracy] - 0.5).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range, or a metric is [not defined](Metric::for_classes) for this many classes.
pub fn evaluate(
    predictions: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
) -> Result<BTreeMap<Metric, f64>> {
    let evaluator = Evaluator::new(predictions, metrics, options)?;
    let values = evaluator.value();
    Ok(metrics.iter().copied().zip(values).collect())
}

impl Metric {
    /// Computes this metric; [`evaluate`] computes several in less time.
    ///
    /// # Errors
    /// If an option is out of range, or the metric is [not defined](Metric::for_classes) for this many classes.
    pub fn compute(self, predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
        Ok(Evaluator::new(predictions, &[self], options)?.value()[0])
    }
}

/// What metrics need of the predictions, apart from the weights: a bootstrap changes only those.
pub(crate) struct Evaluator<'p, 'a> {
    predictions: &'p Predictions<'a>,
    metrics: &'p [Metric],
    options: &'p MetricOptions,
    stats: &'p [RowStat],
    top: Option<TopLabel>,
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(crate) fn new(
        predictions: &'p Predictions<'a>,
        metrics: &'p [Metric],
        options: &'p MetricOptions,
    ) -> Result<Self> {
        options.validate()?;
        for metric in metrics {
            metric.check_classes(predictions.classes())?;
        }
        let by_rows =
            |metric: &Metric| !matches!(metric.definition().compute, Compute::PerClass(..));
        let stats = if metrics.iter().any(by_rows) {
            predictions.stats()
        } else {
            &[]
        };
        let sorted = |metric: &Metric| matches!(metric.definition().compute, Compute::TopLabel(_));
        let top = metrics.iter().any(sorted);
        Ok(Self {
            predictions,
            metrics,
            options,
            top: top.then(|| TopLabel::new(stats)),
            stats,
        })
    }

    /// The metrics under the predictions' own weights.
    pub(crate) fn value(&self) -> Vec<f64> {
        self.values(&[self.predictions.weights()]).remove(0)
    }

    /// The metrics under each of several weightings of the rows.
    pub(crate) fn values(&self, weightings: &[Option<&[f64]>]) -> Vec<Vec<f64>> {
        use rayon::prelude::*;
        let mut values: Vec<Vec<f64>> = weightings
            .par_iter()
            .map(|weights| self.row_values(*weights))
            .collect();
        let per_class = |(place, metric): (usize, &Metric)| match metric.definition().compute {
            Compute::PerClass(binning, combine) => Some((place, binning, combine)),
            _ => None,
        };
        let asked: Vec<_> = self
            .metrics
            .iter()
            .enumerate()
            .filter_map(per_class)
            .collect();
        if asked.is_empty() {
            return values;
        }
        let mut binnings: Vec<Binning> = Vec::new();
        for &(_, binning, _) in &asked {
            if !binnings.contains(&binning) {
                binnings.push(binning);
            }
        }
        let errors = class_errors(self.predictions, weightings, self.options, &binnings);
        for (place, binning, combine) in asked {
            let kind = binnings.iter().position(|&known| known == binning);
            let Some(kind) = kind else { continue };
            for (values, errors) in values.iter_mut().zip(&errors[kind]) {
                values[place] = combine(errors, self.options);
            }
        }
        values
    }

    /// The metrics under one weighting; those of single classes are left NaN.
    fn row_values(&self, weights: Option<&[f64]>) -> Vec<f64> {
        let rows = WeightedRows {
            stats: self.stats,
            weights,
            classes: self.predictions.classes(),
        };
        let top = self.top.as_ref();
        let sorted_weights = top.and_then(|top| top.sort_weights(weights));
        let sorted = top.map(|top| top.sorted(sorted_weights.as_deref()));
        let binned = |metric: &Metric| matches!(metric.definition().compute, Compute::Bins(_));
        let bins = match self.metrics.iter().any(binned) {
            true => equal_width_sums(self.stats, weights, self.options.bins),
            false => Vec::new(),
        };
        let value = |metric: &Metric| match (&metric.definition().compute, &sorted) {
            (Compute::Rows(compute), _) => compute(&rows, self.options),
            (Compute::Bins(compute), _) => compute(&bins, self.options),
            (Compute::TopLabel(compute), Some(sorted)) => compute(sorted, self.options),
            _ => f64::NAN,
        };
        self.metrics.iter().map(value).collect()
    }
}

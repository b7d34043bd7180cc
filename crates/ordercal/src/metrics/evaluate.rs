//! Several metrics at once, with one pass over the scores for all that read them in the same form.

use std::collections::BTreeMap;

use super::binning::{BinSum, Binning, debiased_square, power_of_gaps};
use super::classwise::for_class_bins;
use super::definition::Compute;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use super::row_stats::{RowStat, WeightedRows};
use super::top_label::{SortedRows, equal_width_sums};
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
    top: Option<SortedRows>,
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
        let any = |reads: fn(&Compute) -> bool| {
            let mut metrics = metrics.iter();
            metrics.any(|metric| reads(&metric.definition().compute))
        };
        let stats = match any(|compute| !matches!(compute, Compute::PerClass(..))) {
            true => predictions.stats(),
            false => &[],
        };
        let in_order = any(|compute| {
            let equal_mass = matches!(compute, Compute::Bins(Binning::EqualMass, _));
            equal_mass || matches!(compute, Compute::TopLabel(_))
        });
        Ok(Self {
            predictions,
            metrics,
            options,
            top: in_order.then(|| SortedRows::of_top_label(stats)),
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
        let mut binnings = vec![Binning::EqualWidth, Binning::LeftClosed, Binning::EqualMass];
        let of_class = |metric: &Metric| match metric.definition().compute {
            Compute::PerClass(binning, combine) => Some((binning, combine)),
            _ => None,
        };
        let asked = self.metrics.iter().filter_map(of_class);
        binnings.retain(|kind| asked.clone().any(|(binning, _)| binning == *kind));
        if binnings.is_empty() {
            return values;
        }
        let (bins, norm) = (self.options.bins, self.options.norm);
        let error = |binning, sums: Vec<BinSum>| match binning {
            Binning::EqualMass => debiased_square(&sums),
            _ => power_of_gaps(&sums, norm),
        };
        let errors = for_class_bins(self.predictions, weightings, bins, &binnings, error);
        for (place, metric) in self.metrics.iter().enumerate() {
            for (kind, errors) in binnings.iter().zip(&errors) {
                if let Some((_, combine)) = of_class(metric).filter(|(binning, _)| binning == kind)
                {
                    for (values, errors) in values.iter_mut().zip(errors) {
                        values[place] = combine(errors, self.options);
                    }
                }
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
        let (mut equal_width, mut equal_mass) = (None, None);
        let bins = self.options.bins;
        let value = |metric: &Metric| match (&metric.definition().compute, &sorted) {
            (Compute::Rows(compute), _) => compute(&rows, self.options),
            (Compute::Bins(Binning::EqualMass, compute), Some(sorted)) => {
                let sums =
                    equal_mass.get_or_insert_with(|| sorted.bin_sums(Binning::EqualMass, bins));
                compute(sums, self.options)
            }
            (Compute::Bins(_, compute), _) => {
                let sums = || equal_width_sums(self.stats, weights, bins);
                compute(equal_width.get_or_insert_with(sums), self.options)
            }
            (Compute::TopLabel(compute), Some(sorted)) => compute(sorted, self.options),
            _ => f64::NAN,
        };
        self.metrics.iter().map(value).collect()
    }
}

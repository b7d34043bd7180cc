//! Any set of metrics at once, each pass over the scores made once.

use std::collections::BTreeMap;

use super::classwise;
use super::metric::{Metric, MetricOptions};
use super::predictions::{Predictions, RowStat};
use super::scoring::{hit, nll_limit, weighted_mean};
use super::top_label::{self, TopLabel};
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
/// let values = evaluate(&Predictions::from(&data), &Metric::ALL, &MetricOptions::default())?;
/// assert_eq!(values.len(), 13);
/// assert!((values[&Metric::Accuracy] - 0.5).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn evaluate(
    predictions: &Predictions<'_>,
    metrics: &[Metric],
    options: &MetricOptions,
) -> Result<BTreeMap<Metric, f64>> {
    let evaluator = Evaluator::new(predictions, metrics, options)?;
    let values = evaluator.values(&[predictions.weights()]);
    Ok(metrics
        .iter()
        .copied()
        .zip(values[0].iter().copied())
        .collect())
}

/// Everything about the predictions that does not depend on how often each row counts.
pub(crate) struct Evaluator<'p, 'a> {
    predictions: &'p Predictions<'a>,
    metrics: &'p [Metric],
    options: &'p MetricOptions,
    stats: Vec<RowStat>,
    top: Option<TopLabel>,
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(crate) fn new(
        predictions: &'p Predictions<'a>,
        metrics: &'p [Metric],
        options: &'p MetricOptions,
    ) -> Result<Self> {
        options.validate()?;
        let by_rows = metrics.iter().any(|metric| !metric.is_per_class());
        let stats = if by_rows {
            predictions.row_stats()
        } else {
            Vec::new()
        };
        let top = metrics
            .iter()
            .any(|metric| metric.is_top_label())
            .then(|| TopLabel::new(&stats));
        Ok(Self {
            predictions,
            metrics,
            options,
            stats,
            top,
        })
    }

    /// The metrics under each of several weightings of the rows.
    pub(crate) fn values(&self, weightings: &[Option<&[f64]>]) -> Vec<Vec<f64>> {
        use rayon::prelude::*;
        let mut values: Vec<Vec<f64>> = weightings
            .par_iter()
            .map(|weights| self.row_values(*weights))
            .collect();
        for (place, &metric) in self.metrics.iter().enumerate() {
            if metric.is_per_class() {
                let errors =
                    classwise::errors_of(metric, self.predictions, weightings, self.options);
                for (values, error) in values.iter_mut().zip(errors) {
                    values[place] = error;
                }
            }
        }
        values
    }

    /// The metrics that need no columns; the places of the others are left NaN.
    fn row_values(&self, weights: Option<&[f64]>) -> Vec<f64> {
        let weights_in_order = self.top.as_ref().and_then(|top| top.in_order(weights));
        let options = self.options;
        let mean = |value: &dyn Fn(&RowStat) -> f64| weighted_mean(&self.stats, weights, value);
        let limit = nll_limit(options.clip);
        self.metrics
            .iter()
            .map(|&metric| match (metric, &self.top) {
                (Metric::Accuracy, _) => mean(&|s| hit(s, 1)),
                (Metric::Top5, _) => mean(&|s| hit(s, options.top_k)),
                (Metric::Nll, _) => mean(&|s| s.nll.min(limit)),
                (Metric::Brier, _) => mean(&|s| s.brier) / self.predictions.classes() as f64,
                (_, Some(top)) if metric.is_top_label() => {
                    top_label::error_of(metric, &top.sorted(weights_in_order.as_deref()), options)
                }
                _ => f64::NAN,
            })
            .collect()
    }
}

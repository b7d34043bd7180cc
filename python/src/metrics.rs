//! Metrics of probabilities.

use std::str::FromStr;

use ordercal::diagnose::RowChecks;
use ordercal::metrics::{
    Binning, BootstrapOptions, Metric, MetricOptions, Predictions, Reliability, Target,
    bootstrap_watched, evaluate as compute,
};
use ordercal::{Progress, ScoreKind, Unwatched, Watch};
use pyo3::prelude::*;

use crate::arrays::Rows;
use crate::errors::{refuse, to_json, warn};
use crate::pool::detached;
use crate::watch::beside;

/// A metric with its value and, if intervals were asked for, their ends.
type Measured = (&'static str, f64, Option<(f64, f64)>);

/// The keys of all metrics.
#[pyfunction]
pub fn metrics() -> Vec<&'static str> {
    Metric::ALL.iter().map(|m| m.key()).collect()
}

/// The keys of the metrics that depend only on the confidence of the predicted class and on whether it is right.
#[pyfunction]
pub fn top_label_metrics() -> Vec<&'static str> {
    let of_confidence = |m: &&Metric| m.is_top_label() || **m == Metric::Accuracy;
    let keys = Metric::ALL.iter().filter(of_confidence);
    keys.map(|m| m.key()).collect()
}

/// The name of a metric, what it asks, formula, range, caveat, and what it equals.
#[pyfunction]
pub fn describe_metric(key: &str) -> PyResult<[&'static str; 6]> {
    let metric = Metric::from_str(key).map_err(refuse)?;
    Ok([
        metric.name(),
        metric.brief(),
        metric.formula(),
        metric.range(),
        metric.caveat(),
        metric.equals(),
    ])
}

/// Metrics by key.
pub fn parse(keys: &[String]) -> PyResult<Vec<Metric>> {
    let metric = |key: &String| Metric::from_str(key).map_err(refuse);
    keys.iter().map(metric).collect()
}

/// What is measured.
struct Measures {
    metrics: Vec<Metric>,
    options: MetricOptions,
    bootstrap: Option<BootstrapOptions>,
}

impl Measures {
    fn of(
        &self,
        predictions: &Predictions<'_>,
        watch: &dyn Watch,
    ) -> ordercal::Result<Vec<Measured>> {
        let values = compute(predictions, &self.metrics, &self.options)?;
        let tell = |iteration, of| {
            watch.progress(&Progress {
                iteration,
                of,
                loss: f64::NAN,
            })
        };
        let draw = |how| bootstrap_watched(predictions, &self.metrics, &self.options, how, &tell);
        let intervals = self.bootstrap.as_ref().map(draw).transpose()?;
        let measured = self.metrics.iter().map(|metric| {
            let ends = intervals
                .as_ref()
                .map(|all| (all[metric].lower, all[metric].upper));
            (metric.key(), values[metric], ends)
        });
        Ok(measured.collect())
    }
}

/// The metrics of scores, with bootstrap intervals if a number of resamples is given.
#[pyfunction]
pub fn evaluate(
    py: Python<'_>,
    rows: Rows<'_>,
    keys: Option<Vec<String>>,
    bins: usize,
    resamples: Option<usize>,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Measured>> {
    let soft = rows.is_soft();
    let metrics = match keys {
        Some(keys) => parse(&keys)?,
        None => {
            let mut all = Metric::for_classes(rows.classes());
            all.retain(|metric| !soft || metric.takes_soft_labels());
            all
        }
    };
    let measures = Measures {
        metrics,
        options: MetricOptions::default().with_bins(bins),
        bootstrap: resamples.map(|resamples| {
            BootstrapOptions::default()
                .with_resamples(resamples)
                .with_seed(seed)
        }),
    };
    let kind = rows.kind()?;
    let data = rows.data()?;
    let measure = |watch: &dyn Watch| {
        // Checks come last: by then, the rows have been read.
        if kind == ScoreKind::Probs && !soft {
            let predictions = data.probabilities()?;
            let measured = measures.of(&predictions, watch)?;
            return Ok((
                measured,
                RowChecks::of_probabilities(&predictions).evaluation(),
            ));
        }
        let data = data.dataset()?;
        Metric::check_labels(&measures.metrics, &data)?;
        if measures.bootstrap.is_some() && soft {
            return Err(ordercal::Error::SoftLabels {
                what: "a bootstrap",
            });
        }
        let predictions = Predictions::from(&data);
        let measured = measures.of(&predictions, watch)?;
        let mut checks = RowChecks::new(data.classes());
        checks.add_predictions(&data, &predictions);
        Ok((measured, checks.evaluation()))
    };
    let found = match resamples {
        Some(_) => beside(py, progress, measure)?,
        // Nothing to watch, and no thread to start. All of it is given to the pool at once, not each loop of it.
        None => detached(py, || rayon::join(|| measure(&Unwatched), || ()).0)?,
    };
    let (measured, warnings) = found.map_err(refuse)?;
    warn(py, &warnings)?;
    Ok(measured)
}

/// The bins of a reliability diagram, as JSON.
#[pyfunction]
pub fn reliability(
    py: Python<'_>,
    rows: Rows<'_>,
    bins: usize,
    binning: &str,
    place: Option<usize>,
) -> PyResult<String> {
    let binning = match binning {
        "equal-width" => Binning::EqualWidth,
        "equal-mass" => Binning::EqualMass,
        other => {
            return Err(refuse(format!(
                "there is no binning `{other}`; bins are `equal-width` or `equal-mass`"
            )));
        }
    };
    let target = place.map_or(Target::TopLabel, Target::Class);
    let options = MetricOptions::default().with_bins(bins);
    let diagram = rows.compute(py, |data| {
        Reliability::new(&Predictions::from(data), target, binning, &options)
    })?;
    to_json(&diagram)
}

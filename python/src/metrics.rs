//! Metrics of probabilities.

use std::str::FromStr;

use numpy::PyReadonlyArray1;
use ordercal::diagnose::RowChecks;
use ordercal::metrics::{
    Binning, BootstrapOptions, Metric, MetricOptions, Predictions, Reliability, Target,
    bootstrap_watched, evaluate as compute,
};
use ordercal::{Progress, ScoreKind, Unwatched, Watch};
use pyo3::prelude::*;

use crate::arrays::{Labels, Matrix, Rows, kind};
use crate::errors::{refuse, warn};
use crate::pool::detached;
use crate::watch::beside;

/// A metric with its value and, if intervals were asked for, their ends.
type Measured = (&'static str, f64, Option<(f64, f64)>);

/// The keys of all metrics, and whether a larger value is a better one.
#[pyfunction]
pub fn metrics() -> Vec<(&'static str, bool)> {
    let keys = Metric::ALL.iter();
    keys.map(|m| (m.key(), m.higher_is_better())).collect()
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

/// The metrics of scores, with bootstrap intervals if a number of resamples is given.
#[pyfunction]
#[pyo3(signature = (scores, kind_name, labels, weights, keys, bins, resamples, seed, progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn evaluate(
    py: Python<'_>,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: Labels<'_>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    keys: Option<Vec<String>>,
    bins: usize,
    resamples: Option<usize>,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Measured>> {
    let view = scores.view();
    let asked = keys.is_some();
    let mut metrics = match keys {
        Some(keys) => parse(&keys)?,
        None => Metric::for_classes(scores.classes()),
    };
    let kind = kind(kind_name)?;
    let soft = matches!(labels, Labels::Shares(_));
    if !asked && soft {
        metrics.retain(|metric| metric.takes_soft_labels());
    }
    let rows = Rows::with_soft_labels(&labels, weights.as_ref());
    let options = MetricOptions::default().with_bins(bins);
    let how = resamples.map(|r| {
        BootstrapOptions::default()
            .with_resamples(r)
            .with_seed(seed)
    });
    type Found = ordercal::Result<(Vec<Measured>, Vec<String>)>;
    type Checks<'a> = &'a dyn Fn() -> RowChecks;
    let of = |predictions: &Predictions<'_>, checks: Checks<'_>, watch: &dyn Watch| -> Found {
        let values = compute(predictions, &metrics, &options)?;
        let intervals = match &how {
            Some(how) => {
                let tell = |iteration, of| {
                    watch.progress(&Progress {
                        iteration,
                        of,
                        loss: f64::NAN,
                    })
                };
                let found = bootstrap_watched(predictions, &metrics, &options, how, &tell)?;
                Some(found)
            }
            None => None,
        };
        let one = |metric: &Metric| {
            let interval = intervals.as_ref().map(|found| {
                let interval = &found[metric];
                (interval.lower, interval.upper)
            });
            (metric.key(), values[metric], interval)
        };
        // Afterwards, when the rows have been read.
        let warnings = checks().evaluation();
        let warnings = warnings.iter().map(ToString::to_string).collect();
        Ok((metrics.iter().map(one).collect(), warnings))
    };
    let measure = |watch: &dyn Watch| -> Found {
        if kind == ScoreKind::Probs && !soft {
            let predictions = rows.probabilities(view)?;
            let checks = || RowChecks::of_probabilities(&predictions);
            return of(&predictions, &checks, watch);
        }
        let data = rows.dataset(kind, view)?;
        Metric::check_labels(&metrics, &data)?;
        if how.is_some() && soft {
            return Err(ordercal::Error::SoftLabels {
                what: "a bootstrap",
            });
        }
        let predictions = Predictions::from(&data);
        let checks = || {
            let mut checks = RowChecks::new(data.classes());
            checks.add_predictions(&data, &predictions);
            checks
        };
        of(&predictions, &checks, watch)
    };
    let found = match how {
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
#[pyo3(signature = (scores, kind_name, labels, weights, bins, binning, place))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn reliability(
    py: Python<'_>,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: PyReadonlyArray1<'_, i64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    bins: usize,
    binning: &str,
    place: Option<usize>,
) -> PyResult<String> {
    let kind = kind(kind_name)?;
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
    let rows = Rows::new(&labels, weights.as_ref());
    let view = scores.view();
    let options = MetricOptions::default().with_bins(bins);
    let diagram = detached(py, || {
        let data = rows.dataset(kind, view)?;
        Reliability::new(&Predictions::from(&data), target, binning, &options)
    })?;
    serde_json::to_string(&diagram.map_err(refuse)?).map_err(refuse)
}

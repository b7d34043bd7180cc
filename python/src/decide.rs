//! Thresholds and prediction sets with a guarantee, and the parts of the NLL.

use numpy::{IntoPyArray, PyArray2};
use ordercal::decide::{self, PredictionSets, SetMethod, ThresholdOptions};
use ordercal::metrics::Predictions;
use ordercal::{Method, Scores};
use pyo3::prelude::*;

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::{refuse, to_json};
use crate::pool::detached;
use crate::watch::beside;

/// The confidence above which at most `max_error` of the predictions are wrong, as JSON; an infinite threshold is null.
#[pyfunction]
pub fn threshold(
    py: Python<'_>,
    rows: Rows<'_>,
    max_error: f64,
    confidence: f64,
) -> PyResult<String> {
    let options = ThresholdOptions::default()
        .with_max_error(max_error)
        .with_confidence(confidence);
    let found = rows.compute(py, |data| {
        decide::threshold(&Predictions::from(data), &options)
    })?;
    to_json(&found)
}

/// Prediction sets, learned from labelled rows.
#[pyclass(frozen, module = "ordercal._native")]
pub struct Sets {
    sets: PredictionSets,
}

#[pymethods]
impl Sets {
    /// `method` is JSON with its key under `method`.
    #[new]
    fn new(
        py: Python<'_>,
        rows: Rows<'_>,
        coverage: f64,
        method: &str,
        allow_empty: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let method: SetMethod = serde_json::from_str(method).map_err(refuse)?;
        let sets = rows.compute(py, |data| {
            PredictionSets::learn(&Predictions::from(data), coverage, method, seed)
        })?;
        let sets = sets.with_allow_empty(allow_empty);
        Ok(Self { sets })
    }

    /// The largest score that a set admits.
    #[getter]
    fn quantile(&self) -> f64 {
        self.sets.quantile
    }

    /// The sets of new rows.
    fn sets<'py>(
        &self,
        py: Python<'py>,
        scores: Matrix<'_>,
        kind_name: &str,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let kind = kind(kind_name)?;
        let view = scores.view();
        let found = detached(py, || {
            Scores::new(kind, view).map(|scores| self.sets.sets(&scores, seed))
        })?;
        Ok(found.map_err(refuse)?.into_pyarray(py))
    }

    /// How the sets of labelled rows do, as JSON.
    fn evaluate(&self, py: Python<'_>, rows: Rows<'_>, seed: u64) -> PyResult<String> {
        let report = rows.compute(py, |data| {
            Ok(self.sets.evaluate(&Predictions::from(data), seed))
        })?;
        to_json(&report)
    }
}

/// The NLL in its two parts, as JSON; `method` is JSON with its key under `method`.
#[pyfunction]
pub fn decompose(
    py: Python<'_>,
    method: &str,
    rows: Rows<'_>,
    folds: usize,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let data = rows.data()?;
    let found = beside(py, progress, |watch| {
        ordercal::decompose(&data.dataset()?, &method, folds, seed, watch)
    })?;
    to_json(&found.map_err(refuse)?)
}

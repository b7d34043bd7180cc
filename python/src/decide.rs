//! Thresholds and prediction sets with a guarantee, and the parts of the NLL.

use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1};
use ordercal::decide::{self, PredictionSets, SetMethod, ThresholdOptions};
use ordercal::metrics::Predictions;
use ordercal::{Method, Scores};
use pyo3::prelude::*;

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::refuse;
use crate::pool::detached;
use crate::watch::beside;

/// The confidence above which at most `max_error` of the predictions are wrong, as JSON; an infinite threshold is null.
#[pyfunction]
pub fn threshold(
    py: Python<'_>,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: PyReadonlyArray1<'_, i64>,
    max_error: f64,
    confidence: f64,
) -> PyResult<String> {
    let kind = kind(kind_name)?;
    let rows = Rows::new(&labels, None);
    let view = scores.view();
    let options = ThresholdOptions::default()
        .with_max_error(max_error)
        .with_confidence(confidence);
    let found = detached(py, || {
        let data = rows.dataset(kind, view)?;
        decide::threshold(&Predictions::from(&data), &options)
    })?;
    serde_json::to_string(&found.map_err(refuse)?).map_err(refuse)
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
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of one call"
    )]
    fn new(
        py: Python<'_>,
        scores: Matrix<'_>,
        kind_name: &str,
        labels: PyReadonlyArray1<'_, i64>,
        coverage: f64,
        method: &str,
        allow_empty: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let kind = kind(kind_name)?;
        let rows = Rows::new(&labels, None);
        let view = scores.view();
        let method: SetMethod = serde_json::from_str(method).map_err(refuse)?;
        let sets = detached(py, || {
            let data = rows.dataset(kind, view)?;
            PredictionSets::learn(&Predictions::from(&data), coverage, method, seed)
        })?;
        let sets = sets.map_err(refuse)?.with_allow_empty(allow_empty);
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
        let found = detached(py, || Ok(self.sets.sets(&Scores::new(kind, view)?, seed)))?;
        let found = found.map_err(|error: ordercal::Error| refuse(error))?;
        Ok(found.into_pyarray(py))
    }

    /// How the sets of labelled rows do, as JSON.
    fn evaluate(
        &self,
        py: Python<'_>,
        scores: Matrix<'_>,
        kind_name: &str,
        labels: PyReadonlyArray1<'_, i64>,
        seed: u64,
    ) -> PyResult<String> {
        let kind = kind(kind_name)?;
        let rows = Rows::new(&labels, None);
        let view = scores.view();
        let report = detached(py, || {
            let data = rows.dataset(kind, view)?;
            Ok(self.sets.evaluate(&Predictions::from(&data), seed))
        })?;
        let report = report.map_err(|error: ordercal::Error| refuse(error))?;
        serde_json::to_string(&report).map_err(refuse)
    }
}

/// The NLL in its two parts, as JSON; `method` is JSON with its key under `method`.
#[pyfunction]
#[pyo3(signature = (method, scores, kind_name, labels, weights, folds, seed, progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn decompose(
    py: Python<'_>,
    method: &str,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: PyReadonlyArray1<'_, i64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    folds: usize,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let kind = kind(kind_name)?;
    let rows = Rows::new(&labels, weights.as_ref());
    let view = scores.view();
    let found = beside(py, progress, |watch| {
        ordercal::decompose(&rows.dataset(kind, view)?, &method, folds, seed, watch)
    })?;
    serde_json::to_string(&found.map_err(refuse)?).map_err(refuse)
}

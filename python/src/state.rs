//! Mergeable metrics.

use std::collections::BTreeMap;

use numpy::PyReadonlyArray1;
use ordercal::metrics::{MetricOptions, MetricState, Predictions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::refuse;

/// Sums from which metrics are computed.
#[pyclass(module = "ordercal._native")]
pub struct State {
    state: MetricState,
}

#[pymethods]
impl State {
    #[new]
    fn new(classes: usize, bins: usize, marginal: bool) -> PyResult<Self> {
        let options = MetricOptions::default().with_bins(bins);
        let state = MetricState::new(classes, options).map_err(refuse)?;
        let state = if marginal {
            state.with_marginal().map_err(refuse)?
        } else {
            state
        };
        Ok(Self { state })
    }

    /// Takes in rows.
    #[pyo3(signature = (scores, kind_name, labels, weights=None))]
    fn update(
        &mut self,
        py: Python<'_>,
        scores: Matrix<'_>,
        kind_name: &str,
        labels: PyReadonlyArray1<'_, i64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<()> {
        let kind = kind(kind_name)?;
        let rows = Rows::new(&labels, weights.as_ref());
        let view = scores.view();
        let state = &mut self.state;
        py.detach(|| {
            let data = rows.dataset(kind, view)?;
            state.update(&Predictions::from(&data))
        })
        .map_err(refuse)
    }

    /// Takes in the rows of another state.
    fn merge(&mut self, other: PyRef<'_, Self>) -> PyResult<()> {
        self.state.merge(&other.state).map_err(refuse)
    }

    /// Every metric with a bound on its distance to the exact value.
    fn finalize(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, (f64, f64)>> {
        let found = py.detach(|| self.state.finalize()).map_err(refuse)?;
        let entries = found.iter();
        Ok(entries
            .map(|(metric, estimate)| (metric.key(), (estimate.value, estimate.error_bound)))
            .collect())
    }

    /// The state as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.state.to_bytes())
    }

    /// A state from its bytes.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let state = MetricState::from_bytes(bytes).map_err(refuse)?;
        Ok(Self { state })
    }

    /// K.
    #[getter]
    fn classes(&self) -> usize {
        self.state.classes()
    }

    /// How many rows were taken in.
    #[getter]
    fn rows(&self) -> u64 {
        self.state.rows()
    }
}

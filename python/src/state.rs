//! Mergeable metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ordercal::metrics::{BootstrapOptions, MetricOptions, MetricState, Predictions, Target};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::Rows;
use crate::errors::{refuse, to_json};
use crate::pool::detached;

/// Sums from which metrics are computed. Several threads may use one at once: a lock keeps them apart.
#[pyclass(frozen, module = "ordercal._native")]
pub struct State {
    state: Mutex<MetricState>,
}

impl State {
    /// A state with these sums.
    pub fn with(state: MetricState) -> Self {
        Self {
            state: Mutex::new(state),
        }
    }

    /// Only without the interpreter: whoever has the lock may wait for it.
    fn lock(&self) -> MutexGuard<'_, MetricState> {
        // An update fails before it changes anything, so what a panic left is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A state of no rows that reads them in the same way. Only without the interpreter.
    pub fn empty(&self) -> ordercal::Result<MetricState> {
        let state = self.lock();
        let empty = MetricState::new(state.classes(), state.options().clone())?;
        if state.has_marginal() {
            return empty.with_marginal();
        }
        Ok(empty)
    }

    /// Takes in the rows of a state. Only without the interpreter.
    pub fn take_in(&self, rows: &MetricState) -> ordercal::Result<()> {
        self.lock().merge(rows)
    }

    fn copy(&self, py: Python<'_>) -> MetricState {
        py.detach(|| self.lock().clone())
    }
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
        Ok(Self::with(state))
    }

    /// Takes in rows.
    fn update(&self, py: Python<'_>, rows: Rows<'_>) -> PyResult<()> {
        rows.compute(py, |data| self.lock().update(&Predictions::from(data)))
    }

    /// Takes in the rows of another state, which may be itself.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let other = other.copy(py);
        py.detach(|| self.lock().merge(&other)).map_err(refuse)
    }

    /// Whether both are of the same rows, read in the same way.
    fn equals(&self, py: Python<'_>, other: &Self) -> bool {
        let other = other.copy(py);
        py.detach(|| *self.lock() == other)
    }

    /// Every metric with a bound on its distance to the exact value.
    fn finalize(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, (f64, f64)>> {
        let found = detached(py, || self.lock().finalize())?.map_err(refuse)?;
        let entries = found.iter();
        Ok(entries
            .map(|(metric, estimate)| (metric.key(), (estimate.value, estimate.error_bound)))
            .collect())
    }

    /// The 95 % intervals of the metrics that have one.
    fn intervals(
        &self,
        py: Python<'_>,
        resamples: usize,
        seed: u64,
    ) -> PyResult<BTreeMap<&'static str, (f64, f64)>> {
        let how = BootstrapOptions::default()
            .with_resamples(resamples)
            .with_seed(seed);
        let state = self.copy(py);
        let found = detached(py, || state.intervals(&how))?.map_err(refuse)?;
        let entries = found.iter();
        Ok(entries
            .map(|(metric, interval)| (metric.key(), (interval.lower, interval.upper)))
            .collect())
    }

    /// The bins of a reliability diagram, as JSON.
    fn reliability(&self, py: Python<'_>, place: Option<usize>) -> PyResult<String> {
        let target = place.map_or(Target::TopLabel, Target::Class);
        let diagram = py.detach(|| self.lock().reliability(target));
        to_json(&diagram.map_err(refuse)?)
    }

    /// The state as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.lock().to_bytes());
        PyBytes::new(py, &bytes)
    }

    /// A state from its bytes.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let state = MetricState::from_bytes(bytes).map_err(refuse)?;
        Ok(Self::with(state))
    }

    /// K.
    #[getter]
    fn classes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.lock().classes())
    }

    /// The number of bins.
    #[getter]
    fn bins(&self, py: Python<'_>) -> usize {
        py.detach(|| self.lock().options().bins)
    }

    /// Whether `marginal_ce` is kept.
    #[getter]
    fn marginal(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().has_marginal())
    }

    /// How many rows were taken in.
    #[getter]
    fn rows(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.lock().rows())
    }
}

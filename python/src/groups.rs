//! Models of groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use numpy::{IntoPyArray, PyReadonlyArray1};
use ordercal::grouped::{GroupFit, GroupPart, RowGroups};
use ordercal::{Fitted, Method, Real, ScoreKind, Scores};
use ordercal_io::{ClassType, SavedGroups, SavedModel};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::{file, refuse};
use crate::model::{Model, read_class_type};
use crate::pool::detached;
use crate::watch::beside;

/// Models of groups.
#[pyclass(frozen, module = "ordercal._native")]
pub struct Groups {
    saved: SavedGroups,
}

/// Fits the model of all rows and those of the groups; methods are JSON with their key under `method`. `keys` are the
/// columns by which rows are divided, row by row.
#[pyfunction]
#[pyo3(signature = (
    method, group_method, scores, kind_name, labels, weights, by, keys, min_rows, folds, seed, class_names=None,
    class_type=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn fit_groups(
    py: Python<'_>,
    method: &str,
    group_method: &str,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: PyReadonlyArray1<'_, i64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    by: Vec<String>,
    keys: Vec<Vec<String>>,
    min_rows: usize,
    folds: usize,
    seed: u64,
    class_names: Option<Vec<String>>,
    class_type: Option<&str>,
) -> PyResult<Groups> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let mut how = GroupFit::new(method).map_err(refuse)?;
    how.group_method = serde_json::from_str(group_method).map_err(refuse)?;
    (how.min_rows, how.folds, how.seed) = (min_rows, folds, seed);
    let kind = kind(kind_name)?;
    let class_type = class_type.map_or(Ok(ClassType::Text), read_class_type)?;
    let rows = Rows::new(&labels, weights.as_ref());
    let scores = scores.view();
    let fitted = beside(py, None, |watch| {
        let data = rows.dataset(kind, scores)?;
        let groups = RowGroups::new(keys.len(), |row| keys[row].clone());
        Ok::<_, ordercal::Error>((how.fit(&data, &groups, watch)?, data.fingerprint()))
    })?;
    let (fitted, fingerprint) = fitted.map_err(refuse)?;
    let saved = SavedGroups::new(by, &how, fitted, |pooled| {
        pooled
            .with_class_names(class_names)
            .with_class_type(class_type)
            .with_kind(kind)
            .with_data(fingerprint)
    });
    Ok(Groups { saved })
}

/// A group's rows, their weight, the NLL of the scores, the totals for each m, and the model file of its map.
type Part = (usize, f64, f64, Vec<f64>, Option<Vec<u8>>);

/// Fits the map of one group to what the model of all rows gives.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn fit_group(
    py: Python<'_>,
    pooled: &Model,
    group_method: &str,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: PyReadonlyArray1<'_, i64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    folds: usize,
    seed: u64,
) -> PyResult<Part> {
    let mut how = GroupFit::new(pooled.saved().method.clone()).map_err(refuse)?;
    how.group_method = serde_json::from_str(group_method).map_err(refuse)?;
    (how.folds, how.seed) = (folds, seed);
    let kind = kind(kind_name)?;
    let rows = Rows::new(&labels, weights.as_ref());
    let scores = scores.view();
    let part = detached(py, || {
        let data = rows.dataset(kind, scores)?;
        how.fit_part(&pooled.saved().model, &data)
    })?;
    let part = part.map_err(refuse)?;
    let own = part.own.map(|model| {
        let report = pooled.saved().report.clone();
        SavedModel::new(how.group_method.clone(), Fitted { model, report }).to_bytes()
    });
    let own = own.transpose().map_err(refuse)?;
    Ok((part.rows, part.weight, part.nll_before, part.totals, own))
}

/// Weighs the maps of groups that were fitted one by one, and puts them together.
#[pyfunction]
pub fn join_groups(
    pooled: &Model,
    group_method: &str,
    by: Vec<String>,
    min_rows: usize,
    parts: Vec<(Vec<String>, Part)>,
) -> PyResult<Groups> {
    let saved = pooled.saved();
    let mut how = GroupFit::new(saved.method.clone()).map_err(refuse)?;
    how.group_method = serde_json::from_str(group_method).map_err(refuse)?;
    how.min_rows = min_rows;
    let mut found = BTreeMap::new();
    for (key, (rows, weight, nll_before, totals, own)) in parts {
        let own = own.map(|bytes| SavedModel::from_bytes(&bytes, Path::new("<bytes>")));
        let own = own.transpose().map_err(file)?.map(|own| own.model);
        let part = GroupPart::new(rows, weight, nll_before, totals, own);
        found.insert(key, part.map_err(refuse)?);
    }
    let all = Fitted {
        model: saved.model.clone(),
        report: saved.report.clone(),
    };
    let fitted = how.join(all, found).map_err(refuse)?;
    let saved = SavedGroups::new(by, &how, fitted, |_| saved.clone());
    Ok(Groups { saved })
}

impl Groups {
    /// The models with what their file says.
    pub fn saved(&self) -> &SavedGroups {
        &self.saved
    }

    fn apply_as<'py, T: Real + numpy::Element>(
        &self,
        py: Python<'py>,
        scores: &Matrix<'_>,
        from: ScoreKind,
        to: ScoreKind,
        keys: &[Vec<String>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = scores.view();
        let output = detached(py, || {
            let groups = RowGroups::new(keys.len(), |row| keys[row].clone());
            let scores = Scores::new(from, view)?;
            self.saved.model.apply::<T>(&scores, &groups, to)
        })?;
        Ok(output.map_err(refuse)?.into_pyarray(py).into_any())
    }
}

#[pymethods]
impl Groups {
    /// Calibrates rows, each by the model of its group; 64-bit results if `wide`.
    fn apply<'py>(
        &self,
        py: Python<'py>,
        scores: Matrix<'_>,
        source: &str,
        target: &str,
        keys: Vec<Vec<String>>,
        wide: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (from, to) = (kind(source)?, kind(target)?);
        if wide {
            self.apply_as::<f64>(py, &scores, from, to, &keys)
        } else {
            self.apply_as::<f32>(py, &scores, from, to, &keys)
        }
    }

    /// Writes the file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.saved.save(&path))?.map_err(file)
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let saved = detached(py, || SavedGroups::load(&path))?.map_err(file)?;
        Ok(Self { saved })
    }

    /// The bytes of the file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.saved.to_bytes().map_err(refuse)?))
    }

    /// Reads the bytes of a file.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let saved = SavedGroups::from_bytes(bytes, Path::new("<bytes>")).map_err(file)?;
        Ok(Self { saved })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, (Bound<'py, PyBytes>,))> {
        let read = py.get_type::<Self>().getattr("from_bytes")?.unbind();
        Ok((read, (self.to_bytes(py)?,)))
    }

    /// The model of a group, as it is applied to scores; that of all rows for an empty key.
    fn model(&self, key: Vec<String>) -> PyResult<Model> {
        let bytes = self.saved.group(&key).to_bytes().map_err(refuse)?;
        Model::from_bytes(&bytes)
    }

    /// The columns by which rows are divided.
    #[getter]
    fn by(&self) -> Vec<String> {
        self.saved.by.clone()
    }

    /// K.
    #[getter]
    fn classes(&self) -> usize {
        self.saved.model.classes()
    }

    /// Whether the ranking of every row is kept.
    #[getter]
    fn order_preserving(&self) -> bool {
        self.saved.model.order_preserving()
    }

    /// What the fit did, as JSON.
    #[getter]
    fn report(&self) -> PyResult<String> {
        serde_json::to_string(&self.saved.report).map_err(refuse)
    }
}

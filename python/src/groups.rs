//! Models of groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use numpy::{IntoPyArray, PyReadonlyArray1};
use ordercal::grouped::{self, FoldMaps, FoldModels, GroupFit, GroupMap, GroupPart, RowGroups};
use ordercal::select::Folds;
use ordercal::{Fitted, Method, Real, ScoreKind, Scores};
use ordercal_io::{SavedGroups, SavedModel};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::{file, refuse, to_json};
use crate::model::{ClassNames, Model};
use crate::pool::detached;
use crate::watch::beside;

/// Models of groups.
#[pyclass(frozen, module = "ordercal._native")]
pub struct Groups {
    saved: SavedGroups,
}

/// Fits the model of all rows and those of the groups; methods are JSON with their key under `method`. `keys` are the
/// columns by which rows are divided, row by row; `fold_of` the fold of each row, which otherwise is random.
#[pyfunction]
pub fn fit_groups(
    py: Python<'_>,
    method: &str,
    group_method: &str,
    rows: Rows<'_>,
    by: Vec<String>,
    keys: Vec<Vec<String>>,
    min_rows: usize,
    folds: usize,
    seed: u64,
    classes: ClassNames,
    fold_of: Option<PyReadonlyArray1<'_, u32>>,
) -> PyResult<Groups> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let mut how = GroupFit::new(method).map_err(refuse)?;
    how.group_method = serde_json::from_str(group_method).map_err(refuse)?;
    (how.min_rows, how.folds, how.seed) = (min_rows, folds, seed);
    let fold_of = fold_of.map(|folds| folds.as_array().to_vec());
    let kind = rows.kind()?;
    let data = rows.data()?;
    let fitted = beside(py, None, |watch| {
        let data = data.dataset()?;
        let groups = RowGroups::new(keys.len(), |row| keys[row].clone());
        let folds = match fold_of {
            Some(fold_of) => Folds::assigned(fold_of, folds)?,
            None => Folds::new(data.rows(), folds, seed)?,
        };
        let fitted = how.fit_with(&data, &groups, &folds, watch)?;
        Ok::<_, ordercal::Error>((fitted, data.fingerprint()))
    })?;
    let (fitted, fingerprint) = fitted.map_err(refuse)?;
    let saved = SavedGroups::new(by, &how, fitted, |pooled| {
        pooled
            .with_class_names(classes.names)
            .with_class_type(classes.class_type)
            .with_kind(kind)
            .with_data(fingerprint)
    });
    Ok(Groups { saved })
}

/// Rows and their weight; the NLL of the scores and of the groups' maps alone; the totals for each m; for each fold and for all
/// rows how many rows its map was fitted to, and the map's model file.
type Part = (
    (usize, f64),
    (f64, f64),
    Vec<f64>,
    Vec<usize>,
    Vec<Option<Vec<u8>>>,
);

/// A group's maps for each fold and for all rows, with their weights.
type Maps = Vec<Option<(f64, Py<Model>)>>;

/// Fits the maps of one group to what those of its parent give: `roots` are the models of all rows for each fold and the one
/// fitted to every row, `above` the maps of the group's ancestors.
#[pyfunction]
pub fn fit_group(
    py: Python<'_>,
    roots: Vec<Py<Model>>,
    above: Vec<Maps>,
    group_method: &str,
    rows: Rows<'_>,
    folds: PyReadonlyArray1<'_, u32>,
    min_rows: usize,
) -> PyResult<Part> {
    let Some(pooled) = roots.last() else {
        return Err(refuse("there is no model of all rows"));
    };
    let pooled = pooled.get().saved();
    let mut how = GroupFit::new(pooled.method.clone()).map_err(refuse)?;
    how.group_method = serde_json::from_str(group_method).map_err(refuse)?;
    how.min_rows = min_rows;
    let folds = Folds::assigned(folds.as_array().to_vec(), roots.len() - 1).map_err(refuse)?;
    let roots = roots.iter().map(|root| root.get().saved().model.clone());
    let roots: Vec<_> = roots.collect();
    let map = |map: &Option<(f64, Py<Model>)>| {
        let (weight, own) = map.as_ref()?;
        Some(GroupMap {
            own: own.get().saved().model.clone(),
            weight: *weight,
        })
    };
    let above = above.iter().map(|maps| maps.iter().map(map).collect());
    let above: Vec<FoldMaps> = above.collect();
    let part = rows.compute(py, |data| {
        let parent = FoldModels::new(roots, above.iter().map(Vec::as_slice))?;
        how.fit_part(&parent, data, &folds)
    })?;
    let own = part.own.into_iter().map(|own| {
        let bytes = |model| {
            let report = pooled.report.clone();
            SavedModel::new(how.group_method.clone(), Fitted { model, report }).to_bytes()
        };
        own.map(bytes).transpose()
    });
    let own = own.collect::<ordercal::Result<_>>().map_err(refuse)?;
    let sums = (part.nll_before, part.separate);
    Ok(((part.rows, part.weight), sums, part.totals, part.kept, own))
}

/// Groups that are fitted one by one, level by level.
#[pyclass(module = "ordercal._native")]
pub struct GroupTree {
    tree: grouped::GroupTree,
    how: GroupFit,
    by: Vec<String>,
    pooled: SavedModel,
}

#[pymethods]
impl GroupTree {
    /// `roots` are the models of all rows for each fold and the one fitted to every row.
    #[new]
    fn new(
        roots: Vec<Py<Model>>,
        group_method: &str,
        by: Vec<String>,
        min_rows: usize,
    ) -> PyResult<Self> {
        let Some((pooled, folds)) = roots.split_last() else {
            return Err(refuse("there is no model of all rows"));
        };
        let pooled = pooled.get().saved().clone();
        let mut how = GroupFit::new(pooled.method.clone()).map_err(refuse)?;
        how.group_method = serde_json::from_str(group_method).map_err(refuse)?;
        (how.min_rows, how.folds) = (min_rows, folds.len());
        let all = Fitted {
            model: pooled.model.clone(),
            report: pooled.report.clone(),
        };
        let folds = folds.iter().map(|root| root.get().saved().model.clone());
        let tree = grouped::GroupTree::new(how.clone(), all, folds.collect());
        Ok(Self {
            tree: tree.map_err(refuse)?,
            how,
            by,
            pooled,
        })
    }

    /// Takes in the groups of the next level, and returns the maps of those that are large enough, of all levels.
    fn add_level(
        &mut self,
        py: Python<'_>,
        parts: Vec<(Vec<String>, Part)>,
    ) -> PyResult<Vec<(Vec<String>, Maps)>> {
        let mut found = BTreeMap::new();
        for (key, (rows, sums, totals, kept, own)) in parts {
            let read =
                |bytes: &[u8]| Ok(SavedModel::from_bytes(bytes, Path::new("<bytes>"))?.model);
            let own = own.iter().map(|own| own.as_deref().map(read).transpose());
            let own = own.collect::<ordercal_io::Result<_>>().map_err(file)?;
            let part = GroupPart::new(rows, sums, totals, kept, own);
            found.insert(key, part.map_err(refuse)?);
        }
        self.tree.add_level(found).map_err(refuse)?;
        let map = |map: &Option<GroupMap>| {
            let Some(GroupMap { own, weight }) = map else {
                return Ok(None);
            };
            let fitted = Fitted {
                model: own.clone(),
                report: self.pooled.report.clone(),
            };
            let saved = SavedModel::new(self.how.group_method.clone(), fitted);
            Ok(Some((*weight, Py::new(py, Model::new(saved, 0.0))?)))
        };
        let entries = self.tree.maps().iter().map(|(key, maps)| {
            let maps = maps.iter().map(map).collect::<PyResult<_>>()?;
            Ok((key.clone(), maps))
        });
        entries.collect()
    }

    /// The models.
    fn finish(&self) -> PyResult<Groups> {
        let fitted = self.tree.clone().finish().map_err(refuse)?;
        let saved = SavedGroups::new(self.by.clone(), &self.how, fitted, |_| self.pooled.clone());
        Ok(Groups { saved })
    }
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

    /// Whether the ranking of every row is kept.
    #[getter]
    fn order_preserving(&self) -> bool {
        self.saved.model.order_preserving()
    }

    /// What the fit did, as JSON.
    #[getter]
    fn report(&self) -> PyResult<String> {
        to_json(&self.saved.report)
    }
}

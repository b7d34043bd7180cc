//! A fitted model as a Python object.

use std::path::{Path, PathBuf};

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use ordercal::models::TensorValues;
use ordercal::{Real, ScoreKind, Scores};
use ordercal_io::{ClassType, SavedModel, write_atomically};
use ordercal_onnx::{InputType, onnx_bytes};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::{Matrix, kind};
use crate::errors::{file, refuse, to_json};
use crate::pool::detached;

/// "text", "integer", "float" or "boolean".
pub fn read_class_type(name: &str) -> PyResult<ClassType> {
    serde_json::from_value(name.into()).map_err(refuse)
}

/// Names of the classes, if they are not numbers of columns, and the type of the names.
#[derive(FromPyObject)]
pub struct ClassNames {
    #[pyo3(item(0))]
    pub names: Option<Vec<String>>,
    #[pyo3(item(1), from_py_with = extract_class_type)]
    pub class_type: ClassType,
}

fn extract_class_type(name: &Bound<'_, PyAny>) -> PyResult<ClassType> {
    let name: Option<String> = name.extract()?;
    name.map_or(Ok(ClassType::Text), |name| read_class_type(&name))
}

/// A fitted model.
#[pyclass(frozen, module = "ordercal._native")]
pub struct Model {
    saved: SavedModel,
    /// What the library took for the fit, if it was now.
    seconds: Option<f64>,
}

impl Model {
    /// A model fresh from its fit.
    pub fn new(saved: SavedModel, seconds: f64) -> Self {
        Self {
            saved,
            seconds: Some(seconds),
        }
    }

    /// The model with what its file says.
    pub fn saved(&self) -> &SavedModel {
        &self.saved
    }

    fn read(saved: SavedModel) -> Self {
        Self {
            saved,
            seconds: None,
        }
    }

    fn apply_as<'py, T: Real + numpy::Element>(
        &self,
        py: Python<'py>,
        scores: &Matrix<'_>,
        from: ScoreKind,
        to: ScoreKind,
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = scores.view();
        let model = &self.saved.model;
        // By numpy, which asks the system for large pages: with those of 4 KB, the first touch of each would take longer
        // than what is written to it.
        let output = PyArray2::<T>::zeros(py, (scores.dim().0, model.classes()), false);
        let mut target = output.readwrite();
        let target = target.as_array_mut();
        let work = || model.apply_into(&Scores::new(from, view)?, to, target);
        detached(py, work)?.map_err(refuse)?;
        Ok(output.into_any())
    }
}

#[pymethods]
impl Model {
    /// Calibrates rows; 64-bit results if `wide`.
    fn apply<'py>(
        &self,
        py: Python<'py>,
        scores: Matrix<'_>,
        source: &str,
        target: &str,
        wide: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (from, to) = (kind(source)?, kind(target)?);
        if wide {
            self.apply_as::<f64>(py, &scores, from, to)
        } else {
            self.apply_as::<f32>(py, &scores, from, to)
        }
    }

    /// Writes the model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.saved.save(&path))?.map_err(file)
    }

    /// Reads a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let saved = detached(py, || SavedModel::load(&path))?.map_err(file)?;
        Ok(Self::read(saved))
    }

    /// The bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.saved.to_bytes().map_err(refuse)?))
    }

    /// Reads the bytes of a model file.
    #[staticmethod]
    pub fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let saved = SavedModel::from_bytes(bytes, Path::new("<bytes>")).map_err(file)?;
        Ok(Self::read(saved))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, (Bound<'py, PyBytes>,))> {
        let read = py.get_type::<Self>().getattr("from_bytes")?.unbind();
        Ok((read, (self.to_bytes(py)?,)))
    }

    /// Returns the bytes of an ONNX file, and writes them to a path if there is one.
    fn onnx<'py>(
        &self,
        py: Python<'py>,
        path: Option<PathBuf>,
        kind_name: &str,
        input_type: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let kind = kind(kind_name)?;
        let input_type: InputType = input_type.parse().map_err(refuse)?;
        let bytes = detached(py, || {
            let bytes = onnx_bytes(&self.saved.model, kind, input_type).map_err(refuse)?;
            if let Some(path) = path {
                write_atomically(&path, &bytes).map_err(file)?;
            }
            PyResult::Ok(bytes)
        })??;
        Ok(PyBytes::new(py, &bytes))
    }

    /// How long the library's part of the fit took, without the way there and back; `None` once read from a file.
    #[getter]
    fn fit_seconds(&self) -> Option<f64> {
        self.seconds
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

    /// The names of the classes, if they are known.
    #[getter]
    fn class_names(&self) -> Option<Vec<String>> {
        self.saved.class_names.clone()
    }

    /// What the names of the classes are: "text", "integer", "float" or "boolean".
    #[getter]
    fn class_type(&self) -> PyResult<String> {
        Ok(to_json(&self.saved.class_type)?
            .trim_matches('"')
            .to_owned())
    }

    /// What the scores were that it was fitted to; `None` in files that do not say.
    #[getter]
    fn kind(&self) -> Option<&'static str> {
        self.saved.kind.map(ScoreKind::key)
    }

    /// The method with its hyperparameters, as JSON.
    #[getter]
    fn method(&self) -> PyResult<String> {
        to_json(&self.saved.method)
    }

    /// What the fit did, as JSON.
    #[getter]
    fn report(&self) -> PyResult<String> {
        to_json(&self.saved.report)
    }

    /// The settings of the model that are not arrays, as JSON.
    #[getter]
    fn settings(&self) -> PyResult<String> {
        let parts = self.saved.model.to_parts().map_err(refuse)?;
        Ok(parts.settings.to_string())
    }

    /// The arrays of the model by name.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (name, values) in self.saved.model.to_parts().map_err(refuse)?.tensors {
            match values {
                TensorValues::F32(values) => found.set_item(name, values.into_pyarray(py))?,
                TensorValues::F64(values) => found.set_item(name, values.into_pyarray(py))?,
                TensorValues::U32(values) => found.set_item(name, values.into_pyarray(py))?,
                _ => {}
            }
        }
        Ok(found)
    }

    /// The function that every score goes through, for models that have one: ts and diag.
    fn function<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let function = |&x| self.saved.model.function(x);
        let values: Option<Vec<f64>> = points.as_array().iter().map(function).collect();
        let values = values.ok_or_else(|| {
            refuse(format!(
                "a model of `{}` has no single function for all scores; those of ts and diag have",
                self.saved.method.key()
            ))
        })?;
        Ok(values.into_pyarray(py))
    }
}

//! Numpy arrays as scores, labels and weights, without copying what need not be copied.

use half::f16;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use ordercal::metrics::Predictions;
use ordercal::ndarray::ArrayView2;
use ordercal::{Dataset, ScoreArray, ScoreKind, Scores};
use pyo3::prelude::*;

use crate::errors::{refuse, wrong_type};
use crate::pool::detached;

/// A matrix of any float type that networks emit.
pub enum Matrix<'py> {
    /// 32-bit floats.
    F32(PyReadonlyArray2<'py, f32>),
    /// 64-bit floats.
    F64(PyReadonlyArray2<'py, f64>),
    /// Half-precision floats.
    F16(PyReadonlyArray2<'py, f16>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Matrix<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(values) = object.extract() {
            return Ok(Self::F32(values));
        }
        if let Ok(values) = object.extract() {
            return Ok(Self::F64(values));
        }
        if let Ok(values) = object.extract() {
            return Ok(Self::F16(values));
        }
        let found = object.get_type().name()?.to_string();
        Err(wrong_type(format!(
            "scores must be a matrix of floats, not `{found}` of another shape or type"
        )))
    }
}

impl Matrix<'_> {
    /// Rows and classes.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Self::F32(values) => values.as_array().dim(),
            Self::F64(values) => values.as_array().dim(),
            Self::F16(values) => values.as_array().dim(),
        }
    }

    /// The numbers, to be read without the interpreter.
    pub fn view(&self) -> ScoreArray<'_> {
        match self {
            Self::F32(values) => values.as_array().into(),
            Self::F64(values) => values.as_array().into(),
            Self::F16(values) => values.as_array().into(),
        }
    }
}

/// Labels: a class per row, or a distribution over the classes.
#[derive(FromPyObject)]
pub enum Labels<'py> {
    /// Column numbers.
    Classes(PyReadonlyArray1<'py, i64>),
    /// N×K.
    Soft(PyReadonlyArray2<'py, f64>),
}

/// Labelled rows: Python's `_inputs.Rows`.
#[derive(FromPyObject)]
pub struct Rows<'py> {
    scores: Matrix<'py>,
    // As text: an error while a field is extracted would become a `TypeError`.
    kind: String,
    labels: Labels<'py>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Option<PyReadonlyArray1<'py, u32>>,
}

impl Rows<'_> {
    /// Kind of the scores.
    pub fn kind(&self) -> PyResult<ScoreKind> {
        kind(&self.kind)
    }

    /// Number of columns.
    pub fn classes(&self) -> usize {
        self.scores.dim().1
    }

    /// Whether labels are distributions.
    pub fn is_soft(&self) -> bool {
        matches!(self.labels, Labels::Soft(_))
    }

    /// Whether some rows belong together.
    pub fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Copies all but the scores, so that the rows can be read without the interpreter.
    pub fn data(&self) -> PyResult<RowData<'_>> {
        let (labels, soft) = match &self.labels {
            Labels::Classes(labels) => (labels.as_array().to_vec(), None),
            Labels::Soft(soft) => (Vec::new(), Some(soft.as_array())),
        };
        Ok(RowData {
            kind: self.kind()?,
            scores: self.scores.view(),
            labels,
            soft,
            weights: self.weights.as_ref().map(|w| w.as_array().to_vec()),
            groups: self.groups.as_ref().map(|g| g.as_array().to_vec()),
        })
    }

    /// Computes something without the interpreter.
    pub fn compute<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Dataset<'_>) -> ordercal::Result<T> + Send,
    ) -> PyResult<T> {
        let data = self.data()?;
        detached(py, || work(&data.dataset()?))?.map_err(refuse)
    }
}

/// Labelled rows, to be read without the interpreter.
pub struct RowData<'a> {
    kind: ScoreKind,
    scores: ScoreArray<'a>,
    labels: Vec<i64>,
    soft: Option<ArrayView2<'a, f64>>,
    weights: Option<Vec<f64>>,
    groups: Option<Vec<u32>>,
}

impl<'a> RowData<'a> {
    /// Joins labels of classes with probabilities, all checked.
    pub fn probabilities(self) -> ordercal::Result<Predictions<'a>> {
        let predictions = Predictions::from_read_probs(self.scores, &self.labels)?;
        match self.weights {
            None => Ok(predictions),
            Some(weights) => predictions.with_weights(weights),
        }
    }

    /// Joins labels with scores, all checked.
    pub fn dataset(self) -> ordercal::Result<Dataset<'a>> {
        let scores = Scores::new(self.kind, self.scores)?.with_zeros_as_probabilities();
        let mut data = match self.soft {
            Some(soft) => Dataset::soft(scores, soft)?,
            None => Dataset::new(scores, &self.labels)?,
        };
        if let Some(weights) = self.weights {
            data = data.with_weights(weights)?;
        }
        match self.groups {
            None => Ok(data),
            Some(groups) => data.with_groups(groups),
        }
    }
}

/// `logits`, `log-probs` or `probs`.
pub fn kind(name: &str) -> PyResult<ScoreKind> {
    name.parse().map_err(refuse)
}

/// For each known class the column with its name; `None` if they stand in the same order.
#[pyfunction]
pub fn match_class_names(columns: Vec<String>, known: Vec<String>) -> PyResult<Option<Vec<usize>>> {
    ordercal::match_class_names(&columns, &known, "the fit").map_err(refuse)
}

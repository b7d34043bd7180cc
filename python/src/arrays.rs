//! Numpy arrays as scores, labels and weights, without copying what need not be copied.

use half::f16;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use ordercal::metrics::Predictions;
use ordercal::ndarray::Array2;
use ordercal::{Dataset, ScoreArray, ScoreKind, Scores};
use pyo3::prelude::*;

use crate::errors::{refuse, wrong_type};

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
    /// N.
    pub fn rows(&self) -> usize {
        match self {
            Self::F32(values) => values.as_array().nrows(),
            Self::F64(values) => values.as_array().nrows(),
            Self::F16(values) => values.as_array().nrows(),
        }
    }

    /// K.
    pub fn classes(&self) -> usize {
        match self {
            Self::F32(values) => values.as_array().ncols(),
            Self::F64(values) => values.as_array().ncols(),
            Self::F16(values) => values.as_array().ncols(),
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
pub enum Labels<'py> {
    /// Column numbers.
    Classes(PyReadonlyArray1<'py, i64>),
    /// N×K.
    Shares(PyReadonlyArray2<'py, f64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Labels<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(classes) => Ok(Self::Classes(classes)),
            Err(_) => Ok(Self::Shares(object.extract()?)),
        }
    }
}

/// Labels, weights and groups of rows.
pub struct Rows {
    labels: Vec<i64>,
    shares: Option<Array2<f64>>,
    weights: Option<Vec<f64>>,
    groups: Option<Vec<u32>>,
}

impl Rows {
    /// Copies what is small beside the scores.
    pub fn new(
        labels: &PyReadonlyArray1<'_, i64>,
        weights: Option<&PyReadonlyArray1<'_, f64>>,
    ) -> Self {
        Self {
            labels: labels.as_array().to_vec(),
            shares: None,
            weights: weights.map(|w| w.as_array().to_vec()),
            groups: None,
        }
    }

    /// The same where labels may be soft.
    pub fn with_soft_labels(
        labels: &Labels<'_>,
        weights: Option<&PyReadonlyArray1<'_, f64>>,
    ) -> Self {
        match labels {
            Labels::Classes(labels) => Self::new(labels, weights),
            Labels::Shares(shares) => Self {
                labels: Vec::new(),
                shares: Some(shares.as_array().to_owned()),
                weights: weights.map(|w| w.as_array().to_vec()),
                groups: None,
            },
        }
    }

    /// Says which rows belong together.
    pub fn with_groups(self, groups: Option<Vec<u32>>) -> Self {
        Self { groups, ..self }
    }

    /// Joins labels of classes with probabilities, all checked.
    pub fn probabilities(self, probs: ScoreArray<'_>) -> ordercal::Result<Predictions<'_>> {
        let predictions = Predictions::from_read_probs(probs, &self.labels)?;
        match self.weights {
            None => Ok(predictions),
            Some(weights) => predictions.with_weights(weights),
        }
    }

    /// Joins them with scores, all checked.
    pub fn dataset<'a>(
        self,
        kind: ScoreKind,
        scores: ScoreArray<'a>,
    ) -> ordercal::Result<Dataset<'a>> {
        let scores = Scores::new(kind, scores)?.with_zeros_as_probabilities();
        let data = match self.shares {
            Some(shares) => Dataset::soft(scores, shares.view())?,
            None => Dataset::new(scores, &self.labels)?,
        };
        let data = match self.weights {
            None => data,
            Some(weights) => data.with_weights(weights)?,
        };
        match self.groups {
            None => Ok(data),
            Some(groups) => data.with_groups(groups),
        }
    }
}

/// `logits`, `log-probs` or `probs`.
pub fn kind(name: &str) -> PyResult<ScoreKind> {
    match name {
        "logits" => Ok(ScoreKind::Logits),
        "log-probs" => Ok(ScoreKind::LogProbs),
        "probs" => Ok(ScoreKind::Probs),
        other => Err(refuse(format!(
            "there is no kind `{other}`; scores are `logits`, `log-probs` or `probs`"
        ))),
    }
}

/// For each known class the column with its name; `None` if they stand in the same order.
#[pyfunction]
pub fn match_class_names(columns: Vec<String>, known: Vec<String>) -> PyResult<Option<Vec<usize>>> {
    ordercal::match_class_names(&columns, &known, "the fit").map_err(refuse)
}

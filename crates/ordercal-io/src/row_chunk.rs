//! Rows that were read: scores in the type of the file, with labels and weights if there are any.

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use ndarray::Array2;
use ordercal::{Dataset, ScoreArray, ScoreKind, Scores};

use crate::array::{AnyArray, Values};
use crate::error::{Error, Result};
use crate::ids::IdValues;
use crate::labels::IGNORED;
#[cfg(feature = "arrow")]
use crate::list_column::ListColumn;

/// A matrix of scores in the type of the file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ScoreMatrix {
    /// IEEE half-precision floats.
    F16(Array2<f16>),
    /// Brain floats.
    Bf16(Array2<bf16>),
    /// 32-bit floats.
    F32(Array2<f32>),
    /// 64-bit floats, and numbers that were stored as text.
    F64(Array2<f64>),
    /// A column of lists, as it lies in memory.
    #[cfg(feature = "arrow")]
    Column(ListColumn),
}

impl ScoreMatrix {
    /// N and K.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Self::F16(m) => m.dim(),
            Self::Bf16(m) => m.dim(),
            Self::F32(m) => m.dim(),
            Self::F64(m) => m.dim(),
            #[cfg(feature = "arrow")]
            Self::Column(m) => m.dim(),
        }
    }

    /// The name of the type, as numpy calls it.
    pub fn dtype(&self) -> &'static str {
        match self {
            Self::F16(_) => "float16",
            Self::Bf16(_) => "bfloat16",
            Self::F32(_) => "float32",
            Self::F64(_) => "float64",
            #[cfg(feature = "arrow")]
            Self::Column(m) => m.dtype(),
        }
    }

    /// The matrix as the library takes it, without a copy.
    pub fn view(&self) -> ScoreArray<'_> {
        match self {
            Self::F16(m) => m.view().into(),
            Self::Bf16(m) => m.view().into(),
            Self::F32(m) => m.view().into(),
            Self::F64(m) => m.view().into(),
            #[cfg(feature = "arrow")]
            Self::Column(m) => m.view(),
        }
    }

    /// A matrix from an array that was checked to be N×K floats.
    pub(crate) fn from_array(array: AnyArray) -> Self {
        let dim = (array.shape[0], array.shape[1]);
        let fits = "the shape was checked against the values";
        match array.values {
            Values::F16(v) => Self::F16(Array2::from_shape_vec(dim, v).expect(fits)),
            Values::Bf16(v) => Self::Bf16(Array2::from_shape_vec(dim, v).expect(fits)),
            Values::F32(v) => Self::F32(Array2::from_shape_vec(dim, v).expect(fits)),
            Values::F64(v) => Self::F64(Array2::from_shape_vec(dim, v).expect(fits)),
            Values::Int(v) => {
                let v = v.into_iter().map(|v| v as f64).collect();
                Self::F64(Array2::from_shape_vec(dim, v).expect(fits))
            }
            Values::Text(_) => unreachable!("scores were checked to be numbers"),
        }
    }

    /// Some of the rows.
    fn keep(&self, rows: &[usize]) -> Self {
        let axis = ndarray::Axis(0);
        match self {
            Self::F16(m) => Self::F16(m.select(axis, rows)),
            Self::Bf16(m) => Self::Bf16(m.select(axis, rows)),
            Self::F32(m) => Self::F32(m.select(axis, rows)),
            Self::F64(m) => Self::F64(m.select(axis, rows)),
            #[cfg(feature = "arrow")]
            Self::Column(m) => m.select(rows),
        }
    }
}

/// Some consecutive rows of a file: all of them after [`load`](crate::load), a chunk from a
/// [`RowReader`](crate::RowReader).
#[derive(Debug, Clone)]
pub struct RowChunk {
    pub(crate) path: PathBuf,
    /// The file with the labels.
    pub(crate) labels_path: PathBuf,
    pub(crate) split: Option<String>,
    /// What the scores are.
    pub kind: ScoreKind,
    /// Where these rows start in the file, counted from 0.
    pub first_row: usize,
    /// The scores, N×K, unchecked.
    pub scores: ScoreMatrix,
    /// The labels, unchecked: one per row if there are any and they are classes.
    pub labels: Option<Vec<i64>>,
    /// The labels, unchecked, if they are distributions over the classes: N×K.
    pub shares: Option<Array2<f64>>,
    /// The weights, unchecked: one per row if there are any.
    pub weights: Option<Vec<f64>>,
    /// What is equal for rows that belong together, if that was said.
    pub groups: Option<IdValues>,
    /// The columns that are handed through.
    pub ids: Vec<IdValues>,
    /// Where each row was before rows were left out, counted from `first_row`; `None` if none were.
    pub(crate) kept: Option<Vec<usize>>,
}

impl RowChunk {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many rows these are.
    pub fn len(&self) -> usize {
        self.scores.dim().0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.scores.dim().1
    }

    /// The same without the rows whose label is to be ignored.
    pub(crate) fn without_ignored(self) -> Self {
        let Some(labels) = &self.labels else {
            return self;
        };
        let kept: Vec<usize> = (0..labels.len())
            .filter(|&r| labels[r] != IGNORED)
            .collect();
        if kept.len() == labels.len() {
            return self;
        }
        Self {
            scores: self.scores.keep(&kept),
            labels: Some(kept.iter().map(|&row| labels[row]).collect()),
            weights: (self.weights.as_ref()).map(|all| kept.iter().map(|&row| all[row]).collect()),
            groups: self.groups.as_ref().map(|groups| groups.keep(&kept)),
            ids: self.ids.iter().map(|ids| ids.keep(&kept)).collect(),
            kept: Some(kept),
            ..self
        }
    }

    /// The scores, checked.
    ///
    /// # Errors
    /// [`Error::Data`] with the row counted from the start of the file.
    pub fn checked_scores(&self) -> Result<Scores<'_>> {
        Scores::new(self.kind, self.scores.view()).map_err(|e| self.locate(e))
    }

    /// Scores, labels and weights, checked.
    ///
    /// # Errors
    /// [`Error::Data`] with the row counted from the start of the file; [`Error::NoLabels`].
    pub fn dataset(&self) -> Result<Dataset<'_>> {
        let scores = self
            .checked_scores()
            .map(Scores::with_zeros_as_probabilities);
        let data = match (&self.labels, &self.shares) {
            (Some(labels), _) => Dataset::new(scores?, labels),
            (None, Some(shares)) => Dataset::soft(scores?, shares.view()),
            (None, None) => {
                let expected = "labels beside the scores";
                return Err(Error::no_labels(&self.path, expected, "scores only".into()));
            }
        };
        let data = data.and_then(|data| match &self.weights {
            Some(weights) => data.with_weights(weights.clone()),
            None => Ok(data),
        });
        let data = data.and_then(|data| match &self.groups {
            Some(groups) => data.with_groups(groups.numbers()),
            None => Ok(data),
        });
        data.map_err(|e| self.locate(e))
    }

    /// Turns an error about these rows into one about the file: with its name, and with rows counted from its
    /// start instead of from the start of this chunk.
    pub fn locate(&self, error: ordercal::Error) -> Error {
        use ordercal::Error as E;
        let path = match &error {
            E::LabelOutOfRange { .. }
            | E::LabelMasked { .. }
            | E::InvalidTarget { .. }
            | E::TargetNotNormalised { .. } => &self.labels_path,
            _ => &self.path,
        };
        Error::Data {
            path: path.clone(),
            split: self.split.clone(),
            source: error.map_row(|row| {
                let kept = self.kept.as_ref().and_then(|kept| kept.get(row));
                self.first_row + kept.copied().unwrap_or(row)
            }),
        }
    }
}

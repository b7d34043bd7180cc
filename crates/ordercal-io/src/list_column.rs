//! Scores in a column of lists, which is not copied.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float16Array, Float32Array, Float64Array};
use arrow_schema::DataType;
use ndarray::{ArrayView2, Axis};
use ordercal::ScoreArray;

use crate::row_chunk::ScoreMatrix;

/// Scores in a column of lists of the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct ListColumn {
    values: ListValues,
    width: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum ListValues {
    F16(Float16Array),
    F32(Float32Array),
    F64(Float64Array),
}

impl ListColumn {
    /// The floats of all lists; `None` for other types.
    pub(crate) fn new(values: &ArrayRef, width: usize) -> Option<Self> {
        let values = match values.data_type() {
            DataType::Float16 => ListValues::F16(values.as_primitive::<Float16Type>().clone()),
            DataType::Float32 => ListValues::F32(values.as_primitive::<Float32Type>().clone()),
            DataType::Float64 => ListValues::F64(values.as_primitive::<Float64Type>().clone()),
            _ => return None,
        };
        Some(Self { values, width })
    }

    pub(crate) fn dim(&self) -> (usize, usize) {
        let count = match &self.values {
            ListValues::F16(values) => values.len(),
            ListValues::F32(values) => values.len(),
            ListValues::F64(values) => values.len(),
        };
        (count / self.width, self.width)
    }

    pub(crate) fn dtype(&self) -> &'static str {
        match &self.values {
            ListValues::F16(_) => "float16",
            ListValues::F32(_) => "float32",
            ListValues::F64(_) => "float64",
        }
    }

    pub(crate) fn view(&self) -> ScoreArray<'_> {
        match &self.values {
            ListValues::F16(values) => self.matrix(values.values()).into(),
            ListValues::F32(values) => self.matrix(values.values()).into(),
            ListValues::F64(values) => self.matrix(values.values()).into(),
        }
    }

    /// A copy of some of the rows.
    pub(crate) fn select(&self, rows: &[usize]) -> ScoreMatrix {
        let axis = Axis(0);
        match &self.values {
            ListValues::F16(v) => ScoreMatrix::F16(self.matrix(v.values()).select(axis, rows)),
            ListValues::F32(v) => ScoreMatrix::F32(self.matrix(v.values()).select(axis, rows)),
            ListValues::F64(v) => ScoreMatrix::F64(self.matrix(v.values()).select(axis, rows)),
        }
    }

    fn matrix<'a, T>(&self, values: &'a [T]) -> ArrayView2<'a, T> {
        ArrayView2::from_shape(self.dim(), values).expect("lists of one length")
    }
}

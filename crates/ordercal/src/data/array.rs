//! Score matrices in the float types that networks emit.

use half::{bf16, f16};
use ndarray::{Array2, ArrayView2, s};

/// A matrix of scores in any of the float types that networks emit. [`Scores::new`](super::Scores::new) takes anything that
/// converts into it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ScoreArray<'a> {
    /// 32-bit floats.
    F32(ArrayView2<'a, f32>),
    /// 32-bit floats, owned.
    Owned(Array2<f32>),
    /// 64-bit floats.
    F64(ArrayView2<'a, f64>),
    /// IEEE half-precision floats.
    F16(ArrayView2<'a, f16>),
    /// bfloat16 floats.
    Bf16(ArrayView2<'a, bf16>),
}

impl ScoreArray<'_> {
    pub(crate) fn dim(&self) -> (usize, usize) {
        match self {
            Self::F32(values) => values.dim(),
            Self::Owned(values) => values.dim(),
            Self::F64(values) => values.dim(),
            Self::F16(values) => values.dim(),
            Self::Bf16(values) => values.dim(),
        }
    }

    /// The rows from `start` to before `end`.
    pub(crate) fn rows(&self, start: usize, end: usize) -> ScoreArray<'_> {
        let rows = s![start..end, ..];
        match self {
            Self::F32(values) => values.slice(rows).into(),
            Self::Owned(values) => values.slice(rows).into(),
            Self::F64(values) => values.slice(rows).into(),
            Self::F16(values) => values.slice(rows).into(),
            Self::Bf16(values) => values.slice(rows).into(),
        }
    }
}

impl From<Array2<f32>> for ScoreArray<'_> {
    fn from(values: Array2<f32>) -> Self {
        Self::Owned(values)
    }
}

macro_rules! from_views {
    ($($float:ty => $variant:ident),*) => {$(
        impl<'a> From<ArrayView2<'a, $float>> for ScoreArray<'a> {
            fn from(values: ArrayView2<'a, $float>) -> Self {
                Self::$variant(values)
            }
        }
    )*};
}

from_views!(f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16);

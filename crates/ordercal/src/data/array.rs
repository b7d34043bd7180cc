//! Score matrices in the float types that networks emit.

use half::{bf16, f16};
use ndarray::{Array2, ArrayView2, s};

use super::ScoreKind;
use super::scores::NORMALISATION_TOLERANCE;

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

    /// How far the sum of a row of probabilities may be from 1: [`NORMALISATION_TOLERANCE`], and what rounding to 16 bits
    /// can do to a row that summed to 1.
    ///
    /// Rounding changes p by at most u·p, or half the spacing of subnormal numbers if that is more, and ln p by at most
    /// u·|ln p|, which changes the sum by at most u times the entropy.
    pub(crate) fn tolerance(&self, kind: ScoreKind) -> f64 {
        let (unit, subnormal) = match self {
            Self::F32(_) | Self::Owned(_) | Self::F64(_) => (0.0, 0.0),
            Self::F16(_) => (0.5_f64.powi(11), 0.5_f64.powi(25)),
            Self::Bf16(_) => (0.5_f64.powi(8), 0.0),
        };
        let classes = self.dim().1 as f64;
        let rounding = match kind {
            ScoreKind::LogProbs => (unit * (1.0 + classes.ln())).exp_m1(),
            _ => unit + classes * subnormal,
        };
        NORMALISATION_TOLERANCE + rounding
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

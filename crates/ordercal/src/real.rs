//! The float types of a model's output.

use std::fmt;

use ndarray::Array2;

use crate::math::simd::vectorized;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`: the types of a model's output. It cannot be implemented outside this crate.
pub trait Real:
    sealed::Sealed + Copy + PartialOrd + Default + Send + Sync + fmt::Debug + fmt::Display + 'static
{
    /// The smallest positive normal number.
    const MIN_POSITIVE: f64;
    /// Half of the largest finite number: logits are clamped to ± this.
    const LIMIT: f64;

    /// Rounds to the nearest value; −0 becomes +0.
    fn from_f64(value: f64) -> Self;
    /// Converts without loss.
    fn to_f64(self) -> f64;
    /// The number of representable values between 0 and this one, negative below 0.
    fn key(self) -> i64;
    /// The value with the given [`key`](Real::key).
    fn from_key(key: i64) -> Self;
    /// Rounds all values to the nearest, clamped to `bounds` if there are any; `-inf` stays.
    #[doc(hidden)]
    fn round_all(values: &[f64], bounds: Option<(f64, f64)>, output: &mut [Self]);
    /// The slice itself if `Self` is `f32`.
    #[doc(hidden)]
    fn as_f32(values: &[Self]) -> Option<&[f32]>;
    /// The slice itself if `Self` is `f32`, to write to.
    #[doc(hidden)]
    fn as_f32_mut(values: &mut [Self]) -> Option<&mut [f32]>;
}

/// A matrix of zeros for results. Its memory comes from the system as it is, without being written to: each thread then
/// touches its own part of it for the first time, which takes longer than a softmax.
pub(crate) fn zeros<T: Real>(shape: (usize, usize)) -> Array2<T> {
    Array2::from_elem(shape, T::default())
}

#[inline(always)]
fn clamp_finite(value: f64, (lowest, highest): (f64, f64)) -> f64 {
    if value == f64::NEG_INFINITY {
        value
    } else {
        value.clamp(lowest, highest)
    }
}

macro_rules! impl_real {
    ($float:ty, $bits:ty, $as_f32:expr, $as_f32_mut:expr) => {
        impl Real for $float {
            const MIN_POSITIVE: f64 = <$float>::MIN_POSITIVE as f64;
            const LIMIT: f64 = (<$float>::MAX / 2.0) as f64;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $float + 0.0
            }

            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            fn key(self) -> i64 {
                let magnitude = (self.to_bits() & (<$bits>::MAX >> 1)) as i64;
                if self.is_sign_negative() {
                    -magnitude
                } else {
                    magnitude
                }
            }

            fn from_key(key: i64) -> Self {
                let value = <$float>::from_bits(key.unsigned_abs() as $bits);
                if key < 0 { -value } else { value }
            }

            fn round_all(values: &[f64], bounds: Option<(f64, f64)>, output: &mut [Self]) {
                vectorized! {
                    fn round(values: &[f64], bounds: Option<(f64, f64)>, output: &mut [$float]) {
                        if let Some(bounds) = bounds {
                            for (output, &value) in output.iter_mut().zip(values) {
                                *output = <$float>::from_f64(clamp_finite(value, bounds));
                            }
                        } else {
                            for (output, &value) in output.iter_mut().zip(values) {
                                *output = <$float>::from_f64(value);
                            }
                        }
                    }
                }
                round(values, bounds, output);
            }

            fn as_f32(values: &[Self]) -> Option<&[f32]> {
                $as_f32(values)
            }

            fn as_f32_mut(values: &mut [Self]) -> Option<&mut [f32]> {
                $as_f32_mut(values)
            }
        }
    };
}

impl_real!(f32, u32, Some, Some);
impl_real!(f64, u64, |_| None, |_| None);

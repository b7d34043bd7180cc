//! The inner loops, for benchmarks and tests. Hidden, and not part of the public interface.

use crate::data::Dataset;
use crate::math::gemm::{self, Matrix};
use crate::math::simd::Level;
use crate::math::softmax;
use crate::methods::likelihood::Likelihood;
use crate::methods::network::diag::evaluation;
use crate::nn::head::{RowScratch, sorted_row};

/// The instruction set in use: `portable`, `avx2` or `avx512`.
pub fn simd_level() -> &'static str {
    Level::current().key()
}

/// `target` = `left` · `right` on one thread, for matrices of (rows × inner) and (inner × columns).
pub fn multiply(
    target: &mut [f32],
    left: &[f32],
    right: &[f32],
    (rows, inner, columns): (usize, usize, usize),
) {
    let left = Matrix::new(left, rows, inner);
    gemm::multiply(target, left, Matrix::new(right, inner, columns));
}

/// The softmax of a row, in place.
pub fn softmax(row: &mut [f64]) {
    softmax::probabilities(row);
}

/// A closure that evaluates the NLL of `ts` with its derivatives.
pub fn temperature_pass<'a>(data: &'a Dataset<'a>) -> impl FnMut() -> f64 + 'a {
    let likelihood = Likelihood::new(data);
    move || likelihood.at(0.5).value
}

/// A closure that evaluates loss and gradient of `diag`.
pub fn diag_pass<'a>(data: &'a Dataset<'a>) -> impl FnMut() -> f64 + 'a {
    evaluation(data)
}

/// The order-preserving head: returns a row's loss; `z` is overwritten by its gradient.
pub fn sorted_head(z: &mut [f32], sorted: &[f32], label_rank: usize) -> f64 {
    let mut scratch = RowScratch::new(z.len());
    sorted_row(z, sorted, 1.0, label_rank, 1.0, &mut scratch)
}

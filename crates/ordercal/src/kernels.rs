//! The inner loops, open to benchmarks. Hidden, and no part of what versions promise.

use crate::data::Dataset;
use crate::math::exp::{exp_f32, exp_f64};
use crate::math::gemm::{self, Matrix};
use crate::math::simd::vectorized;
use crate::math::softmax;
use crate::methods::likelihood::Likelihood;
use crate::methods::network::diag::evaluation;
use crate::nn::head::{RowScratch, sorted_row};

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

vectorized! {
    /// The sum of many numbers: what it takes to read them.
    pub fn sum(values: &[f32]) -> f32 {
        const LANES: usize = 64;
        let mut sums = [0.0_f32; LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (sum, &value) in sums.iter_mut().zip(chunk) {
                *sum += value;
            }
        }
        let rest: f32 = chunks.remainder().iter().sum();
        let mut total = rest;
        for sum in sums {
            total += sum;
        }
        total
    }
}

vectorized! {
    /// eˣ of many numbers, in 32 bits.
    pub fn exponentials_f32(values: &mut [f32]) {
        for value in values {
            *value = exp_f32(*value);
        }
    }
}

vectorized! {
    /// eˣ of many numbers, in 64 bits.
    pub fn exponentials_f64(values: &mut [f64]) {
        for value in values {
            *value = exp_f64(*value);
        }
    }
}

/// The softmax of a row, in place.
pub fn softmax(row: &mut [f64]) {
    softmax::probabilities(row);
}

/// The NLL of all rows with its derivatives, ready to be evaluated again and again.
pub fn temperature_pass<'a>(data: &'a Dataset<'a>) -> impl FnMut() -> f64 + 'a {
    let likelihood = Likelihood::new(data);
    move || likelihood.at(0.5).value
}

/// Loss and gradient of `diag`, ready to be evaluated again and again.
pub fn diag_pass<'a>(data: &'a Dataset<'a>) -> impl FnMut() -> f64 + 'a {
    evaluation(data)
}

/// The order-preserving head: a row's loss, with the gradient in `z`.
pub fn sorted_head(z: &mut [f32], sorted: &[f32], label_rank: usize) -> f64 {
    let mut scratch = RowScratch::new(z.len());
    sorted_row(z, sorted, 1.0, label_rank, 1.0, &mut scratch)
}

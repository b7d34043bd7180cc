//! The penalised likelihood of a linear map: value and gradient in one pass over chunks of rows.

use std::ops::Range;

use rayon::prelude::*;

use super::kernels::{
    ObjectiveRows, add_ridge, matrix_chunk, matrix_moments, vector_chunk, vector_moments,
};
use super::preconditioner::{Preconditioner, moment_count};
use crate::data::Dataset;
use crate::math::gemm::{Matrix, multiply};
use crate::models::LinearShape;

/// The weights of the squared parameters in the penalty: biases, diagonal elements of D, and off-diagonal ones.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ridge {
    pub bias: f64,
    pub diagonal: f64,
    pub off_diagonal: f64,
}

/// The mean NLL of softmax(u + uD + b) plus penalties, as a function of D (K diagonal elements, or K×K in row-major order)
/// followed by b (K numbers). D = 0 and b = 0 is temperature scaling.
pub(super) struct LinearObjective<'a> {
    data: &'a Dataset<'a>,
    features: Vec<f32>,
    shape: LinearShape,
    masked: bool,
    /// The gradient with respect to the logits of all rows, N×K; empty if D is diagonal.
    residuals: Vec<f32>,
    ridge: Ridge,
    /// D and b in 32 bits.
    narrow: Vec<f32>,
    /// The mean NLL at the last evaluation, without penalties.
    pub nll: f64,
}

/// Rows per partial sum; fixed, so that sums do not depend on the number of threads.
const CHUNK_ROWS: usize = 256;
/// Rows of residuals per matrix product of the gradient.
const PRODUCT_ROWS: usize = 2048;
/// The smallest number of parameters whose penalty is computed by a thread of its own.
const MIN_PENALTY_PART: usize = 32 * 1024;

impl<'a> LinearObjective<'a> {
    pub(super) fn new(
        data: &'a Dataset<'a>,
        features: Vec<f32>,
        shape: LinearShape,
        ridge: Ridge,
    ) -> Self {
        let classes = data.classes();
        let residuals = match shape {
            LinearShape::Vector => Vec::new(),
            LinearShape::Matrix => vec![0.0; features.len()],
        };
        Self {
            data,
            features,
            shape,
            masked: data.scores().as_slice().contains(&f32::NEG_INFINITY),
            residuals,
            ridge,
            narrow: vec![0.0; weights(shape, classes) + classes],
            nll: 0.0,
        }
    }

    pub(super) fn params(&self) -> usize {
        self.narrow.len()
    }

    /// Returns the value at `params` and writes the gradient.
    pub(super) fn evaluate(&mut self, params: &[f64], gradient: &mut [f64]) -> f64 {
        self.narrow(params);
        let (slopes, biases) = gradient.split_at_mut(gradient.len() - self.data.classes());
        let sum = match self.shape {
            LinearShape::Vector => self.vector_pass(slopes, biases),
            LinearShape::Matrix => self.matrix_pass(slopes, biases),
        };
        self.nll = sum / self.data.total_weight();
        self.nll + self.penalise(params, gradient)
    }

    fn narrow(&mut self, params: &[f64]) {
        for (narrow, &param) in self.narrow.iter_mut().zip(params) {
            *narrow = param as f32;
        }
    }

    /// Divides the gradient by the total weight and adds that of the penalty, whose value is returned.
    fn penalise(&self, params: &[f64], gradient: &mut [f64]) -> f64 {
        let (classes, shape) = (self.data.classes(), self.shape);
        let factor = 1.0 / self.data.total_weight();
        let Ridge {
            bias,
            diagonal,
            off_diagonal,
        } = self.ridge;
        let rows = gradient
            .par_chunks_mut(classes)
            .zip(params.par_chunks(classes));
        let values: Vec<f64> = rows
            .enumerate()
            .with_min_len(MIN_PENALTY_PART.div_ceil(classes))
            .map(|(row, (gradient, params))| {
                let mut part = |ridge: f64, range: Range<usize>| {
                    add_ridge(ridge, factor, &params[range.clone()], &mut gradient[range])
                };
                match shape {
                    // The last row holds the biases.
                    LinearShape::Vector if row == 1 => part(bias, 0..classes),
                    LinearShape::Matrix if row == classes => part(bias, 0..classes),
                    LinearShape::Vector => part(diagonal, 0..classes),
                    LinearShape::Matrix => {
                        part(off_diagonal, 0..row)
                            + part(diagonal, row..row + 1)
                            + part(off_diagonal, row + 1..classes)
                    }
                }
            })
            .collect();
        values.iter().sum()
    }

    /// The preconditioner for the Hessian at `params`.
    pub(super) fn preconditioner(&mut self, params: &[f64]) -> Preconditioner {
        self.narrow(params);
        let total = self.data.total_weight();
        let mut moments = self.moments();
        for moment in &mut moments {
            *moment /= total;
        }
        Preconditioner::new(self.shape, self.data.classes(), &moments, self.ridge)
    }

    fn chunk(&self, index: usize) -> ObjectiveRows<'_> {
        let first = index * CHUNK_ROWS;
        let classes = self.data.classes();
        let rows = CHUNK_ROWS.min(self.data.rows() - first);
        let cells = first * classes..(first + rows) * classes;
        let (slopes, biases) = self.narrow.split_at(self.narrow.len() - classes);
        ObjectiveRows {
            features: &self.features[cells.clone()],
            scores: if self.masked {
                &self.data.scores().as_slice()[cells]
            } else {
                &[]
            },
            labels: &self.data.labels()[first..first + rows],
            weights: self.data.weights().map_or(&[], |w| &w[first..first + rows]),
            slopes,
            biases,
        }
    }

    fn chunks(&self) -> usize {
        self.data.rows().div_ceil(CHUNK_ROWS)
    }

    /// The summed NLL for a diagonal D, with the gradient written to `slopes` and `biases`.
    fn vector_pass(&self, slopes: &mut [f64], biases: &mut [f64]) -> f64 {
        let classes = self.data.classes();
        let parts: Vec<(f64, Vec<f64>)> = (0..self.chunks())
            .into_par_iter()
            .map_init(
                || vec![0.0; classes],
                |row, index| {
                    let mut gradient = vec![0.0; 2 * classes];
                    let chunk = self.chunk(index);
                    let nll = vector_chunk(&chunk, row, &mut gradient);
                    (nll, gradient)
                },
            )
            .collect();
        let mut nll = 0.0;
        slopes.fill(0.0);
        biases.fill(0.0);
        for (part, gradient) in parts {
            nll += part;
            let (slope_part, bias_part) = gradient.split_at(classes);
            add(slopes, slope_part);
            add(biases, bias_part);
        }
        nll
    }

    /// The summed NLL for a full D, with the gradient written to `slopes` and `biases`.
    fn matrix_pass(&mut self, slopes: &mut [f64], biases: &mut [f64]) -> f64 {
        let classes = self.data.classes();
        let mut residuals = std::mem::take(&mut self.residuals);
        let parts: Vec<(f64, Vec<f64>)> = residuals
            .par_chunks_mut(CHUNK_ROWS * classes)
            .enumerate()
            .map(|(index, residuals)| {
                let chunk = self.chunk(index);
                chunk.multiply(residuals);
                let mut bias_gradient = vec![0.0; classes];
                let nll = matrix_chunk(&chunk, residuals, &mut bias_gradient);
                (nll, bias_gradient)
            })
            .collect();
        let mut nll = 0.0;
        biases.fill(0.0);
        for (part, gradient) in parts {
            nll += part;
            add(biases, &gradient);
        }
        self.weight_gradient(&residuals, slopes);
        self.residuals = residuals;
        nll
    }

    /// The gradient Uᵀ R for features U and residuals R. Each thread computes some rows of the result, so the order of the
    /// sums does not depend on the number of threads.
    fn weight_gradient(&self, residuals: &[f32], gradient: &mut [f64]) {
        let classes = self.data.classes();
        // Few large blocks, because the matrix product packs the residuals once per block.
        let blocks = 2 * rayon::current_num_threads();
        let block = classes.div_ceil(blocks).clamp(4, 256);
        gradient
            .par_chunks_mut(block * classes)
            .enumerate()
            .for_each(|(index, gradient)| {
                let inputs = gradient.len() / classes;
                let mut part = vec![0.0; gradient.len()];
                gradient.fill(0.0);
                let chunk = PRODUCT_ROWS * classes;
                let chunks = self.features.chunks(chunk).zip(residuals.chunks(chunk));
                for (features, residuals) in chunks {
                    let rows = features.len() / classes;
                    let left = Matrix::new(features, rows, classes).columns(index * block, inputs);
                    let right = Matrix::new(residuals, rows, classes);
                    multiply(&mut part, left.transposed(), right);
                    for (sum, &part) in gradient.iter_mut().zip(&part) {
                        *sum += f64::from(part);
                    }
                }
            });
    }

    /// The sums of [`moment_count`] at D and b.
    fn moments(&self) -> Vec<f64> {
        let classes = self.data.classes();
        let count = moment_count(self.shape, classes);
        let rows = match self.shape {
            LinearShape::Vector => 1,
            LinearShape::Matrix => CHUNK_ROWS,
        };
        let chunks: Vec<Vec<f64>> = (0..self.chunks())
            .into_par_iter()
            .map_init(
                || vec![0.0; rows * classes],
                |logits, index| {
                    let chunk = self.chunk(index);
                    let mut moments = vec![0.0; count];
                    match self.shape {
                        LinearShape::Vector => vector_moments(&chunk, logits, &mut moments),
                        LinearShape::Matrix => {
                            let logits = &mut logits[..chunk.features.len()];
                            chunk.multiply(logits);
                            matrix_moments(&chunk, logits, &mut moments);
                        }
                    }
                    moments
                },
            )
            .collect();
        let mut moments = vec![0.0; count];
        for chunk in chunks {
            add(&mut moments, &chunk);
        }
        moments
    }
}

/// The number of elements of D.
pub(super) fn weights(shape: LinearShape, classes: usize) -> usize {
    match shape {
        LinearShape::Vector => classes,
        LinearShape::Matrix => classes * classes,
    }
}

fn add(sums: &mut [f64], values: &[f64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use crate::rng::Rng;
    use ndarray::Array2;

    /// A direct implementation of the objective in 64 bits.
    fn direct(
        features: &[f32],
        data: &Dataset<'_>,
        shape: LinearShape,
        ridge: Ridge,
        params: &[f64],
    ) -> f64 {
        let k = data.classes();
        let (d, b) = params.split_at(weights(shape, k));
        let mut value = 0.0;
        for row in 0..data.rows() {
            let u: Vec<f64> = features[row * k..][..k]
                .iter()
                .map(|&u| f64::from(u))
                .collect();
            let logit = |i: usize| {
                let change: f64 = match shape {
                    LinearShape::Vector => d[i] * u[i],
                    LinearShape::Matrix => (0..k).map(|j| d[j * k + i] * u[j]).sum(),
                };
                u[i] + change + b[i]
            };
            let label = data.labels()[row] as usize;
            let possible = (0..k).filter(|&i| data.scores().row(row)[i] > f32::NEG_INFINITY);
            let sum: f64 = possible.map(|i| (logit(i) - logit(label)).exp()).sum();
            value += data.weight(row) * sum.ln() / data.total_weight();
        }
        for (index, d) in d.iter().enumerate() {
            let on = shape == LinearShape::Vector || index % k == index / k;
            let weight = if on {
                ridge.diagonal
            } else {
                ridge.off_diagonal
            };
            value += weight * d * d;
        }
        value + b.iter().map(|b| ridge.bias * b * b).sum::<f64>()
    }

    /// A direct implementation of the moments in 64 bits.
    fn direct_moments(
        features: &[f32],
        data: &Dataset<'_>,
        shape: LinearShape,
        params: &[f64],
    ) -> Vec<f64> {
        let k = data.classes();
        let (d, b) = params.split_at(weights(shape, k));
        let mut moments = vec![0.0; 6 * k + 1];
        for row in 0..data.rows() {
            let u: Vec<f64> = features[row * k..][..k].iter().map(|&u| u.into()).collect();
            let e = |i: usize| {
                let change: f64 = match shape {
                    LinearShape::Vector => d[i] * u[i],
                    LinearShape::Matrix => (0..k).map(|j| d[j * k + i] * u[j]).sum(),
                };
                let possible = data.scores().row(row)[i] > f32::NEG_INFINITY;
                f64::from(u8::from(possible)) * (u[i] + change + b[i]).exp()
            };
            let sum: f64 = (0..k).map(e).sum();
            let t: f64 = u.iter().sum();
            for (i, &u) in u.iter().enumerate() {
                let p = e(i) / sum;
                let v = data.weight(row) * p * (1.0 - p);
                let terms = [v, v * u, v * u * u, v * t, v * t * u, v * t * t];
                for (moment, term) in terms.into_iter().enumerate() {
                    moments[moment * k + i] += term;
                }
                moments[6 * k] += data.weight(row) * (u - t / k as f64).powi(2);
            }
        }
        moments.truncate(moment_count(shape, k));
        moments
    }

    #[test]
    fn value_gradient_and_moments_agree_with_the_direct_implementation() {
        let mut rng = Rng::new(51);
        for (rows, classes) in [(40, 2), (300, 3), (70, 19)] {
            let mut logits = Array2::from_shape_fn((rows, classes), |_| rng.normal() as f32 * 2.0);
            let labels: Vec<u32> = (0..rows).map(|_| rng.below(classes) as u32).collect();
            if classes > 2 {
                for row in (0..rows).step_by(5) {
                    logits[[row, (labels[row] as usize + 1) % classes]] = f32::NEG_INFINITY;
                }
            }
            let scores = Scores::new(ScoreKind::Logits, logits.clone()).unwrap();
            let weights = (0..rows).map(|r| (r % 4) as f64).collect();
            let data = Dataset::new(scores, &labels).unwrap();
            let data = data.with_weights(weights).unwrap();
            let ridge = Ridge {
                bias: 0.1,
                diagonal: 0.2,
                off_diagonal: 0.3,
            };
            for shape in [LinearShape::Vector, LinearShape::Matrix] {
                let features: Vec<f32> = logits.iter().map(|v| v.max(-3.0)).collect();
                let mut objective = LinearObjective::new(&data, features.clone(), shape, ridge);
                let n = objective.params();
                let params: Vec<f64> = (0..n).map(|_| 0.3 * rng.normal()).collect();
                objective.narrow(&params);
                let moments = objective.moments();
                let exact = direct_moments(&features, &data, shape, &params);
                assert_eq!(moments.len(), exact.len());
                for (index, (moment, exact)) in moments.iter().zip(&exact).enumerate() {
                    let close = (moment - exact).abs() < 1e-4 * exact.abs().max(1.0);
                    assert!(close, "{shape:?} {classes} {index}: {moment} {exact}");
                }
                let mut gradient = vec![f64::NAN; n];
                let value = objective.evaluate(&params, &mut gradient);
                let at = |params: &[f64]| direct(&features, &data, shape, ridge, params);
                assert!((value - at(&params)).abs() < 1e-5, "{shape:?} {classes}");
                for _ in 0..40 {
                    let index = rng.below(n);
                    let h = 1e-4;
                    let (mut left, mut right) = (params.clone(), params.clone());
                    left[index] -= h;
                    right[index] += h;
                    let difference = (at(&right) - at(&left)) / (2.0 * h);
                    assert!(
                        (gradient[index] - difference).abs() < 2e-5 * difference.abs().max(1.0),
                        "{shape:?} {classes} {index}: {} {difference}",
                        gradient[index]
                    );
                }
            }
        }
    }
}

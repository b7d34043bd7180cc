//! The penalised likelihood of a linear map: value and gradient in one pass over chunks of rows.

use std::ops::Range;

use rayon::prelude::*;

use crate::data::Dataset;
use crate::error::Result;
use crate::math::exp::exp_f32;
use crate::math::gemm::{Matrix, multiply};
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::methods::rows::Rows;
use crate::models::LinearShape;
use crate::optim::vector;

/// The weights of the squared parameters in the penalty: biases, diagonal elements of D, and off-diagonal ones.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ridge {
    pub bias: f64,
    pub diagonal: f64,
    pub off_diagonal: f64,
}

/// The sums over rows that a linear map is fitted by.
pub(crate) trait LinearSums {
    /// Returns the summed NLL at D and b, and writes the gradient of the sum.
    fn pass(&mut self, params: &[f32], gradient: &mut [f64]) -> Result<f64>;

    /// The sums of p(1 − p), u² and p(1 − p)u² with p = softmax(u), K each.
    fn moments(&self) -> Result<Vec<f64>>;
}

/// The mean NLL of softmax(u + uD + b) plus penalties, as a function of D (K diagonal elements, or K×K in row-major order)
/// followed by b (K numbers). D = 0 and b = 0 is temperature scaling.
pub(super) struct LinearObjective<'a> {
    rows: Box<dyn LinearSums + 'a>,
    classes: usize,
    shape: LinearShape,
    ridge: Ridge,
    total: f64,
    /// D and b in 32 bits.
    narrow: Vec<f32>,
    /// The mean NLL at the last evaluation, without penalties.
    pub nll: f64,
}

/// Rows in memory with their features.
pub(crate) struct LinearRows<'a> {
    data: &'a Dataset<'a>,
    features: Vec<f32>,
    shape: LinearShape,
    masked: bool,
    /// The gradient with respect to the logits of all rows, N×K; empty if D is diagonal.
    residuals: Vec<f32>,
}

/// Rows per partial sum; fixed, so that sums do not depend on the number of threads.
const CHUNK_ROWS: usize = 256;
/// Rows of residuals per matrix product of the gradient.
const PRODUCT_ROWS: usize = 2048;
/// The smallest number of parameters whose penalty is computed by a thread of its own.
const MIN_PENALTY_PART: usize = 32 * 1024;

impl<'a> LinearObjective<'a> {
    /// The objective on `sums` over the rows of `data`.
    pub(super) fn new(
        data: &dyn Rows,
        sums: Box<dyn LinearSums + 'a>,
        shape: LinearShape,
        ridge: Ridge,
    ) -> Self {
        let classes = data.classes();
        Self {
            rows: sums,
            classes,
            shape,
            ridge,
            total: data.total_weight(),
            narrow: vec![0.0; weights(shape, classes) + classes],
            nll: 0.0,
        }
    }

    pub(super) fn params(&self) -> usize {
        self.narrow.len()
    }

    /// Returns the value at `params` and writes the gradient.
    pub(super) fn evaluate(&mut self, params: &[f64], gradient: &mut [f64]) -> Result<f64> {
        for (narrow, &param) in self.narrow.iter_mut().zip(params) {
            *narrow = param as f32;
        }
        self.nll = self.rows.pass(&self.narrow, gradient)? / self.total;
        Ok(self.nll + self.penalise(params, gradient))
    }

    /// Divides the gradient by the total weight and adds that of the penalty, whose value is returned.
    fn penalise(&self, params: &[f64], gradient: &mut [f64]) -> f64 {
        let (classes, factor, shape) = (self.classes, 1.0 / self.total, self.shape);
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

    /// The weight of the square of one parameter.
    fn ridge_at(&self, index: usize) -> f64 {
        let classes = self.classes;
        if index >= weights(self.shape, classes) {
            self.ridge.bias
        } else if self.shape == LinearShape::Vector || index.is_multiple_of(classes + 1) {
            self.ridge.diagonal
        } else {
            self.ridge.off_diagonal
        }
    }

    /// A scale for each parameter, about 1/√curvature at the start: a diagonal preconditioner.
    ///
    /// Penalties and features differ by orders of magnitude between parameters, and L-BFGS needs far fewer iterations with
    /// the preconditioner. With p = softmax(u), the curvature of the weight D_ji is the mean of u_j²·p_i(1 − p_i) over the
    /// rows; for a full matrix it is approximated by the product of the means of both factors.
    pub(super) fn parameter_scales(&self) -> Result<Vec<f64>> {
        let classes = self.classes;
        let mut moments = self.rows.moments()?;
        for moment in &mut moments {
            *moment /= self.total;
        }
        let (variance, rest) = moments.split_at(classes);
        let (square, product) = rest.split_at(classes);
        let raw: Vec<f64> = match self.shape {
            LinearShape::Vector => product.iter().chain(variance).copied().collect(),
            LinearShape::Matrix => {
                let pairs = square
                    .iter()
                    .flat_map(|s| variance.iter().map(move |v| s * v));
                pairs.chain(variance.iter().copied()).collect()
            }
        };
        // A lower bound on the curvature limits the steps for classes that are almost never probable.
        let floors = raw.split_at(raw.len() - classes);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (weight_floor, bias_floor) = (1e-2 * mean(floors.0), 1e-2 * mean(floors.1));
        let scales = raw.iter().enumerate().map(|(index, &curvature)| {
            let floor = if index < raw.len() - classes {
                weight_floor
            } else {
                bias_floor
            };
            let unit = (curvature.max(floor) + 2.0 * self.ridge_at(index)).sqrt();
            if unit > 0.0 { 1.0 / unit } else { 1.0 }
        });
        Ok(scales.collect())
    }
}

impl<'a> LinearRows<'a> {
    pub(crate) fn new(data: &'a Dataset<'a>, features: Vec<f32>, shape: LinearShape) -> Self {
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
        }
    }

    fn chunk<'b>(&'b self, index: usize, params: &'b [f32]) -> ObjectiveRows<'b> {
        let first = index * CHUNK_ROWS;
        let classes = self.data.classes();
        let rows = CHUNK_ROWS.min(self.data.rows() - first);
        let cells = first * classes..(first + rows) * classes;
        let (slopes, biases) = params.split_at(params.len() - classes);
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
    fn vector_pass(&self, params: &[f32], slopes: &mut [f64], biases: &mut [f64]) -> f64 {
        let classes = self.data.classes();
        let parts: Vec<(f64, Vec<f64>)> = (0..self.chunks())
            .into_par_iter()
            .map_init(
                || vec![0.0; classes],
                |row, index| {
                    let mut gradient = vec![0.0; 2 * classes];
                    let chunk = self.chunk(index, params);
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
    fn matrix_pass(&mut self, params: &[f32], slopes: &mut [f64], biases: &mut [f64]) -> f64 {
        let classes = self.data.classes();
        let mut residuals = std::mem::take(&mut self.residuals);
        let parts: Vec<(f64, Vec<f64>)> = residuals
            .par_chunks_mut(CHUNK_ROWS * classes)
            .enumerate()
            .map(|(index, residuals)| {
                let chunk = self.chunk(index, params);
                let rows = chunk.labels.len();
                let left = Matrix::new(chunk.features, rows, classes);
                let right = Matrix::new(chunk.slopes, classes, classes);
                multiply(residuals, left, right);
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
}

impl LinearSums for LinearRows<'_> {
    fn pass(&mut self, params: &[f32], gradient: &mut [f64]) -> Result<f64> {
        let (slopes, biases) = gradient.split_at_mut(gradient.len() - self.data.classes());
        Ok(match self.shape {
            LinearShape::Vector => self.vector_pass(params, slopes, biases),
            LinearShape::Matrix => self.matrix_pass(params, slopes, biases),
        })
    }

    fn moments(&self) -> Result<Vec<f64>> {
        let classes = self.data.classes();
        let none = vec![0.0; classes];
        let chunks: Vec<Vec<f64>> = (0..self.chunks())
            .into_par_iter()
            .map(|index| {
                let chunk = self.chunk(index, &none);
                let mut moments = vec![0.0; 3 * classes];
                let mut row = vec![0.0; classes];
                for at in 0..chunk.labels.len() {
                    row.copy_from_slice(&chunk.features[at * classes..][..classes]);
                    chunk.mask(at, &mut row);
                    add_curvature(
                        chunk.weight(at) as f32,
                        &chunk.features[at * classes..][..classes],
                        &mut row,
                        &mut moments,
                    );
                }
                moments
            })
            .collect();
        let mut moments = vec![0.0; 3 * classes];
        for chunk in chunks {
            add(&mut moments, &chunk);
        }
        Ok(moments)
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

/// A chunk of rows, and the parameters.
struct ObjectiveRows<'a> {
    features: &'a [f32],
    /// Empty if no class of the data is masked.
    scores: &'a [f32],
    labels: &'a [u32],
    weights: &'a [f64],
    slopes: &'a [f32],
    biases: &'a [f32],
}

impl ObjectiveRows<'_> {
    #[inline(always)]
    fn weight(&self, row: usize) -> f64 {
        self.weights.get(row).copied().unwrap_or(1.0)
    }

    /// Sets the logits of masked classes to `-inf`.
    #[inline(always)]
    fn mask(&self, row: usize, logits: &mut [f32]) {
        if !self.scores.is_empty() {
            let scores = &self.scores[row * logits.len()..][..logits.len()];
            for (logit, &score) in logits.iter_mut().zip(scores) {
                *logit = if score > f32::NEG_INFINITY {
                    *logit
                } else {
                    score
                };
            }
        }
    }
}

const LANES: usize = 16;

/// Replaces logits by e^(logit − max); returns the maximum and the sum of the exponentials.
#[inline(always)]
fn exponentials(logits: &mut [f32]) -> (f32, f32) {
    let larger = |a, b| if b > a { b } else { a };
    let top = lanes::fold::<LANES, _, _>(logits, f32::NEG_INFINITY, larger, larger);
    for logit in logits.iter_mut() {
        *logit = exp_f32(*logit - top);
    }
    let sums = lanes::accumulate::<LANES, _, _>(logits, 0.0, |sum, e| sum + e);
    (top, sums.iter().sum())
}

/// Replaces the logits of a row by the gradient of its weighted NLL with respect to them, and returns the weighted NLL.
#[inline(always)]
fn residual(logits: &mut [f32], label: usize, weight: f64) -> f64 {
    let at_label = logits[label];
    let (top, sum) = exponentials(logits);
    let factor = (weight / f64::from(sum)) as f32;
    for logit in logits.iter_mut() {
        *logit *= factor;
    }
    logits[label] -= weight as f32;
    weight * (f64::from(sum).ln() - (f64::from(at_label) - f64::from(top)))
}

vectorized! {
    /// The NLL of a chunk for a diagonal D; the gradient is added to `gradient`.
    ///
    /// Sums are in 64 bits, so that they hardly depend on how the rows are divided.
    fn vector_chunk(chunk: &ObjectiveRows<'_>, row: &mut [f32], gradient: &mut [f64]) -> f64 {
        let classes = row.len();
        let mut nll = 0.0;
        let (slopes, biases) = gradient.split_at_mut(classes);
        for at in 0..chunk.labels.len() {
            let features = &chunk.features[at * classes..][..classes];
            for (((logit, &u), &d), &b) in row.iter_mut().zip(features).zip(chunk.slopes).zip(chunk.biases) {
                *logit = d.mul_add(u, u) + b;
            }
            chunk.mask(at, row);
            nll += residual(row, chunk.labels[at] as usize, chunk.weight(at));
            for (((slope, bias), &u), &r) in slopes.iter_mut().zip(&mut *biases).zip(features).zip(&*row) {
                *slope += f64::from(r * u);
                *bias += f64::from(r);
            }
        }
        nll
    }
}

vectorized! {
    /// The NLL of a chunk for a full D. `rows` holds the products uD and is replaced by the gradient with respect to the
    /// logits.
    fn matrix_chunk(chunk: &ObjectiveRows<'_>, rows: &mut [f32], bias_gradient: &mut [f64]) -> f64 {
        let classes = bias_gradient.len();
        let mut nll = 0.0;
        for (at, row) in rows.chunks_exact_mut(classes).enumerate() {
            let features = &chunk.features[at * classes..][..classes];
            for ((logit, &u), &b) in row.iter_mut().zip(features).zip(chunk.biases) {
                *logit += u + b;
            }
            chunk.mask(at, row);
            nll += residual(row, chunk.labels[at] as usize, chunk.weight(at));
            for (sum, &r) in bias_gradient.iter_mut().zip(&*row) {
                *sum += f64::from(r);
            }
        }
        nll
    }
}

vectorized! {
    /// Multiplies a gradient by `factor` and adds that of a ridge penalty, whose value is returned.
    fn add_ridge(ridge: f64, factor: f64, params: &[f64], gradient: &mut [f64]) -> f64 {
        for (gradient, &param) in gradient.iter_mut().zip(params) {
            *gradient = *gradient * factor + 2.0 * ridge * param;
        }
        ridge * vector::dot(params, params)
    }
}

vectorized! {
    /// Adds p(1 − p), u² and p(1 − p)u² of a row to `moments` (3×K); `row` holds its logits.
    fn add_curvature(weight: f32, features: &[f32], row: &mut [f32], moments: &mut [f64]) {
        let (_, sum) = exponentials(row);
        let (variances, rest) = moments.split_at_mut(features.len());
        let (squares, products) = rest.split_at_mut(features.len());
        for (class, (&e, &u)) in row.iter().zip(features).enumerate() {
            let p = e / sum;
            let variance = weight * p * (1.0 - p);
            variances[class] += f64::from(variance);
            squares[class] += f64::from(weight * u * u);
            products[class] += f64::from(variance * u * u);
        }
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

    #[test]
    fn value_and_gradient_agree_with_the_direct_implementation() {
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
                let rows = LinearRows::new(&data, features.clone(), shape);
                let mut objective = LinearObjective::new(&data, Box::new(rows), shape, ridge);
                let n = objective.params();
                let params: Vec<f64> = (0..n).map(|_| 0.3 * rng.normal()).collect();
                let mut gradient = vec![f64::NAN; n];
                let value = objective.evaluate(&params, &mut gradient).unwrap();
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

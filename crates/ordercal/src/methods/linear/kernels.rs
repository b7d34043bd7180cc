//! The inner loops over the rows of a linear map.

use crate::math::exp::exp_f32;
use crate::math::gemm::{Matrix, multiply};
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::optim::vector;

/// A chunk of rows, and the parameters.
pub(super) struct ObjectiveRows<'a> {
    pub features: &'a [f32],
    /// Empty if no class of the data is masked.
    pub scores: &'a [f32],
    pub labels: &'a [u32],
    pub weights: &'a [f64],
    pub slopes: &'a [f32],
    pub biases: &'a [f32],
}

impl ObjectiveRows<'_> {
    /// Writes the products uD of all rows for a full D.
    pub(super) fn multiply(&self, products: &mut [f32]) {
        let classes = self.biases.len();
        let left = Matrix::new(self.features, self.labels.len(), classes);
        let right = Matrix::new(self.slopes, classes, classes);
        multiply(products, left, right);
    }

    #[inline(always)]
    fn features(&self, row: usize) -> &[f32] {
        let classes = self.biases.len();
        &self.features[row * classes..][..classes]
    }

    #[inline(always)]
    fn weight(&self, row: usize) -> f64 {
        self.weights.get(row).copied().unwrap_or(1.0)
    }

    /// Writes the logits of a row for a diagonal D.
    #[inline(always)]
    fn vector_logits(&self, row: usize, logits: &mut [f32]) {
        let maps = self.slopes.iter().zip(self.biases);
        for ((logit, &u), (&d, &b)) in logits.iter_mut().zip(self.features(row)).zip(maps) {
            *logit = d.mul_add(u, u) + b;
        }
        self.mask(row, logits);
    }

    /// Replaces the products uD of a row by its logits.
    #[inline(always)]
    fn matrix_logits(&self, row: usize, logits: &mut [f32]) {
        for ((logit, &u), &b) in logits.iter_mut().zip(self.features(row)).zip(self.biases) {
            *logit += u + b;
        }
        self.mask(row, logits);
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
    (top, sum(logits, |e| e))
}

#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let sums = lanes::accumulate::<LANES, _, _>(values, 0.0, |sum, value| sum + of(value));
    sums.iter().sum()
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
    pub(super) fn vector_chunk(chunk: &ObjectiveRows<'_>, row: &mut [f32], gradient: &mut [f64]) -> f64 {
        let classes = row.len();
        let mut nll = 0.0;
        let (slopes, biases) = gradient.split_at_mut(classes);
        for at in 0..chunk.labels.len() {
            chunk.vector_logits(at, row);
            nll += residual(row, chunk.labels[at] as usize, chunk.weight(at));
            let features = chunk.features(at);
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
    pub(super) fn matrix_chunk(chunk: &ObjectiveRows<'_>, rows: &mut [f32], bias_gradient: &mut [f64]) -> f64 {
        let classes = bias_gradient.len();
        let mut nll = 0.0;
        for (at, row) in rows.chunks_exact_mut(classes).enumerate() {
            chunk.matrix_logits(at, row);
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
    pub(super) fn add_ridge(ridge: f64, factor: f64, params: &[f64], gradient: &mut [f64]) -> f64 {
        for (gradient, &param) in gradient.iter_mut().zip(params) {
            *gradient = *gradient * factor + 2.0 * ridge * param;
        }
        ridge * vector::dot(params, params)
    }
}

/// Replaces the logits of a row by p(1 − p) times its weight.
#[inline(always)]
fn variances(logits: &mut [f32], weight: f32) {
    let (_, sum) = exponentials(logits);
    for e in logits.iter_mut() {
        let p = *e / sum;
        *e = weight * p * (1.0 - p);
    }
}

/// Adds v, vu and vu² of each class.
#[inline(always)]
fn add_powers(variances: &[f32], features: &[f32], moments: &mut [f64]) {
    let (zeroth, rest) = moments.split_at_mut(features.len());
    let (first, second) = rest.split_at_mut(features.len());
    let sums = zeroth.iter_mut().zip(first).zip(second);
    for (((zeroth, first), second), (&v, &u)) in sums.zip(variances.iter().zip(features)) {
        *zeroth += f64::from(v);
        *first += f64::from(v * u);
        *second += f64::from(v * u * u);
    }
}

vectorized! {
    /// Adds the moments of a chunk for a diagonal D.
    pub(super) fn vector_moments(chunk: &ObjectiveRows<'_>, row: &mut [f32], moments: &mut [f64]) {
        for at in 0..chunk.labels.len() {
            chunk.vector_logits(at, row);
            variances(row, chunk.weight(at) as f32);
            add_powers(row, chunk.features(at), moments);
        }
    }
}

vectorized! {
    /// Adds the moments of a chunk for a full D. `rows` holds the products uD and is overwritten.
    pub(super) fn matrix_moments(chunk: &ObjectiveRows<'_>, rows: &mut [f32], moments: &mut [f64]) {
        let classes = chunk.biases.len();
        let (powers, rest) = moments.split_at_mut(3 * classes);
        let (first, rest) = rest.split_at_mut(classes);
        let (cross, rest) = rest.split_at_mut(classes);
        let (second, spread) = rest.split_at_mut(classes);
        for (at, row) in rows.chunks_exact_mut(classes).enumerate() {
            chunk.matrix_logits(at, row);
            let features = chunk.features(at);
            let weight = chunk.weight(at) as f32;
            variances(row, weight);
            add_powers(row, features, powers);
            let total = sum(features, |u| u);
            let sums = first.iter_mut().zip(&mut *cross).zip(&mut *second);
            for (((first, cross), second), (&v, &u)) in sums.zip(row.iter().zip(features)) {
                let vt = f64::from(v * total);
                *first += vt;
                *cross += vt * f64::from(u);
                *second += vt * f64::from(total);
            }
            let mean = total / classes as f32;
            spread[0] += f64::from(weight * sum(features, |u| (u - mean) * (u - mean)));
        }
    }
}

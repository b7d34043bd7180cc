//! Kernel logistic regression: what a row's probabilities look like decides what is added to its logits.

use rayon::prelude::*;

use super::check::check_non_negative;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::gemm::{Matrix, multiply, multiply_add};
use crate::math::softmax;
use crate::methods::likelihood::plain_nll;
use crate::methods::{Calibrator, FitReport, Fitted};
use crate::models::kernel::{self, Centres, KernelModel, KernelParts, LARGEST_COEFFICIENT};
use crate::nn::head::free_row;
use crate::optim::Lbfgs;
use crate::optim::lbfgs::Step;
use crate::rng::Rng;
use crate::watch::{Watch, report_progress};

/// Kernel logistic regression on probabilities: logits ln p + b + Σ_j k(p, c_j) v_j. Predictions may change.
///
/// k(p, q) = exp(−s ‖√p − √q‖²), a Gaussian kernel of the Hellinger distance, and the centres c_j are rows of the
/// calibration data (the Nyström method), at most `centres` of them. b and V minimise
/// mean NLL + λ/n ‖f‖² + K/n ‖b‖², ‖f‖ the norm of the kernel's space: a convex problem, which shrinks to
/// the probabilities that it reads. 1/(2s) is the median squared distance between centres. It learns what no linear map
/// can: that some *regions* of the simplex are more confident than they should be.
///
/// C. K. I. Williams, M. Seeger: *Using the Nyström Method to Speed Up Kernel Machines*, NIPS 2000.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kernel {
    /// λ: the weight of the penalty.
    pub lambda: f64,
    /// The most centres.
    pub centres: usize,
    /// The optimiser's settings.
    pub optimizer: Lbfgs,
    /// The seed of the choice of centres.
    pub seed: u64,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            lambda: 1.0,
            centres: 200,
            optimizer: Lbfgs::default().with_max_iterations(60),
            seed: 1357,
        }
    }
}

/// Added to the diagonal of the kernel matrix: centres may coincide.
const JITTER: f64 = 1e-3;

/// Changes of the loss below this share of it mean nothing.
const NOISE: f64 = 1e-7;

/// Rows that are worked on at once; fixed, so that sums do not depend on the number of threads.
const PIECE: usize = 512;

impl Calibrator for Kernel {
    fn validate(&self) -> Result<()> {
        check_non_negative("lambda", self.lambda)?;
        if self.centres == 0 {
            return Err(Error::invalid("centres", self.centres, "at least 1"));
        }
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        let classes = data.classes();
        let mut objective = Objective::new(data, self);
        let mut params = vec![0.0; objective.params()];
        let most = self.optimizer.max_iterations;
        let before = plain_nll(data);
        let outcome = self.optimizer.minimize(
            &mut params,
            NOISE,
            &mut |point, gradient| objective.evaluate(point, gradient),
            &mut |step: &Step<'_>| {
                report_progress(watch, step.iteration, most, step.value).map(|()| None)
            },
        )?;
        let mut gradient = vec![0.0; params.len()];
        let loss = objective.evaluate(&params, &mut gradient);
        let narrow = |value: f64| (value as f32).clamp(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT);
        let (bias, weights) = params.split_at(classes);
        let coefficients = objective.basis.times(weights, classes);
        let parts = KernelParts {
            classes,
            scale: f64::from(objective.scale),
            centres: objective.centres,
            coefficients: coefficients.into_iter().map(narrow).collect(),
            bias: bias.iter().map(|&b| narrow(b)).collect(),
        };
        let report = FitReport {
            iterations: outcome.iterations,
            evaluations: outcome.evaluations + 1,
            loss,
            ..FitReport::new(before, objective.nll, outcome.stop)
        };
        let model = KernelModel::from_parts(parts)?.into();
        Ok(Fitted { model, report })
    }
}

/// The squared distances of each centre, given as roots, to those before it.
///
/// In 64 bits and from differences: with rounding errors of 32 bits, the kernel matrix of centres that are close to each
/// other is not positive definite.
fn distances(centres: &[f32], classes: usize) -> Vec<Vec<f64>> {
    let centre = |i: usize| &centres[i * classes..][..classes];
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    let distance = |i: usize, j: usize| centre(i).iter().zip(centre(j)).map(square).sum();
    (0..centres.len() / classes)
        .into_par_iter()
        .map(|i| (0..i).map(|j| distance(i, j)).collect())
        .collect()
}

/// The inverse of the Cholesky factor L of the kernel matrix of the centres, R×R, lower triangular: the columns of
/// L⁻ᵀ are an orthonormal basis of the functions that the centres span.
struct Basis {
    inverse: Vec<f64>,
    size: usize,
}

impl Basis {
    fn new(mut matrix: Vec<f64>, size: usize) -> Self {
        for j in 0..size {
            for k in 0..j {
                let factor = matrix[j * size + k];
                for i in j..size {
                    matrix[i * size + j] -= factor * matrix[i * size + k];
                }
            }
            // None is smaller than what was added to the diagonal, but for rounding.
            let pivot = matrix[j * size + j].max(JITTER).sqrt();
            for i in j..size {
                matrix[i * size + j] /= pivot;
            }
        }
        let mut inverse = vec![0.0; size * size];
        for column in 0..size {
            for i in column..size {
                let mut value = f64::from(u8::from(i == column));
                for k in column..i {
                    value -= matrix[i * size + k] * inverse[k * size + column];
                }
                inverse[i * size + column] = value / matrix[i * size + i];
            }
        }
        Self { inverse, size }
    }

    /// Values of the basis' functions from those of the kernel: rows times L⁻ᵀ.
    fn functions(&self, kernel: &[f32]) -> Vec<f32> {
        let narrow: Vec<f32> = self.inverse.iter().map(|&v| v as f32).collect();
        let mut values = vec![0.0; kernel.len()];
        let rows = kernel.len() / self.size;
        let right = Matrix::new(&narrow, self.size, self.size).transposed();
        multiply(&mut values, Matrix::new(kernel, rows, self.size), right);
        values
    }

    /// L⁻ᵀ times a matrix: from coefficients of the basis to those of the centres.
    fn times(&self, weights: &[f64], classes: usize) -> Vec<f64> {
        let mut product = vec![0.0; weights.len()];
        for (k, row) in weights.chunks_exact(classes).enumerate() {
            for (i, target) in product.chunks_exact_mut(classes).enumerate().take(k + 1) {
                let factor = self.inverse[k * self.size + i];
                for (target, weight) in target.iter_mut().zip(row) {
                    *target += factor * weight;
                }
            }
        }
        product
    }
}

/// The penalised NLL as a function of b and of the weights of the basis.
struct Objective<'a> {
    data: &'a Dataset<'a>,
    centres: Vec<f32>,
    scale: f32,
    basis: Basis,
    /// What is added to, N×K.
    logs: Vec<f32>,
    /// Values of the basis' functions, N×R.
    functions: Vec<f32>,
    bias_penalty: f64,
    penalty: f64,
    /// The NLL alone, where it was evaluated last.
    nll: f64,
}

impl<'a> Objective<'a> {
    fn new(data: &'a Dataset<'a>, settings: &Kernel) -> Self {
        let (rows, classes) = (data.rows(), data.classes());
        let mut logs = vec![0.0; rows * classes];
        let block = softmax::group(classes) * classes;
        logs.par_chunks_mut(block)
            .zip(data.scores().as_slice().par_chunks(block))
            .for_each(|(logs, scores)| kernel::read(scores, classes, logs));
        // Rows that count, drawn without replacement; a quarter of them at most.
        let mut drawn: Vec<usize> = (0..rows).filter(|&row| data.weight(row) > 0.0).collect();
        let count = settings
            .centres
            .min((drawn.len() / 4).max(10))
            .min(drawn.len());
        Rng::new(settings.seed).shuffle(&mut drawn);
        let mut centres = vec![0.0; count * classes];
        for (centre, &row) in centres.chunks_exact_mut(classes).zip(&drawn) {
            kernel::roots(&logs[row * classes..][..classes], centre);
        }
        let laid_out = Centres::new(&centres, classes);
        let distances = distances(&centres, classes);
        let mut pairs = distances.concat();
        let middle = pairs.len() / 2;
        let median = match pairs.len() {
            0 => 1.0,
            _ => *pairs.select_nth_unstable_by(middle, f64::total_cmp).1 as f32,
        };
        let scale = 0.5 / median.max(1e-3);
        let mut matrix = vec![0.0; count * count];
        for (i, distances) in distances.iter().enumerate() {
            for (j, distance) in distances.iter().enumerate() {
                matrix[i * count + j] = (-f64::from(scale) * distance).exp();
            }
            matrix[i * count + i] = 1.0 + JITTER;
        }
        let basis = Basis::new(matrix, count);
        let mut functions = vec![0.0; rows * count];
        functions
            .par_chunks_mut(PIECE * count)
            .zip(logs.par_chunks(PIECE * classes))
            .for_each(|(functions, logs)| {
                let mut rows = vec![0.0; logs.len()];
                kernel::roots(logs, &mut rows);
                let values = laid_out.kernel(&rows, scale);
                functions.copy_from_slice(&basis.functions(&values));
            });
        let total = data.total_weight();
        Self {
            data,
            centres,
            scale,
            basis,
            logs,
            functions,
            bias_penalty: classes as f64 / total,
            penalty: settings.lambda / total,
            nll: 0.0,
        }
    }

    /// b, then the weights of the basis, R×K.
    fn params(&self) -> usize {
        (1 + self.basis.size) * self.data.classes()
    }

    fn evaluate(&mut self, params: &[f64], gradient: &mut [f64]) -> f64 {
        let (data, classes, size) = (self.data, self.data.classes(), self.basis.size);
        let narrow: Vec<f32> = params.iter().map(|&p| p as f32).collect();
        let (bias, weights) = narrow.split_at(classes);
        let total = data.total_weight();
        let parts: Vec<(f64, Vec<f32>)> = self
            .logs
            .par_chunks(PIECE * classes)
            .zip(self.functions.par_chunks(PIECE * size))
            .enumerate()
            .map(|(piece, (logs, functions))| {
                let rows = logs.len() / classes;
                let mut z = logs.to_vec();
                for z in z.chunks_exact_mut(classes) {
                    for (z, b) in z.iter_mut().zip(bias) {
                        *z += b;
                    }
                }
                let functions = Matrix::new(functions, rows, size);
                multiply_add(&mut z, functions, Matrix::new(weights, size, classes));
                let mut loss = 0.0;
                let mut part = vec![0.0; (1 + size) * classes];
                let (bias_part, weights_part) = part.split_at_mut(classes);
                for (place, z) in z.chunks_exact_mut(classes).enumerate() {
                    let row = piece * PIECE + place;
                    let (label, weight) = (data.labels()[row] as usize, data.weight(row));
                    loss += weight * free_row(z, data.scores().row(row), label, weight);
                    for (sum, z) in bias_part.iter_mut().zip(&*z) {
                        *sum += z;
                    }
                }
                multiply(
                    weights_part,
                    functions.transposed(),
                    Matrix::new(&z, rows, classes),
                );
                (loss, part)
            })
            .collect();
        gradient.fill(0.0);
        let mut loss = 0.0;
        for (part_loss, part) in parts {
            loss += part_loss;
            for (sum, value) in gradient.iter_mut().zip(part) {
                *sum += f64::from(value);
            }
        }
        self.nll = loss / total;
        let mut value = self.nll;
        for (index, (gradient, param)) in gradient.iter_mut().zip(params).enumerate() {
            let penalty = if index < classes {
                self.bias_penalty
            } else {
                self.penalty
            };
            value += penalty * param * param;
            *gradient = *gradient / total + 2.0 * penalty * param;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use crate::models::{Model, apply};
    use crate::watch::Unwatched;
    use ndarray::Array2;

    fn data(rows: usize, classes: usize) -> Dataset<'static> {
        let mut rng = Rng::new(5);
        let logits = Array2::from_shape_fn((rows, classes), |_| 2.0 * rng.normal() as f32);
        let labels: Vec<u32> = (0..rows).map(|_| rng.below(classes) as u32).collect();
        let weights = (0..rows).map(|row| 1.0 + (row % 3) as f64).collect();
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap().into_owned();
        let data = Dataset::new(scores, &labels).unwrap();
        data.with_weights(weights).unwrap()
    }

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let data = data(70, 4);
        let mut objective = Objective::new(&data, &Kernel::default());
        let mut rng = Rng::new(8);
        let params: Vec<f64> = (0..objective.params())
            .map(|_| 0.3 * rng.normal())
            .collect();
        let mut gradient = vec![0.0; params.len()];
        objective.evaluate(&params, &mut gradient);
        let mut ignored = gradient.clone();
        for place in (0..params.len()).step_by(3) {
            let mut at = |step: f64| {
                let mut moved = params.clone();
                moved[place] += step;
                objective.evaluate(&moved, &mut ignored)
            };
            let difference = (at(1e-2) - at(-1e-2)) / 2e-2;
            let error = (gradient[place] - difference).abs();
            assert!(error < 2e-4, "{place}: {} {difference}", gradient[place]);
        }
    }

    #[test]
    fn the_model_is_what_was_minimised() {
        let data = data(90, 3);
        let Fitted { model, report } = Kernel::default().fit(&data, &Unwatched).unwrap();
        assert!(report.nll_after < report.nll_before);
        let nll = apply::mean_nll(&model, &data);
        assert!((nll - report.nll_after).abs() < 1e-4, "{nll} {report:?}");
        let rebuilt = Model::from_parts(model.to_parts().unwrap()).unwrap();
        assert_eq!(rebuilt, model);
    }

    #[test]
    fn rows_that_are_nearly_alike_give_a_model() {
        // Distances that are rounding errors for the most part, if they are computed in 32 bits.
        let mut rng = Rng::new(6);
        let logits = Array2::from_shape_fn((1200, 28), |(_, class)| {
            (8.0 / (1.0 + class as f64) + 0.02 * rng.normal()) as f32
        });
        let labels: Vec<u32> = (0..1200).map(|_| rng.below(28) as u32).collect();
        let data = Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap();
        let Fitted { report, .. } = Kernel::default().fit(&data, &Unwatched).unwrap();
        assert!(report.nll_after < report.nll_before, "{report:?}");
    }

    #[test]
    fn held_back_it_is_what_it_reads() {
        let data = data(60, 3);
        let kernel = Kernel {
            lambda: 1e9,
            ..Kernel::default()
        };
        let Model::Kernel(model) = kernel.fit(&data, &Unwatched).unwrap().model else {
            panic!("a kernel model");
        };
        assert!(model.to_parts().coefficients.iter().all(|c| c.abs() < 1e-3));
    }
}

//! A change of variables after which all parameters of a linear map have about the same curvature.

use rayon::prelude::*;

use super::objective::{Ridge, weights};
use crate::models::LinearShape;

/// What the curvature of a class is increased by, as a part of the mean over all classes: it limits the steps of classes
/// that are almost never probable.
const FLOOR: f64 = 1e-2;
/// Rows of D that one thread works on.
const PART_ROWS: usize = 32;

/// The sums over rows from which the curvature of the parameters follows, with p = softmax(u), v = p(1 − p) and the
/// sum t of the features u of a row.
///
/// For each class, a diagonal D needs v, vu and vu²; a full one also vt, vtu and vt², and at the end the squares of all
/// features about the mean of their row.
pub(crate) fn moment_count(shape: LinearShape, classes: usize) -> usize {
    match shape {
        LinearShape::Vector => 3 * classes,
        LinearShape::Matrix => 6 * classes + 1,
    }
}

/// Maps what the optimiser sees to the parameters, so that the Hessian at the start becomes about the identity.
///
/// The parameters of the logit of class i are the column i of D and the bias. Features of a row have much in common:
/// log-probabilities all contain the same −ln Σeˣ. So the curvature along the sum of a column is larger by orders of
/// magnitude than across it, and the sum, the diagonal element and the bias, which learn from (t − uᵢ, uᵢ, 1), depend on
/// each other. The Hessian is approximated by 3×3 blocks for them, and by a multiple of the identity for what remains of
/// the column; classes are taken as independent.
pub(super) struct Preconditioner {
    shape: LinearShape,
    classes: usize,
    /// For each class, the Cholesky factor C of the Hessian of sum, diagonal element and bias, in rows.
    factors: Vec<Lower>,
    /// For each class, 1/√curvature of the rest of the column.
    scales: Vec<f64>,
}

/// A lower triangular 3×3 matrix.
type Lower = [[f64; 3]; 3];

impl Preconditioner {
    /// From the sums of [`moment_count`], divided by the total weight of the rows.
    pub(super) fn new(shape: LinearShape, classes: usize, moments: &[f64], ridge: Ridge) -> Self {
        let others = (classes - 1) as f64;
        let of = |class: usize| -> Lower {
            let at = |moment: usize| moments[moment * classes + class];
            let (v, vu, vuu) = (at(0), at(1), at(2));
            let [first, cross, square] = match shape {
                LinearShape::Vector => [0.0; 3],
                // Of (t − u)/√(K − 1), so that the sum of a column is measured along a unit vector.
                LinearShape::Matrix => [
                    (at(3) - vu) / others.sqrt(),
                    (at(4) - vuu) / others.sqrt(),
                    (at(5) - 2.0 * at(4) + vuu) / others,
                ],
            };
            [[square, 0.0, 0.0], [cross, vuu, 0.0], [first, vu, v]]
        };
        let blocks: Vec<Lower> = (0..classes).map(of).collect();
        let mut floor = [[0.0; 3]; 3];
        for block in &blocks {
            for (floor, row) in floor.iter_mut().zip(block) {
                for (floor, value) in floor.iter_mut().zip(row) {
                    *floor += FLOOR * value / classes as f64;
                }
            }
        }
        let spread = match shape {
            LinearShape::Vector => 0.0,
            LinearShape::Matrix => moments[6 * classes] / classes as f64,
        };
        let diagonal = match shape {
            LinearShape::Vector => [1.0, ridge.diagonal, ridge.bias],
            LinearShape::Matrix => [ridge.off_diagonal, ridge.diagonal, ridge.bias],
        };
        let raised = blocks.iter().map(|block| {
            let mut raised = *block;
            for (place, (row, floor)) in raised.iter_mut().zip(&floor).enumerate() {
                for (value, floor) in row.iter_mut().zip(floor) {
                    *value += floor;
                }
                row[place] += 2.0 * diagonal[place];
            }
            raised
        });
        let scale = |block: &Lower| {
            let curvature = (block[2][2] + floor[2][2]) * spread + 2.0 * ridge.off_diagonal;
            inverse_root(curvature)
        };
        Self {
            shape,
            classes,
            factors: raised.map(cholesky).collect(),
            scales: blocks.iter().map(scale).collect(),
        }
    }

    /// Writes the parameters of a point of the optimiser.
    pub(super) fn params(&self, point: &[f64], params: &mut [f64]) {
        self.transform(point, params, |c, y| {
            let bias = y[2] / c[2][2];
            let diagonal = (y[1] - c[2][1] * bias) / c[1][1];
            let sum = (y[0] - c[1][0] * diagonal - c[2][0] * bias) / c[0][0];
            [sum, diagonal, bias]
        });
    }

    /// Writes the gradient that the optimiser sees.
    pub(super) fn gradient(&self, params: &[f64], point: &mut [f64]) {
        self.transform(params, point, |c, g| {
            let sum = g[0] / c[0][0];
            let diagonal = (g[1] - c[1][0] * sum) / c[1][1];
            let bias = (g[2] - c[2][0] * sum - c[2][1] * diagonal) / c[2][2];
            [sum, diagonal, bias]
        });
    }

    /// Writes `solve` of sum, diagonal element and bias of each class, and the scaled rest.
    fn transform(
        &self,
        from: &[f64],
        to: &mut [f64],
        solve: impl Fn(&Lower, [f64; 3]) -> [f64; 3],
    ) {
        let classes = self.classes;
        let (columns, biases) = from.split_at(weights(self.shape, classes));
        let (to_columns, to_biases) = to.split_at_mut(columns.len());
        if self.shape == LinearShape::Vector {
            for (class, factor) in self.factors.iter().enumerate() {
                let solved = solve(factor, [0.0, columns[class], biases[class]]);
                (to_columns[class], to_biases[class]) = (solved[1], solved[2]);
            }
            return;
        }
        let root = ((classes - 1) as f64).sqrt();
        let mut shifts = column_sums(columns, classes);
        let mut diagonal = Vec::with_capacity(classes);
        for (class, factor) in self.factors.iter().enumerate() {
            let own = columns[class * (classes + 1)];
            let sum = (shifts[class] - own) / root;
            let solved = solve(factor, [sum, own, biases[class]]);
            shifts[class] = (solved[0] - self.scales[class] * sum) / root;
            diagonal.push(solved[1]);
            to_biases[class] = solved[2];
        }
        to_columns
            .par_chunks_mut(classes)
            .zip(columns.par_chunks(classes))
            .enumerate()
            .with_min_len(PART_ROWS)
            .for_each(|(row, (to, from))| {
                let rest = from.iter().zip(&self.scales).zip(&shifts);
                for (to, ((&value, &scale), &shift)) in to.iter_mut().zip(rest) {
                    *to = scale * value + shift;
                }
                to[row] = diagonal[row];
            });
    }
}

/// The sums of the columns of a square matrix, over parts of fixed length.
fn column_sums(matrix: &[f64], classes: usize) -> Vec<f64> {
    let parts: Vec<Vec<f64>> = matrix
        .par_chunks(PART_ROWS * classes)
        .map(|rows| {
            let mut sums = vec![0.0; classes];
            for row in rows.chunks_exact(classes) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += value;
                }
            }
            sums
        })
        .collect();
    let mut sums = vec![0.0; classes];
    for part in parts {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum += value;
        }
    }
    sums
}

fn inverse_root(curvature: f64) -> f64 {
    if curvature > 0.0 {
        1.0 / curvature.sqrt()
    } else {
        1.0
    }
}

/// The Cholesky factor; a direction without curvature of its own keeps a millionth of that along its axis.
fn cholesky(matrix: Lower) -> Lower {
    let mut c = [[0.0; 3]; 3];
    for i in 0..3 {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| c[i][k] * c[j][k]).sum();
            c[i][j] = if i != j {
                (matrix[i][j] - sum) / c[j][j]
            } else {
                let square = (matrix[i][i] - sum).max(1e-6 * matrix[i][i]);
                if square > 0.0 { square.sqrt() } else { 1.0 }
            };
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The Hessian of a column of D and the bias that the preconditioner is made for, as a (K + 1)×(K + 1) matrix.
    fn hessian(class: usize, classes: usize, moments: &[f64], ridge: Ridge) -> Vec<Vec<f64>> {
        let mean = |moment: usize| {
            let all = &moments[moment * classes..][..classes];
            all.iter().sum::<f64>() / classes as f64
        };
        let at = |moment: usize| moments[moment * classes + class] + FLOOR * mean(moment);
        let root = ((classes - 1) as f64).sqrt();
        let unit: Vec<f64> = (0..classes + 1)
            .map(|j| f64::from(u8::from(j != class && j < classes)) / root)
            .collect();
        let rest = at(0) * moments[6 * classes] / classes as f64 + 2.0 * ridge.off_diagonal;
        let along = (at(5) - 2.0 * at(4) + at(2)) / (root * root) + 2.0 * ridge.off_diagonal;
        let element = |a: usize, b: usize| -> f64 {
            let is = |x: usize, y: usize| (a, b) == (x, y) || (a, b) == (y, x);
            if is(class, class) {
                at(2) + 2.0 * ridge.diagonal
            } else if is(classes, classes) {
                at(0) + 2.0 * ridge.bias
            } else if is(class, classes) {
                at(1)
            } else if a == class || b == class {
                (at(4) - at(2)) / root * (unit[a] + unit[b])
            } else if a == classes || b == classes {
                (at(3) - at(1)) / root * (unit[a] + unit[b])
            } else {
                f64::from(u8::from(a == b)) * rest + (along - rest) * unit[a] * unit[b]
            }
        };
        (0..=classes)
            .map(|a| (0..=classes).map(|b| element(a, b)).collect())
            .collect()
    }

    /// Moments of some random rows.
    fn moments(classes: usize, rng: &mut Rng) -> Vec<f64> {
        let mut moments = vec![0.0; 6 * classes + 1];
        for _ in 0..50 {
            let u: Vec<f64> = (0..classes).map(|_| rng.normal() - 5.0).collect();
            let t: f64 = u.iter().sum();
            for (i, &u) in u.iter().enumerate() {
                let v = 0.01 * rng.uniform();
                let terms = [v, v * u, v * u * u, v * t, v * t * u, v * t * t];
                for (moment, term) in terms.into_iter().enumerate() {
                    moments[moment * classes + i] += term;
                }
                moments[6 * classes] += 0.01 * (u - t / classes as f64).powi(2);
            }
        }
        moments
    }

    #[test]
    fn the_hessian_becomes_the_identity() {
        let mut rng = Rng::new(52);
        let ridge = Ridge {
            bias: 1e-3,
            diagonal: 0.01,
            off_diagonal: 0.02,
        };
        for classes in [2, 3, 7, 70] {
            let moments = moments(classes, &mut rng);
            let found = Preconditioner::new(LinearShape::Matrix, classes, &moments, ridge);
            let n = classes * classes + classes;
            let point: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let mut params = vec![f64::NAN; n];
            found.params(&point, &mut params);
            // The parameters of class i: its column, then its bias.
            let of = |values: &[f64], class: usize, j: usize| values[j * classes + class];
            let mut products = vec![f64::NAN; n];
            for class in 0..classes {
                let hessian = hessian(class, classes, &moments, ridge);
                for (a, row) in hessian.iter().enumerate() {
                    let terms = row.iter().enumerate();
                    products[a * classes + class] =
                        terms.map(|(b, h)| h * of(&params, class, b)).sum();
                }
            }
            let mut back = vec![f64::NAN; n];
            found.gradient(&products, &mut back);
            for (back, point) in back.iter().zip(&point) {
                assert!((back - point).abs() < 1e-6, "{classes}: {back} {point}");
            }
        }
    }

    #[test]
    fn a_diagonal_map_has_blocks_of_two() {
        let moments = [0.2, 0.1, 0.3, -0.4, 0.6, 2.0];
        let found = Preconditioner::new(LinearShape::Vector, 2, &moments, Ridge::default());
        let mut params = [0.0; 4];
        found.params(&[0.5, -1.0, 2.0, 0.25], &mut params);
        let means = [0.15, -0.05, 1.3];
        let at = |moment: usize, class: usize| moments[2 * moment + class] + FLOOR * means[moment];
        let products: Vec<f64> = [0, 1]
            .into_iter()
            .map(|c| at(2, c) * params[c] + at(1, c) * params[2 + c])
            .chain((0..2).map(|c| at(1, c) * params[c] + at(0, c) * params[2 + c]))
            .collect();
        let mut back = [0.0; 4];
        found.gradient(&products, &mut back);
        for (back, expected) in back.iter().zip([0.5, -1.0, 2.0, 0.25]) {
            assert!((back - expected).abs() < 1e-9, "{back} {expected}");
        }
    }

    #[test]
    fn no_curvature_leaves_the_parameters_finite() {
        for shape in [LinearShape::Vector, LinearShape::Matrix] {
            let moments = vec![0.0; moment_count(shape, 3)];
            let found = Preconditioner::new(shape, 3, &moments, Ridge::default());
            let n = weights(shape, 3) + 3;
            let mut params = vec![f64::NAN; n];
            found.params(&vec![1.0; n], &mut params);
            assert!(params.iter().all(|p| p.is_finite()));
        }
    }
}

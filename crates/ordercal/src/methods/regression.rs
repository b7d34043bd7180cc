//! Logistic regression of a class against the rest, for `platt` and `beta`.

use serde::{Deserialize, Serialize};

use super::binary::BinaryCase;
use crate::math::exp::softplus_f64;
use crate::math::simd::vectorized;

/// The targets of a logistic regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Targets {
    /// 1 for the class, 0 for the rest. On separable data there is no finite optimum, and the fit ends where the loss no
    /// longer changes.
    Labels,
    /// Platt's targets: (n₊ + 1)/(n₊ + 2) for the class and 1/(n₋ + 2) for the rest, with the numbers of rows n₊ and n₋.
    /// The optimum is finite for all data.
    Platt,
}

/// The rows of a regression: two standardised features each (the second is 0 if there is one), a target and a weight.
///
/// Newton's method is invariant to scale, but its linear systems are better conditioned with standardised features.
pub(super) struct Examples {
    features: [Feature; 2],
    /// They add up to 1.
    weights: Vec<f64>,
    mean_target: f64,
    /// The means of target times feature: all that the loss needs of the targets.
    products: [f64; 2],
}

/// A feature of all rows, (x − mean)/scale.
struct Feature {
    values: Vec<f64>,
    mean: f64,
    scale: f64,
}

impl Examples {
    /// The log-odds of the cases of a class as the only feature.
    pub(super) fn of_log_odds(cases: &[BinaryCase], targets: Targets) -> Self {
        let log_odds = cases.iter().map(|case| case.log_odds).collect();
        Self::new(cases, targets, [log_odds, vec![0.0; cases.len()]])
    }

    /// The features ln p and −ln(1 − p) of the cases of a class.
    pub(super) fn of_log_probabilities(cases: &[BinaryCase], targets: Targets) -> Self {
        let mut log_p: Vec<f64> = cases.iter().map(|case| case.log_odds).collect();
        let mut rest = vec![0.0; cases.len()];
        write_log_probabilities(&mut log_p, &mut rest);
        Self::new(cases, targets, [log_p, rest])
    }

    fn new(cases: &[BinaryCase], targets: Targets, features: [Vec<f64>; 2]) -> Self {
        let count = |positive: bool| -> f64 {
            let counted = cases.iter().filter(|case| case.positive == positive);
            counted.map(|case| case.weight).sum()
        };
        let (negatives, positives) = (count(false), count(true));
        let (low, high) = match targets {
            Targets::Labels => (0.0, 1.0),
            Targets::Platt => (
                1.0 / (negatives + 2.0),
                (positives + 1.0) / (positives + 2.0),
            ),
        };
        let weights: Vec<f64> = cases.iter().map(|case| case.weight).collect();
        let target = |case: &BinaryCase| if case.positive { high } else { low };
        Self::from_columns(features, cases.iter().map(target), weights)
    }

    fn from_columns(
        features: [Vec<f64>; 2],
        targets: impl Iterator<Item = f64>,
        mut weights: Vec<f64>,
    ) -> Self {
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        let features = features.map(|values| Feature::standardised(values, &weights));
        let mut mean_target = 0.0;
        let mut products = [0.0; 2];
        for (row, (target, weight)) in targets.zip(&weights).enumerate() {
            mean_target += weight * target;
            for (product, feature) in products.iter_mut().zip(&features) {
                *product += weight * target * feature.values[row];
            }
        }
        Self {
            features,
            weights,
            mean_target,
            products,
        }
    }
}

impl Feature {
    fn standardised(mut values: Vec<f64>, weights: &[f64]) -> Self {
        let weighted = || values.iter().zip(weights);
        let mean: f64 = weighted().map(|(x, w)| w * x).sum();
        let variance: f64 = weighted().map(|(x, w)| w * (x - mean).powi(2)).sum();
        let spread = variance.sqrt();
        let scale = if spread > 1e-12 { spread } else { 1.0 };
        for value in &mut values {
            *value = (*value - mean) / scale;
        }
        Self {
            values,
            mean,
            scale,
        }
    }
}

/// Newton's steps: on separable data the loss decreases by a constant factor with each, and there are at most about 35.
const MAX_ITERATIONS: usize = 100;
/// The last step is one that promises less than this part of the loss. Newton's method has squared the error by then, so the
/// step is taken without a look at the loss, whose rounding would hide what it gains.
const LAST_STEP: f64 = 1e-11;

/// Minimises the mean of ln(1 + eᶻ) − tz over w and c, with z = w·f + c for features f and target t, by Newton's method with
/// a backtracking line search. Returns [w₁, w₂, c] and the minimum; the weight of a feature that is not `used` is 0.
pub(super) fn regress(examples: &Examples, used: [bool; 2]) -> ([f64; 3], f64) {
    if examples.weights.is_empty() {
        return ([0.0; 3], 0.0);
    }
    let mean_target = examples.mean_target.clamp(1e-12, 1.0 - 1e-12);
    let mut point = [0.0, 0.0, (mean_target / (1.0 - mean_target)).ln()];
    let mut of_targets = [0.0, 0.0, examples.mean_target];
    let zeros = vec![0.0; examples.weights.len()];
    let mut columns = [&zeros[..]; 2];
    for place in (0..2).filter(|&place| used[place]) {
        of_targets[place] = examples.products[place];
        columns[place] = &examples.features[place].values;
    }
    let evaluate = |point: &[f64; 3]| {
        let mut sums = add_up(columns[0], columns[1], &examples.weights, point);
        for ((slope, target), value) in sums.gradient.iter_mut().zip(of_targets).zip(point) {
            sums.value -= target * value;
            *slope -= target;
        }
        sums
    };
    let mut current = evaluate(&point);
    for _ in 0..MAX_ITERATIONS {
        let step = solve(current.hessian, current.gradient);
        let slope: f64 = (0..3).map(|i| current.gradient[i] * step[i]).sum();
        let along = |length: f64| std::array::from_fn(|i| point[i] - length * step[i]);
        if slope <= LAST_STEP * current.value.abs().max(1e-3) {
            point = along(1.0);
            break;
        }
        let mut length = 1.0;
        let next = loop {
            let trial: [f64; 3] = along(length);
            let at_trial = evaluate(&trial);
            if at_trial.value <= current.value - 1e-4 * length * slope {
                break Some((trial, at_trial));
            }
            length *= 0.5;
            if length < 1e-8 {
                break None;
            }
        };
        let Some(next) = next else {
            break;
        };
        (point, current) = next;
    }
    let mut result = [0.0, 0.0, point[2]];
    for (place, feature) in examples.features.iter().enumerate() {
        result[place] = point[place] / feature.scale;
        result[2] -= result[place] * feature.mean;
    }
    (result, current.value)
}

/// The weighted sums over the rows of ln(1 + eᶻ) and its derivatives.
struct Sums {
    value: f64,
    gradient: [f64; 3],
    /// The lower triangle.
    hessian: [[f64; 3]; 3],
}

const LANES: usize = 8;
/// Value, gradient and Hessian.
const TERMS: usize = 10;

vectorized! {
    /// The sums in lanes.
    fn add_up(x: &[f64], y: &[f64], weights: &[f64], point: &[f64; 3]) -> Sums {
        let mut sums = [[0.0; LANES]; TERMS];
        for start in (0..x.len()).step_by(LANES) {
            // Rows of weight 0 fill the last lanes.
            let part = |column: &[f64]| match column[start..].first_chunk::<LANES>() {
                Some(lanes) => *lanes,
                None => std::array::from_fn(|lane| column.get(start + lane).copied().unwrap_or(0.0)),
            };
            add_lanes(&mut sums, &part(x), &part(y), &part(weights), point);
        }
        let [value, gx, gy, gc, xx, xy, yy, xc, yc, cc] = sums.map(|lanes| lanes.iter().sum());
        Sums {
            value,
            gradient: [gx, gy, gc],
            hessian: [[xx, 0.0, 0.0], [xy, yy, 0.0], [xc, yc, cc]],
        }
    }
}

#[inline(always)]
fn add_lanes(
    sums: &mut [[f64; LANES]; TERMS],
    x: &[f64; LANES],
    y: &[f64; LANES],
    weights: &[f64; LANES],
    point: &[f64; 3],
) {
    for (lane, ((&x, &y), &weight)) in x.iter().zip(y).zip(weights).enumerate() {
        let z = x * point[0] + y * point[1] + point[2];
        let (softplus, p) = softplus_f64(z);
        let slope = weight * p;
        let curvature = slope * (1.0 - p);
        sums[0][lane] += weight * softplus;
        sums[1][lane] += slope * x;
        sums[2][lane] += slope * y;
        sums[3][lane] += slope;
        sums[4][lane] += curvature * x * x;
        sums[5][lane] += curvature * x * y;
        sums[6][lane] += curvature * y * y;
        sums[7][lane] += curvature * x;
        sums[8][lane] += curvature * y;
        sums[9][lane] += curvature;
    }
}

vectorized! {
    /// Replaces log-odds by ln p, and writes −ln(1 − p).
    fn write_log_probabilities(log_odds: &mut [f64], rest: &mut [f64]) {
        for (log_odds, rest) in log_odds.iter_mut().zip(rest) {
            let own = softplus_f64(-*log_odds).0;
            *rest = softplus_f64(*log_odds).0;
            *log_odds = -own;
        }
    }
}

/// Solves the 3×3 system by Cholesky decomposition; the diagonal is damped until the matrix is positive definite.
fn solve(lower: [[f64; 3]; 3], right: [f64; 3]) -> [f64; 3] {
    let trace = lower[0][0] + lower[1][1] + lower[2][2];
    let mut damping = 1e-14 * trace + 1e-300;
    'again: loop {
        let mut l = [[0.0; 3]; 3];
        for i in 0..3 {
            for j in 0..=i {
                let sum: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
                if i == j {
                    let square = lower[i][i] + damping - sum;
                    if square <= 1e-2 * damping {
                        damping *= 100.0;
                        continue 'again;
                    }
                    l[i][i] = square.sqrt();
                } else {
                    l[i][j] = (lower[i][j] - sum) / l[j][j];
                }
            }
        }
        let mut x = right;
        for i in 0..3 {
            let sum: f64 = (0..i).map(|k| l[i][k] * x[k]).sum();
            x[i] = (x[i] - sum) / l[i][i];
        }
        for i in (0..3).rev() {
            let sum: f64 = (i + 1..3).map(|k| l[k][i] * x[k]).sum();
            x[i] = (x[i] - sum) / l[i][i];
        }
        return x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::log_probabilities;
    use crate::models::one_vs_rest::logistic;
    use crate::rng::Rng;

    #[test]
    fn the_gradient_vanishes_at_the_solution() {
        let mut rng = Rng::new(92);
        for rows in [300, 301, 307] {
            let x: Vec<f64> = (0..rows).map(|_| rng.normal() * 4.0 - 30.0).collect();
            let y: Vec<f64> = (0..rows).map(|_| rng.normal() * 0.01).collect();
            let chance = |i: usize| logistic(0.5 * (x[i] + 30.0) + 100.0 * y[i] + 0.3);
            let targets: Vec<f64> = (0..rows)
                .map(|i| {
                    if rng.uniform() < chance(i) {
                        0.99
                    } else {
                        0.02
                    }
                })
                .collect();
            let weights: Vec<f64> = (0..rows).map(|i| (i % 3) as f64).collect();
            let columns = [x.clone(), y.clone()];
            let examples =
                Examples::from_columns(columns, targets.iter().copied(), weights.clone());
            let total: f64 = weights.iter().sum();
            for used in [[true, true], [true, false], [false, true], [false, false]] {
                let (found, minimum) = regress(&examples, used);
                let loss = |w: &[f64; 3]| -> f64 {
                    let one = |i: usize| {
                        let z = w[0] * x[i] + w[1] * y[i] + w[2];
                        weights[i] * (z.max(0.0) + (-z.abs()).exp().ln_1p() - targets[i] * z)
                    };
                    (0..rows).map(one).sum()
                };
                assert!((loss(&found) / total - minimum).abs() < 1e-10);
                for i in [0, 1, 2] {
                    if i < 2 && !used[i] {
                        assert_eq!(found[i], 0.0);
                        continue;
                    }
                    let h = [1e-5, 1e-3, 1e-4][i];
                    let (mut left, mut right) = (found, found);
                    left[i] -= h;
                    right[i] += h;
                    let slope = (loss(&right) - loss(&left)) / (2.0 * h);
                    assert!(slope.abs() < 1e-4, "{used:?} {i}: {slope}");
                }
            }
        }
    }

    #[test]
    fn separable_and_one_sided_data_have_finite_solutions() {
        let case = |x: f64, positive: bool| BinaryCase {
            log_odds: x,
            weight: 1.0,
            positive,
        };
        let regress = |cases: &[BinaryCase]| {
            let examples = Examples::of_log_odds(cases, Targets::Labels);
            regress(&examples, [true, false])
        };
        let separable: Vec<BinaryCase> =
            (-5..5).map(|i| case(f64::from(i) + 0.5, i >= 0)).collect();
        let (found, loss) = regress(&separable);
        assert!(
            found.iter().all(|c| c.is_finite()) && loss < 1e-6,
            "{found:?} {loss}"
        );
        let never: Vec<BinaryCase> = (0..9).map(|i| case(f64::from(i), false)).collect();
        let (found, loss) = regress(&never);
        assert!(
            found.iter().all(|c| c.is_finite()) && loss < 1e-6,
            "{found:?} {loss}"
        );
        assert_eq!(regress(&[]).0, [0.0; 3]);
    }

    #[test]
    fn features_are_logarithms_of_the_probabilities() {
        let cases: Vec<BinaryCase> = (-40..40)
            .map(|i| BinaryCase {
                log_odds: f64::from(i),
                weight: 1.0,
                positive: i % 3 == 0,
            })
            .collect();
        let examples = Examples::of_log_probabilities(&cases, Targets::Platt);
        for (row, case) in cases.iter().enumerate() {
            let exact = log_probabilities(case.log_odds);
            for (feature, exact) in examples.features.iter().zip(exact) {
                let found = feature.values[row] * feature.scale + feature.mean;
                assert!((found - exact).abs() < 1e-13, "{found} {exact}");
            }
        }
    }
}

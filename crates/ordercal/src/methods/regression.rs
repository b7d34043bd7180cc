//! Logistic regression of a class against the rest, for `platt` and `beta`.

use serde::{Deserialize, Serialize};

use super::binary::BinaryCase;
use crate::math::exp::softplus_f64;

/// The targets of a logistic regression.
///
/// ```
/// use ordercal::Platt;
/// use ordercal::methods::Targets;
///
/// assert_eq!(Platt::default().with_targets(Targets::Labels).targets, Targets::Labels);
/// ```
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

/// One row of a regression: two features, target and weight.
pub(super) struct Example {
    pub features: [f64; 2],
    pub target: f64,
    pub weight: f64,
}

/// The rows of a regression from the cases of a class; `features` maps log-odds to features.
pub(super) fn examples(
    cases: &[BinaryCase],
    targets: Targets,
    features: impl Fn(f64) -> [f64; 2],
) -> Vec<Example> {
    let count = |positive: bool| -> f64 {
        let counted = cases.iter().filter(|case| case.positive == positive);
        counted.map(|case| case.weight).sum()
    };
    let (low, high) = match targets {
        Targets::Labels => (0.0, 1.0),
        Targets::Platt => {
            let (negatives, positives) = (count(false), count(true));
            (
                1.0 / (negatives + 2.0),
                (positives + 1.0) / (positives + 2.0),
            )
        }
    };
    let example = |case: &BinaryCase| Example {
        features: features(case.log_odds),
        target: if case.positive { high } else { low },
        weight: case.weight,
    };
    cases.iter().map(example).collect()
}

const MAX_ITERATIONS: usize = 100;

/// Minimises the mean of ln(1 + eᶻ) − tz over w and c, with z = w·f + c for features f and target t, by Newton's method with
/// a backtracking line search. Returns [w₁, w₂, c] and the minimum; the weight of a feature that is not `used` is 0.
pub(super) fn regress(examples: &[Example], used: [bool; 2]) -> ([f64; 3], f64) {
    let total: f64 = examples.iter().map(|e| e.weight).sum();
    if examples.is_empty() {
        return ([0.0; 3], 0.0);
    }
    // Features are standardised: Newton's method is invariant to scale, but the linear systems become better conditioned.
    let mut scales = [(0.0, 1.0); 2];
    for (f, scale) in scales.iter_mut().enumerate() {
        let mean = moment(examples, total, |e| e.features[f]);
        let variance = moment(examples, total, |e| (e.features[f] - mean).powi(2));
        let spread = variance.sqrt();
        *scale = (mean, if spread > 1e-12 { spread } else { 1.0 });
    }
    let inputs = |e: &Example| -> [f64; 3] {
        let input = |f: usize| {
            if used[f] {
                (e.features[f] - scales[f].0) / scales[f].1
            } else {
                0.0
            }
        };
        [input(0), input(1), 1.0]
    };
    let mean_target = moment(examples, total, |e| e.target).clamp(1e-12, 1.0 - 1e-12);
    let mut point = [0.0, 0.0, (mean_target / (1.0 - mean_target)).ln()];
    let evaluate = |point: &[f64; 3]| {
        let (mut value, mut gradient, mut hessian) = (0.0, [0.0; 3], [[0.0; 3]; 3]);
        for example in examples {
            let x = inputs(example);
            let z = x[0] * point[0] + x[1] * point[1] + point[2];
            let (softplus, p) = softplus_f64(z);
            let weight = example.weight / total;
            value += weight * (softplus - example.target * z);
            for i in 0..3 {
                gradient[i] += weight * (p - example.target) * x[i];
                for j in 0..=i {
                    hessian[i][j] += weight * p * (1.0 - p) * x[i] * x[j];
                }
            }
        }
        (value, gradient, hessian)
    };
    let mut current = evaluate(&point);
    for _ in 0..MAX_ITERATIONS {
        let step = solve(current.2, current.1);
        let slope: f64 = (0..3).map(|i| current.1[i] * step[i]).sum();
        if slope <= 1e-16 * current.0.abs().max(1e-3) {
            break;
        }
        let mut length = 1.0;
        let next = loop {
            let trial: [f64; 3] = std::array::from_fn(|i| point[i] - length * step[i]);
            let at_trial = evaluate(&trial);
            if at_trial.0 <= current.0 - 1e-4 * length * slope {
                break Some((trial, at_trial));
            }
            length *= 0.5;
            if length < 1e-8 {
                break None;
            }
        };
        let Some((trial, at_trial)) = next else {
            break;
        };
        let gain = current.0 - at_trial.0;
        (point, current) = (trial, at_trial);
        // On separable data the loss has no minimum and decreases ever more slowly.
        if gain < 1e-15 {
            break;
        }
    }
    let mut result = [0.0, 0.0, point[2]];
    for f in 0..2 {
        if used[f] {
            result[f] = point[f] / scales[f].1;
            result[2] -= result[f] * scales[f].0;
        }
    }
    (result, current.0)
}

fn moment(examples: &[Example], total: f64, of: impl Fn(&Example) -> f64) -> f64 {
    let sum: f64 = examples.iter().map(|e| e.weight * of(e)).sum();
    sum / total
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
    use crate::models::one_vs_rest::logistic;
    use crate::rng::Rng;

    #[test]
    fn the_gradient_vanishes_at_the_solution() {
        let mut rng = Rng::new(92);
        let examples: Vec<Example> = (0..300)
            .map(|i| {
                let f = [rng.normal() * 4.0 - 30.0, rng.normal() * 0.01];
                let p = logistic(0.5 * (f[0] + 30.0) + 100.0 * f[1] + 0.3);
                Example {
                    features: f,
                    target: if rng.uniform() < p { 0.99 } else { 0.02 },
                    weight: f64::from(i % 3),
                }
            })
            .collect();
        for used in [[true, true], [true, false], [false, true], [false, false]] {
            let (found, _) = regress(&examples, used);
            let loss = |w: &[f64; 3]| -> f64 {
                let one = |e: &Example| {
                    let z = w[0] * e.features[0] + w[1] * e.features[1] + w[2];
                    e.weight * (softplus_f64(z).0 - e.target * z)
                };
                examples.iter().map(one).sum()
            };
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

    #[test]
    fn separable_and_one_sided_data_have_finite_solutions() {
        let example = |x: f64, target: f64| Example {
            features: [x, 0.0],
            target,
            weight: 1.0,
        };
        let separable: Vec<Example> = (-5..5)
            .map(|i| example(f64::from(i) + 0.5, f64::from(u8::from(i >= 0))))
            .collect();
        let (found, loss) = regress(&separable, [true, false]);
        assert!(
            found.iter().all(|c| c.is_finite()) && loss < 1e-6,
            "{found:?} {loss}"
        );
        let never: Vec<Example> = (0..9).map(|i| example(f64::from(i), 0.0)).collect();
        let (found, loss) = regress(&never, [true, false]);
        assert!(
            found.iter().all(|c| c.is_finite()) && loss < 1e-6,
            "{found:?} {loss}"
        );
        assert_eq!(regress(&[], [true, true]).0, [0.0; 3]);
    }
}

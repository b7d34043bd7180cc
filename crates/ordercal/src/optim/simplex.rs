//! Weights of a mixture by maximum likelihood: a convex problem on the simplex.

use rayon::prelude::*;

/// The maximum-likelihood weights.
#[derive(Debug, Clone)]
pub(crate) struct Mixture {
    /// One weight per component, each at least 0, summing to 1.
    pub weights: Vec<f64>,
    /// The mean negative log-likelihood there.
    pub nll: f64,
}

/// Rows per partial sum; fixed, so that sums do not depend on the number of threads.
const PIECE: usize = 4096;
/// The tolerance on the mean log-likelihood.
const TOLERANCE: f64 = 1e-10;
const MAX_ITERATIONS: usize = 50;

/// Maximises Σ wᵢ ln Σⱼ πⱼ Lᵢⱼ over weights π ≥ 0 with Σπ = 1, for rows of likelihoods L and row weights w.
///
/// Adding Σπ to the mean negative log-likelihood removes the constraint Σπ = 1: the minimum over π ≥ 0 then lies on the
/// simplex (Kim, Carbonetto, Stephens and Anitescu, 2020). Newton's method needs a handful of passes where expectation
/// maximisation needs hundreds. Its quadratic models have as many variables as there are components; coordinate descent
/// minimises them subject to π ≥ 0. `start` must lie on the simplex.
pub(crate) fn mixture(
    likelihoods: &[f64],
    start: &[f64],
    row_weight: &(dyn Fn(usize) -> f64 + Sync),
) -> Mixture {
    let rows = likelihoods.len() / start.len();
    let total: f64 = (0..rows).map(row_weight).sum();
    let mut weights = start.to_vec();
    let mut here = local(likelihoods, &weights, row_weight, total);
    for _ in 0..MAX_ITERATIONS {
        // By convexity, the smallest component of the gradient bounds the possible gain.
        let steepest = here.gradient.iter().copied().fold(f64::INFINITY, f64::min);
        if steepest >= -TOLERANCE {
            break;
        }
        if let Some(point) = em_step(&here, &weights) {
            here = local(likelihoods, &point, row_weight, total);
            weights = point;
            continue;
        }
        let step = newton_step(&here, &weights);
        let slope: f64 = step.iter().zip(&here.gradient).map(|(s, g)| s * g).sum();
        // The predicted gain is below the tolerance; rounding errors would decide whether the step is accepted.
        if slope >= -TOLERANCE {
            break;
        }
        let mut length = 1.0;
        let next = loop {
            // Among the multiples of a point, the one on the simplex is the best.
            let moved = weights.iter().zip(&step);
            let point = normalised(moved.map(|(w, s)| (w + length * s).max(0.0)).collect());
            let there = local(likelihoods, &point, row_weight, total);
            if there.value <= here.value + 1e-4 * length * slope {
                break Some((point, there));
            }
            length *= 0.5;
            if length < 1e-10 {
                break None;
            }
        };
        let Some((point, there)) = next else { break };
        weights = point;
        here = there;
    }
    Mixture {
        weights,
        nll: here.value - 1.0,
    }
}

/// A step of expectation maximisation, if it multiplies some weight by a large factor.
///
/// If a single row needs a component whose weight is close to 0, a Newton step only doubles that weight. Expectation
/// maximisation assigns the row's share at once, and never decreases the likelihood.
fn em_step(here: &Expansion, weights: &[f64]) -> Option<Vec<f64>> {
    const LARGE_FACTOR: f64 = 8.0;
    let factors = here.gradient.iter().map(|gradient| 1.0 - gradient);
    let mut pairs = weights.iter().zip(factors.clone());
    if !pairs.any(|(&weight, factor)| weight > 0.0 && factor > LARGE_FACTOR) {
        return None;
    }
    let moved = weights.iter().zip(factors);
    Some(normalised(moved.map(|(w, f)| w * f).collect()))
}

fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// Value, gradient and Hessian (row by row) of the problem without the constraint Σπ = 1.
struct Expansion {
    value: f64,
    gradient: Vec<f64>,
    hessian: Vec<f64>,
}

fn local(
    likelihoods: &[f64],
    weights: &[f64],
    row_weight: &(dyn Fn(usize) -> f64 + Sync),
    total: f64,
) -> Expansion {
    let m = weights.len();
    let parts: Vec<Vec<f64>> = likelihoods
        .par_chunks(PIECE * m)
        .enumerate()
        .map(|(piece, rows)| {
            let mut sums = vec![0.0; 1 + m + m * m];
            for (row, likelihood) in rows.chunks_exact(m).enumerate() {
                let weight = row_weight(piece * PIECE + row) / total;
                let mixed: f64 = likelihood.iter().zip(weights).map(|(l, w)| l * w).sum();
                let mixed = mixed.max(f64::MIN_POSITIVE);
                sums[0] -= weight * mixed.ln();
                for i in 0..m {
                    let share = likelihood[i] / mixed;
                    sums[1 + i] -= weight * share;
                    for j in 0..=i {
                        sums[1 + m + i * m + j] += weight * share * (likelihood[j] / mixed);
                    }
                }
            }
            sums
        })
        .collect();
    let mut sums = vec![0.0; 1 + m + m * m];
    for part in parts {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum += value;
        }
    }
    let mut hessian = sums.split_off(1 + m);
    for i in 0..m {
        for j in 0..i {
            hessian[j * m + i] = hessian[i * m + j];
        }
    }
    Expansion {
        value: sums[0] + weights.iter().sum::<f64>(),
        gradient: sums[1..].iter().map(|g| g + 1.0).collect(),
        hessian,
    }
}

/// Minimises the quadratic model subject to weights + step ≥ 0, by coordinate descent.
fn newton_step(local: &Expansion, weights: &[f64]) -> Vec<f64> {
    let m = weights.len();
    let trace: f64 = (0..m).map(|i| local.hessian[i * m + i]).sum();
    // If two components have equal likelihoods, the Hessian is singular.
    let ridge = 1e-10 * trace;
    let mut step = vec![0.0; m];
    for _ in 0..2000 {
        let mut moved: f64 = 0.0;
        for i in 0..m {
            let row = &local.hessian[i * m..][..m];
            let slope = local.gradient[i] + row.iter().zip(&step).map(|(h, s)| h * s).sum::<f64>();
            let curvature = row[i] + ridge;
            if curvature > 0.0 {
                let next = (step[i] - (slope + ridge * step[i]) / curvature).max(-weights[i]);
                moved = moved.max((next - step[i]).abs());
                step[i] = next;
            }
        }
        if moved < 1e-13 {
            break;
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Expectation maximisation: slow, but simple and monotone.
    fn slow(likelihoods: &[f64], m: usize, row_weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut weights = vec![1.0 / m as f64; m];
        for _ in 0..20_000 {
            let mut next = vec![0.0; m];
            for (row, l) in likelihoods.chunks_exact(m).enumerate() {
                let mixed: f64 = l.iter().zip(&weights).map(|(l, w)| l * w).sum();
                for j in 0..m {
                    next[j] += row_weight(row) * weights[j] * l[j] / mixed;
                }
            }
            let sum: f64 = next.iter().sum();
            weights = next.iter().map(|w| w / sum).collect();
        }
        weights
    }

    #[test]
    fn agrees_with_expectation_maximisation() {
        let mut rng = Rng::new(61);
        for m in [2, 3, 6] {
            // The last component is worse than the first everywhere: its weight is exactly 0.
            let likelihoods: Vec<f64> = (0..400)
                .flat_map(|_| {
                    let mut row: Vec<f64> = (0..m).map(|_| rng.uniform() + 0.01).collect();
                    row[m - 1] = 0.5 * row[0];
                    row
                })
                .collect();
            let weight = |row: usize| (row % 3) as f64;
            let found = mixture(&likelihoods, &vec![1.0 / m as f64; m], &weight);
            let expected = slow(&likelihoods, m, weight);
            assert!((found.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (ours, exact) in found.weights.iter().zip(&expected) {
                assert!((ours - exact).abs() < 1e-3, "{m}: {found:?} {expected:?}");
            }
            assert!(found.weights[m - 1] < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn copes_with_equal_components_and_zeros() {
        let likelihoods = [0.5, 0.5, 0.0, 0.2, 0.2, 0.9, 0.0, 0.0, 0.0];
        let found = mixture(&likelihoods, &[1.0 / 3.0; 3], &|_| 1.0);
        assert!(found.nll.is_finite() && found.weights.iter().all(|w| w.is_finite()));
    }

    #[test]
    fn a_single_surprising_row_gets_its_share() {
        for rare in [1e-12, 1e-20, 1e-60] {
            let mut likelihoods = [0.9, 0.5, 0.1].repeat(999);
            likelihoods.extend([rare, 0.0, 0.1]);
            // The second component is never the best, so the optimum is a function of the third one's weight.
            let nll = |w: f64| {
                let usual = (0.9 * (1.0 - w) + 0.1 * w).ln();
                -(999.0 * usual + (rare * (1.0 - w) + 0.1 * w).ln()) / 1000.0
            };
            let (mut low, mut high) = (1e-9_f64.ln(), 0.5_f64.ln());
            for _ in 0..200 {
                let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
                if nll(a.exp()) < nll(b.exp()) {
                    high = b;
                } else {
                    low = a;
                }
            }
            let best = nll(low.exp());
            for start in [[1.0 / 3.0; 3], [1.0, 0.0, 0.0]] {
                let found = mixture(&likelihoods, &start, &|_| 1.0);
                assert!(
                    (found.nll - best).abs() < 1e-8,
                    "{rare:e} from {start:?}: {} instead of {best}",
                    found.nll
                );
            }
        }
    }
}

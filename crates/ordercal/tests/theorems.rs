//! The paper's theorems, checked on examples.

#![allow(clippy::float_cmp)] // Exact results are promised.

use ndarray::{Array1, Array2};
use ordercal::models::{DiagModel, TsModel, Wiring};
use ordercal::rank::{Sorter, TieBreaker, reverse_cumsum, same_ranking};
use ordercal::{InputKind, Model, Rng, ScoreKind, Scores};
use ordercal_testkit::models::{fitted, random_network};
use ordercal_testkit::rows::hostile;

/// f(x) = S(x)⁻¹ U w(x), as in Theorem 1.
fn theorem_1(x: &[f32], ties: &TieBreaker, w: impl Fn(&[f64], usize) -> f64) -> Vec<f64> {
    let order = Sorter::with_ties(x.len(), ties.clone())
        .unwrap()
        .sort(x)
        .to_vec();
    let y: Vec<f64> = order.iter().map(|&c| f64::from(x[c as usize])).collect();
    let mut stacked: Vec<f64> = (0..x.len()).map(|i| w(&y, i)).collect();
    reverse_cumsum(&mut stacked);
    let mut f = vec![0.0; x.len()];
    for (position, &class) in order.iter().enumerate() {
        f[class as usize] = stacked[position];
    }
    f
}

/// Random rows with ties.
fn row(rng: &mut Rng, classes: usize) -> Vec<f32> {
    (0..classes)
        .map(|_| (rng.normal() * 4.0).round() as f32 / 2.0)
        .collect()
}

#[test]
fn theorem_1_any_such_w_keeps_the_order() {
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let classes = 2 + rng.below(9);
        let x = row(&mut rng, classes);
        // A random continuous w: a power of the gap times a positive function of the whole row.
        let (power, lift) = (0.5 + 2.0 * rng.uniform(), rng.normal());
        let factors: Vec<f64> = (0..classes).map(|_| rng.normal()).collect();
        let sum: f64 = x.iter().zip(&factors).map(|(&v, c)| f64::from(v) * c).sum();
        let w = |y: &[f64], i: usize| match y.get(i + 1) {
            Some(next) => (y[i] - next).powf(power) * (1.0 + (sum + i as f64 * lift).sin().powi(2)),
            None => sum,
        };
        let f = theorem_1(&x, &TieBreaker::by_index(), w);
        assert!(same_ranking(&x, &f), "{x:?} became {f:?}");
        // The function does not depend on the tie breaker.
        let mut priorities: Vec<u32> = (1..=classes as u32).collect();
        rng.shuffle(&mut priorities);
        let ties = TieBreaker::from_priorities(&priorities).unwrap();
        assert_eq!(theorem_1(&x, &ties, w), f);
    }
}

#[test]
fn theorem_1_every_order_preserving_function_has_such_a_w() {
    let mut rng = Rng::new(2);
    // Order-preserving functions that were not built by the theorem.
    type RowFunction = fn(&[f64]) -> Vec<f64>;
    let functions: [RowFunction; 4] = [
        |x| x.iter().map(|v| 0.3 * v - 7.0).collect(),
        |x| x.iter().map(|v| v.powi(3) + v).collect(),
        |x| {
            let total: f64 = x.iter().map(|v| v.exp()).sum();
            x.iter().map(|v| v.exp() / total).collect()
        },
        |x| {
            let norm: f64 = x.iter().map(|v| v * v).sum();
            x.iter().map(|v| v * (1.0 + norm) - norm.sin()).collect()
        },
    ];
    for _ in 0..500 {
        let classes = 2 + rng.below(9);
        let x = row(&mut rng, classes);
        let order = Sorter::new(classes).sort(&x).to_vec();
        let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
        for f in functions {
            let f = f(&wide);
            let sorted: Vec<f64> = order.iter().map(|&c| f[c as usize]).collect();
            // w = U⁻¹ S(x) f(x) are the steps of the sorted result.
            let w = |_: &[f64], i: usize| sorted[i] - sorted.get(i + 1).copied().unwrap_or(0.0);
            for i in 0..classes - 1 {
                let (here, next) = (x[order[i] as usize], x[order[i + 1] as usize]);
                let step = w(&[], i);
                assert!(
                    if here > next { step > 0.0 } else { step == 0.0 },
                    "{x:?}: w_{i} = {step}"
                );
            }
            let rebuilt = theorem_1(&x, &TieBreaker::by_index(), w);
            assert!(rebuilt.iter().zip(&f).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}

/// Applies a model to one row.
fn apply(model: &Model, x: &[f32]) -> Vec<f64> {
    model.apply_row(x, ScoreKind::Logits).unwrap()
}

/// Whether a model is built of order-invariant ones. A projected model may treat classes differently.
fn order_invariant(model: &Model) -> bool {
    match model {
        Model::Network(network) => network.to_parts().wiring == Wiring::SortedToGaps,
        Model::Mixture(mixture) => mixture.members().iter().all(|(_, m)| order_invariant(m)),
        Model::Chain(chain) => order_invariant(chain.first()) && order_invariant(chain.then()),
        model => model.order_preserving() && !matches!(model, Model::Ordered(_)),
    }
}

#[test]
fn theorem_2_order_invariance_is_exact_for_ts_diag_and_oi() {
    let mut rng = Rng::new(3);
    for classes in [2, 3, 10, 41] {
        let mut models = fitted(classes, 5);
        models.retain(order_invariant);
        for input in [InputKind::Raw, InputKind::LogSoftmax, InputKind::Centred] {
            models.push(random_network(classes, Wiring::SortedToGaps, input, &mut rng).into());
            let slopes = (0..20).map(|_| rng.normal().exp()).collect();
            models.push(
                DiagModel::from_slopes(classes, input, (-9.0, 4.0), slopes)
                    .unwrap()
                    .into(),
            );
        }
        for _ in 0..200 {
            let mut x = vec![0.0; classes];
            hostile(&mut rng, &mut x);
            let mut order: Vec<usize> = (0..classes).collect();
            rng.shuffle(&mut order);
            let permuted: Vec<f32> = order.iter().map(|&c| x[c]).collect();
            for model in &models {
                for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
                    let narrow = |x: &[f32]| model.apply_row::<f32>(x, kind).unwrap();
                    let wide = |x: &[f32]| model.apply_row::<f64>(x, kind).unwrap();
                    let (a, b) = (narrow(&x), narrow(&permuted));
                    assert!(
                        order
                            .iter()
                            .zip(&b)
                            .all(|(&c, b)| a[c].to_bits() == b.to_bits())
                    );
                    let (a, b) = (wide(&x), wide(&permuted));
                    assert!(
                        order
                            .iter()
                            .zip(&b)
                            .all(|(&c, b)| a[c].to_bits() == b.to_bits())
                    );
                }
            }
        }
    }
}

#[test]
fn op_is_not_order_invariant() {
    let mut rng = Rng::new(4);
    let op: Model = random_network(4, Wiring::ClassesToGaps, InputKind::Raw, &mut rng).into();
    let found = (0..100).any(|_| {
        let x: Vec<f32> = (0..4).map(|_| rng.normal() as f32).collect();
        let mut swapped = x.clone();
        swapped.swap(0, 3);
        let (a, mut b) = (apply(&op, &x), apply(&op, &swapped));
        b.swap(0, 3);
        a.iter().zip(&b).any(|(a, b)| (a - b).abs() > 1e-3)
    });
    assert!(found, "no counterexample");
}

#[test]
fn theorem_3_diag_is_inter_order_preserving() {
    let mut rng = Rng::new(5);
    let slopes = (0..30).map(|_| (3.0 * rng.normal()).exp()).collect();
    let diag: Model = DiagModel::from_slopes(6, InputKind::Raw, (-5.0, 5.0), slopes)
        .unwrap()
        .into();
    for _ in 0..2000 {
        let low: Vec<f32> = (0..6).map(|_| (rng.normal() * 4.0) as f32).collect();
        let high: Vec<f32> = low
            .iter()
            .map(|v| v + (rng.uniform() * 2.0) as f32)
            .collect();
        let (low, high) = (apply(&diag, &low), apply(&diag, &high));
        assert!(low.iter().zip(&high).all(|(l, h)| l <= h));
    }
}

#[test]
fn functions_are_continuous_across_ties() {
    let mut rng = Rng::new(6);
    for wiring in [Wiring::SortedToGaps, Wiring::ClassesToGaps] {
        let model: Model = random_network(5, wiring, InputKind::Raw, &mut rng).into();
        let tied = [1.0, 0.25, 0.25, 0.25, -2.0_f32];
        let at_tie = apply(&model, &tied);
        for _ in 0..50 {
            let direction: Vec<f32> = (0..5).map(|_| rng.normal() as f32).collect();
            let (mut first, mut last) = (None, f64::INFINITY);
            for size in [1e-2_f32, 1e-4, 1e-6] {
                let near: Vec<f32> = tied
                    .iter()
                    .zip(&direction)
                    .map(|(t, d)| t + size * d)
                    .collect();
                let near = apply(&model, &near);
                let distance = near
                    .iter()
                    .zip(&at_tie)
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f64::max);
                assert!(distance < last, "{wiring:?}: {distance} at {size}");
                last = distance;
                first.get_or_insert(distance);
            }
            assert!(
                last < 1e-2 * first.unwrap(),
                "{wiring:?}: {last} after {first:?}"
            );
        }
    }
}

/// f(x) = S(x)⁻¹ U w(x) in 64 bits, with a smooth m and w_i = σ(y_i − y_{i+1})·m_i. With `fixed`, that permutation is used
/// instead of S(x).
fn smooth(x: &Array1<f64>, fixed: Option<&[usize]>, sigma: fn(f64) -> f64) -> Array1<f64> {
    let n = x.len();
    let mut order: Vec<usize> = (0..n).collect();
    match fixed {
        Some(fixed) => order.copy_from_slice(fixed),
        None => order.sort_by(|&a, &b| x[b].partial_cmp(&x[a]).unwrap().then(a.cmp(&b))),
    }
    let m = |i: usize| {
        let z: f64 = x
            .iter()
            .enumerate()
            .map(|(c, v)| v * ((i * 3 + c) as f64).cos())
            .sum();
        z.exp().ln_1p() + 0.1
    };
    let mut w: Vec<f64> = (0..n)
        .map(|i| {
            if i + 1 < n {
                sigma(x[order[i]] - x[order[i + 1]]) * m(i)
            } else {
                m(i)
            }
        })
        .collect();
    reverse_cumsum(&mut w);
    let mut f = Array1::zeros(n);
    for (position, &class) in order.iter().enumerate() {
        f[class] = w[position];
    }
    f
}

#[test]
fn the_directional_derivative_at_a_tie_is_that_of_the_piece_it_enters() {
    let mut rng = Rng::new(7);
    let tied = Array1::from(vec![2.0, 0.5, 0.5, 0.5, -1.0]);
    let sigmas: [fn(f64) -> f64; 2] = [|a| a * a, |a| a];
    for sigma in sigmas {
        for _ in 0..200 {
            let d: Array1<f64> = (0..5).map(|_| rng.normal()).collect();
            // The permutation that sorts x + εd for all small ε > 0: by x, then by d.
            let mut piece: Vec<usize> = (0..5).collect();
            piece.sort_by(|&a, &b| {
                (tied[b], d[b])
                    .partial_cmp(&(tied[a], d[a]))
                    .unwrap()
                    .then(a.cmp(&b))
            });
            let epsilon = 1e-6;
            let one_sided = (smooth(&(&tied + &(&d * epsilon)), None, sigma)
                - smooth(&tied, None, sigma))
                / epsilon;
            // f̂_k = P_k⁻¹ U D(P_k x) m is smooth, so a central difference gives its derivative.
            let ahead = smooth(&(&tied + &(&d * epsilon)), Some(&piece), sigma);
            let behind = smooth(&(&tied - &(&d * epsilon)), Some(&piece), sigma);
            let formula = (ahead - behind) / (2.0 * epsilon);
            for (one_sided, formula) in one_sided.iter().zip(&formula) {
                let error = (one_sided - formula).abs();
                assert!(
                    error < 1e-4 * (1.0 + formula.abs()),
                    "{d}: {one_sided} and {formula}"
                );
            }
        }
    }
}

#[test]
fn the_appendix_example_is_not_differentiable() {
    // m = (1, 1, 1), σ(a) = a²: ∂f₁/∂x₃ at (2, 1, 1) is 0 from the left and −2 from the right.
    let f1 = |alpha: f32| {
        let x = [2.0, 1.0, 1.0 + alpha];
        let w = |y: &[f64], i: usize| y.get(i + 1).map_or(1.0, |next| (y[i] - next).powi(2));
        theorem_1(&x, &TieBreaker::by_index(), w)[0]
    };
    let h = 1.0 / 1024.0;
    let (left, right) = (
        (f1(0.0) - f1(-h)) / f64::from(h),
        (f1(h) - f1(0.0)) / f64::from(h),
    );
    assert!(left.abs() < 2e-3, "{left}");
    assert!((right + 2.0).abs() < 4e-3, "{right}");
}

#[test]
fn a_constant_m_is_temperature_scaling() {
    let mut rng = Rng::new(8);
    for wiring in [Wiring::SortedToGaps, Wiring::ClassesToGaps] {
        let mut parts = random_network(7, wiring, InputKind::Centred, &mut rng).to_parts();
        parts.params.fill(0.0);
        let beta = parts.beta;
        let network: Model = ordercal::models::NetworkModel::from_parts(parts)
            .unwrap()
            .into();
        let ts: Model = TsModel::new(7, beta).unwrap().into();
        for _ in 0..100 {
            let mut x: Vec<f32> = (0..7).map(|_| (rng.normal() * 3.0) as f32).collect();
            x[rng.below(7)] = f32::NEG_INFINITY;
            let scores = Scores::new(
                ScoreKind::Logits,
                Array2::from_shape_vec((1, 7), x).unwrap(),
            )
            .unwrap();
            let a: Array2<f64> = network.apply(&scores, ScoreKind::Probs).unwrap();
            let b: Array2<f64> = ts.apply(&scores, ScoreKind::Probs).unwrap();
            assert!((a - b).iter().all(|d| d.abs() < 1e-6), "{wiring:?}");
        }
    }
}

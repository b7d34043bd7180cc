//! The gradients of whole networks, and what training promises.

use super::micro_batch::RowMajor;
use super::optimize::adam_step;
use super::*;
use crate::math::exp::multiplier_f64;
use crate::nn::loss::{FreeTargets, Head, SortedTargets};
use crate::nn::mlp::Shape;
use crate::nn::mlp::tests::plain;
use crate::nn::transposed_head::TransposedRows;
use crate::optim::adam::{AdamState, StepSettings};
use crate::optim::{Adam, Lbfgs};
use crate::watch::Unwatched;

/// A small problem of either head, with weights and masked classes.
fn problem(
    rng: &mut Rng,
    rows: usize,
    classes: usize,
    hidden: &[usize],
    wiring: usize,
) -> NetworkLoss {
    let mut sorted = Vec::new();
    let mut inputs = Vec::new();
    let mut possible = Vec::new();
    for row in 0..rows {
        let mut y: Vec<f32> = (0..classes).map(|_| rng.normal() as f32).collect();
        y.sort_by(|a, b| b.total_cmp(a));
        let count = if row % 5 == 0 { classes - 1 } else { classes };
        let smallest = y[count - 1];
        y[count..].fill(smallest);
        let mut x = y.clone();
        rng.shuffle(&mut x);
        sorted.extend(y);
        inputs.extend(x);
        possible.push(count as u32);
    }
    let labels: Vec<u32> = possible
        .iter()
        .map(|&n| rng.below(n as usize) as u32)
        .collect();
    let sorted_head = |sorted| {
        Head::Sorted(SortedTargets {
            sorted,
            unit: 1.5,
            label_ranks: labels.clone(),
            possible: possible.clone(),
        })
    };
    let mut ends = (classes, classes);
    let (inputs, head) = match wiring {
        0 => (sorted, sorted_head(None)),
        // The two largest, and a shared multiplier behind them.
        3 => {
            ends = (2, 3);
            let top = sorted.chunks_exact(classes).flat_map(|y| y[..2].to_vec());
            (top.collect(), sorted_head(Some(sorted)))
        }
        1 => (inputs, sorted_head(Some(sorted))),
        _ => {
            let scores = possible
                .iter()
                .flat_map(|&n| {
                    (0..classes).map(move |c| {
                        if c < n as usize {
                            0.0
                        } else {
                            f32::NEG_INFINITY
                        }
                    })
                })
                .collect();
            let labels = labels.clone();
            (inputs, Head::Free(FreeTargets { scores, labels }))
        }
    };
    NetworkLoss {
        shape: Shape::new(ends.0, hidden, ends.1),
        inputs,
        classes,
        head,
        weights: Some((0..rows).map(|_| 0.1 + rng.uniform()).collect()),
    }
}

/// The sum of weighted losses, written out in 64 bits.
fn slow(loss: &NetworkLoss, widths: &[usize], params: &[f64]) -> f64 {
    let classes = loss.classes;
    (0..loss.rows())
        .map(|row| {
            let width = loss.shape.inputs();
            let input: Vec<f64> = loss.inputs[row * width..][..width]
                .iter()
                .map(|&v| v.into())
                .collect();
            let z = plain(widths, params, &input);
            let (logits, label): (Vec<f64>, usize) = match &loss.head {
                Head::Sorted(SortedTargets {
                    sorted,
                    unit,
                    label_ranks,
                    possible,
                }) => {
                    let y = &sorted.as_ref().unwrap_or(&loss.inputs)[row * classes..][..classes];
                    let n = possible[row] as usize;
                    let mut logits = vec![0.0; n];
                    for i in (0..n - 1).rev() {
                        let gap = f64::from(*unit) * (f64::from(y[i]) - f64::from(y[i + 1]));
                        logits[i] = logits[i + 1] + gap * multiplier_f64(z[i.min(z.len() - 1)]).0;
                    }
                    (logits, label_ranks[row] as usize)
                }
                Head::Free(FreeTargets { scores, labels }) => {
                    let masked = |c: usize| scores[row * classes + c] == f32::NEG_INFINITY;
                    let logits =
                        (0..classes).map(|c| if masked(c) { f64::NEG_INFINITY } else { z[c] });
                    (logits.collect(), labels[row] as usize)
                }
            };
            let sum: f64 = logits.iter().map(|v| (v - logits[label]).exp()).sum();
            loss.weight(row) * sum.ln()
        })
        .sum()
}

#[test]
fn gradients_agree_with_finite_differences_of_plain_loops() {
    let mut rng = Rng::new(61);
    for wiring in 0..4 {
        let (classes, hidden) = (5, [6, 4]);
        // More rows than a micro-batch, so that gradients are added up.
        let loss = problem(&mut rng, 300, classes, &hidden, wiring);
        let widths = loss.shape.widths().to_vec();
        let params: Vec<f32> = (0..loss.shape.params())
            .map(|_| (0.7 * rng.normal()) as f32)
            .collect();
        let wide: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
        let rows: Vec<u32> = (0..300).collect();
        let exact = slow(&loss, &widths, &wide);
        let mut batch = BatchLoss::new(&loss, 300);
        let mut at_once = vec![0.0; params.len()];
        let value = batch.gradient(&params, &rows, 1.0, &mut at_once);
        assert!((value - exact).abs() < 1e-4 * exact);
        let mut batch = BatchLoss::with_slots(&loss, 1);
        let mut summed = vec![0.0; params.len()];
        let value = batch.gradient(&params, &rows, 1.0, &mut summed);
        assert!((value - exact).abs() < 1e-4 * exact);
        let mean = batch.mean(&params, &rows) * loss.total_weight(&rows);
        assert!((mean - exact).abs() < 1e-4 * exact);
        let norm = summed.iter().map(|g| g * g).sum::<f64>().sqrt();
        for i in 0..params.len() {
            let at = |step: f64| {
                let mut moved = wide.clone();
                moved[i] += step;
                slow(&loss, &widths, &moved)
            };
            let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!(
                (summed[i] - difference).abs() < 1e-4 * norm,
                "wiring {wiring}, parameter {i}"
            );
            assert!(
                (at_once[i] - difference).abs() < 1e-4 * norm,
                "wiring {wiring}, parameter {i}"
            );
        }
    }
}

#[test]
fn batches_in_rounds_take_the_steps_of_batches_at_once() {
    let mut rng = Rng::new(65);
    for hidden in [&[6, 4][..], &[50, 60]] {
        let loss = problem(&mut rng, 600, 5, hidden, 1);
        let rows: Vec<u32> = (0..600).collect();
        let adam = Adam::default();
        let settings = StepSettings {
            adam: &adam,
            rate: 0.01,
            lambda: 1e-3,
            scale: 1.0 / 600.0,
        };
        let [at_once, in_rounds] = [8, 1].map(|slots| {
            let mut params = loss.shape.initial(&mut Rng::new(3));
            let mut state = AdamState::new(params.len());
            let mut batch = BatchLoss::with_slots(&loss, slots);
            for _ in 0..3 {
                adam_step(&mut batch, &mut params, &rows, &mut state, &settings);
            }
            params
        });
        for (a, b) in at_once.iter().zip(&in_rounds) {
            assert!((a - b).abs() < 1e-4, "{hidden:?}: {a} and {b}");
        }
    }
}

#[test]
fn transposed_data_agree_with_matrix_products() {
    let mut rng = Rng::new(64);
    for (classes, hidden) in [
        (2, vec![1]),
        (3, vec![7, 5]),
        (17, vec![20]),
        (40, vec![50]),
    ] {
        for (wiring, count) in [(0, 128), (1, 100), (0, 1)] {
            let loss = problem(&mut rng, 130, classes, &hidden, wiring);
            let Head::Sorted(targets) = &loss.head else {
                panic!("wirings 0 and 1 sort");
            };
            let params: Vec<f32> = (0..loss.shape.params())
                .map(|_| (0.5 * rng.normal()) as f32)
                .collect();
            let rows: Vec<u32> = (0..count).map(|_| rng.below(130) as u32).collect();
            let mut transposed = TransposedRows::new(&loss, targets);
            let mut gradient = vec![9.0; params.len()];
            // What earlier rows left behind must not matter.
            let all: Vec<u32> = (0..130).collect();
            transposed.evaluate(&params, &all, Some(&mut gradient));
            let value = transposed.evaluate(&params, &rows, Some(&mut gradient));
            let mut products = vec![9.0; params.len()];
            let exact = RowMajor::new(&loss).evaluate(&params, &rows, Some(&mut products));
            assert!((value - exact).abs() < 1e-5 * exact.max(1.0));
            let norm = products.iter().map(|g| g * g).sum::<f32>().sqrt();
            for (i, (a, b)) in gradient.iter().zip(&products).enumerate() {
                assert!(
                    (a - b).abs() <= 1e-5 * norm,
                    "{classes} classes, {i}: {a} and {b}"
                );
            }
        }
    }
}

#[test]
fn both_optimisers_bring_the_loss_down() {
    let mut rng = Rng::new(62);
    for wiring in 0..3 {
        let loss = problem(&mut rng, 400, 4, &[8], wiring);
        let rows: Vec<u32> = (0..400).collect();
        let initial = loss.shape.initial(&mut Rng::new(1));
        let start = BatchLoss::new(&loss, 400).mean(&initial, &rows);
        let adam = Adam::default().with_learning_rate(0.01).into();
        let by_adam = train(&loss, &adam, 1e-4, None, 1, &Unwatched).unwrap();
        let lbfgs = Lbfgs::default().with_max_iterations(500).into();
        let by_lbfgs = train(&loss, &lbfgs, 1e-4, None, 1, &Unwatched).unwrap();
        assert!(
            by_adam.nll < start && by_lbfgs.loss < by_adam.loss,
            "wiring {wiring}"
        );
    }
}

#[test]
fn early_stopping_keeps_the_best_parameters_on_the_held_out_part() {
    // Labels are noise: every step after the first few makes the held-out loss worse.
    let mut rng = Rng::new(63);
    let loss = problem(&mut rng, 200, 6, &[50], 0);
    for optimizer in [
        Optimizer::from(Adam::default().with_learning_rate(0.05).with_epochs(200)),
        Lbfgs::default().with_max_iterations(300).into(),
    ] {
        let settings = EarlyStopping::default();
        let stopped = train(&loss, &optimizer, 0.0, Some(&settings), 1, &Unwatched).unwrap();
        assert_eq!(stopped.stop, StopReason::EarlyStopping);
        let patient = EarlyStopping {
            patience: usize::MAX,
            ..settings.clone()
        };
        let through = train(&loss, &optimizer, 0.0, Some(&patient), 1, &Unwatched).unwrap();
        assert!(stopped.iterations < through.iterations);
        // The held-out rows are the last of a shuffle that anyone with the seed can repeat.
        let mut rng = Rng::new(1);
        loss.shape.initial(&mut rng);
        let mut rows: Vec<u32> = (0..200).collect();
        rng.shuffle(&mut rows);
        let held_out = &rows[160..];
        let mut batch = BatchLoss::new(&loss, 200);
        let kept = batch.mean(&stopped.params, held_out);
        let start = batch.mean(&loss.shape.initial(&mut Rng::new(1)), held_out);
        assert!(kept < start, "nothing was learned before it stopped");
        assert!(
            batch.mean(&through.params, held_out) <= kept,
            "the best was not kept"
        );
    }
}

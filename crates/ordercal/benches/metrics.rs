//! How long metrics take, as multiples of a bare softmax over the same matrix.
//!
//! `cargo bench --bench metrics`

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use ndarray::Array2;
use ordercal::metrics::{
    self, BootstrapOptions, Metric, MetricOptions, MetricState, Predictions, bootstrap,
};
use ordercal::{Dataset, ScoreKind, Scores};
use rayon::prelude::*;

fn main() {
    let (rows, classes) = (25_000, 1000);
    let (logits, labels) = made_up(rows, classes);
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("finite logits");
    let data = Dataset::new(scores, &labels).expect("labels are classes");
    let predictions = Predictions::from(&data);
    println!(
        "{rows} × {classes} f32 logits, {} threads, best of 7",
        rayon::current_num_threads()
    );

    let mut narrow = vec![0.0_f32; rows * classes];
    let std_softmax = best(7, || {
        narrow
            .par_chunks_mut(classes)
            .zip(data.scores().as_slice().par_chunks(classes))
            .for_each(|(target, row)| softmax_f32(row, target));
        black_box(&narrow);
    });
    drop(narrow);
    // What the library itself does to a row before anything is measured: softmax in 64 bits.
    let mut wide = vec![0.0_f64; rows * classes];
    let softmax = best(7, || {
        wide.par_chunks_mut(classes)
            .enumerate()
            .for_each(|(row, target)| predictions.probabilities(row, target));
        black_box(&wide);
    });
    drop(wide);
    let softmax_in_place = best(7, || {
        (0..rows).into_par_iter().with_min_len(64).for_each_init(
            || vec![0.0; classes],
            |target, row| {
                predictions.probabilities(row, target);
                black_box(&target);
            },
        );
    });
    let state = best(7, || {
        let mut state = MetricState::new(classes, MetricOptions::default()).expect("options");
        state.update(&predictions).expect("rows");
        black_box(state.finalize().expect("rows"));
    });
    let marginal = best(5, || {
        black_box(metrics::marginal_ce(&predictions, &MetricOptions::default()).expect("options"));
    });
    let everything = best(3, || {
        black_box(
            metrics::evaluate(&predictions, &Metric::ALL, &MetricOptions::default())
                .expect("options"),
        );
    });
    let line = |name: &str, seconds: f64| {
        println!(
            "{name:<44} {:>8.1} ms {:>6.2} × softmax to a matrix {:>6.2} × in place",
            seconds * 1e3,
            seconds / softmax,
            seconds / softmax_in_place
        );
    };
    line("softmax, 32 bits, standard library's exp", std_softmax);
    line("softmax, 64 bits, to a matrix", softmax);
    line("softmax, 64 bits, rows thrown away", softmax_in_place);
    line("all mergeable metrics, one pass", state);
    line("marginal_ce", marginal);
    line("all thirteen metrics", everything);

    let (logits, labels) = made_up(10_000, 10);
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("finite logits");
    let data = Dataset::new(scores, &labels).expect("labels are classes");
    let resampled = [Metric::Ece, Metric::Nll, Metric::Brier];
    let seconds = best(3, || {
        let how = BootstrapOptions::default();
        let options = MetricOptions::default();
        black_box(
            bootstrap(&Predictions::from(&data), &resampled, &options, &how).expect("options"),
        );
    });
    println!(
        "1000 resamples of ece, nll and brier, 10,000 rows: {:.0} ms",
        seconds * 1e3
    );
}

fn best(times: usize, mut work: impl FnMut()) -> f64 {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn softmax_f32(row: &[f32], target: &mut [f32]) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (target, &value) in target.iter_mut().zip(row) {
        *target = (value - max).exp();
        sum += *target;
    }
    for value in target {
        *value /= sum;
    }
}

/// Logits such as networks emit: a few classes stand out.
fn made_up(rows: usize, classes: usize) -> (Array2<f32>, Vec<usize>) {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 24) as f32
    };
    let labels: Vec<usize> = (0..rows).map(|row| (row * 7919) % classes).collect();
    let logits = Array2::from_shape_fn((rows, classes), |(row, class)| {
        let noise = 5.0 * (uniform() + uniform() + uniform() - 1.5);
        if labels[row] == class {
            noise + 14.0 * uniform()
        } else {
            noise
        }
    });
    (logits, labels)
}

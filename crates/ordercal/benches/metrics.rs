//! The time of metrics, as multiples of a softmax over the same matrix.
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
    let (logits, labels) = synthetic(rows, classes);
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("finite logits");
    let data = Dataset::new(scores, &labels).expect("labels are classes");
    let predictions = Predictions::from(&data);
    let options = MetricOptions::default();
    println!(
        "{rows} × {classes} f32 logits, {} threads; the best of each",
        rayon::current_num_threads()
    );

    // Measured first: the peak of memory never goes down again.
    let before = peak_megabytes();
    let mut marginal = Time::NEVER;
    for _ in 0..3 {
        marginal.improve(|| {
            black_box(metrics::marginal_ce(&predictions, &options).expect("options"));
        });
    }
    println!(
        "marginal_ce: {:.0} MB beside the {} MB of logits",
        peak_megabytes() - before,
        rows * classes * 4 / 1_000_000
    );

    let mut narrow = vec![0.0_f32; rows * classes];
    let mut wide = vec![0.0_f64; rows * classes];
    let [mut std, mut softmax, mut discarded, mut state] = [Time::NEVER; 4];
    // Interleaved, so that other load on the machine affects all of them.
    for _ in 0..9 {
        std.improve(|| {
            narrow
                .par_chunks_mut(classes)
                .zip(data.scores().as_slice().par_chunks(classes))
                .for_each(|(target, row)| softmax_f32(row, target));
            black_box(&narrow);
        });
        softmax.improve(|| {
            wide.par_chunks_mut(classes)
                .enumerate()
                .for_each(|(row, target)| predictions.probabilities(row, target));
            black_box(&wide);
        });
        discarded.improve(|| {
            (0..rows).into_par_iter().with_min_len(64).for_each_init(
                || vec![0.0; classes],
                |target, row| {
                    predictions.probabilities(row, target);
                    black_box(&target);
                },
            );
        });
        state.improve(|| {
            let mut state = MetricState::new(classes, options.clone()).expect("options");
            state.update(&predictions).expect("rows");
            black_box(state.finalize().expect("rows"));
        });
    }
    drop((narrow, wide));
    let mut all = Time::NEVER;
    for _ in 0..3 {
        all.improve(|| {
            black_box(
                metrics::evaluate(
                    &predictions,
                    &Metric::for_classes(predictions.classes()),
                    &options,
                )
                .expect("options"),
            );
        });
    }
    println!("{:<42} {:>9} {:>9}   CPU time ÷ softmax", "", "wall", "CPU");
    let line = |name: &str, time: &Time| {
        println!(
            "{name:<42} {:>6.0} ms {:>6.0} ms {:>6.2} to a matrix {:>6.2} discarded",
            time.wall * 1e3,
            time.processor * 1e3,
            time.processor / softmax.processor,
            time.processor / discarded.processor
        );
    };
    line("softmax, 32 bits, standard library's exp", &std);
    line("softmax, 64 bits, to a matrix", &softmax);
    line("softmax, 64 bits, rows discarded", &discarded);
    line("all mergeable metrics, one pass", &state);
    line("marginal_ce", &marginal);
    line("all thirteen metrics", &all);

    let (logits, labels) = synthetic(10_000, 10);
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("finite logits");
    let data = Dataset::new(scores, &labels).expect("labels are classes");
    let resampled = [Metric::Ece, Metric::Nll, Metric::Brier];
    let mut time = Time::NEVER;
    for _ in 0..3 {
        time.improve(|| {
            let how = BootstrapOptions::default();
            let predictions = Predictions::from(&data);
            black_box(bootstrap(&predictions, &resampled, &options, &how).expect("options"));
        });
    }
    println!(
        "1000 resamples of ece, nll and brier, 10,000 rows: {:.0} ms, {:.0} ms CPU",
        time.wall * 1e3,
        time.processor * 1e3
    );
}

/// The shortest times seen.
struct Time {
    wall: f64,
    processor: f64,
}

impl Time {
    const NEVER: Self = Self {
        wall: f64::INFINITY,
        processor: f64::INFINITY,
    };

    fn improve(&mut self, work: impl FnOnce()) {
        let (start, before) = (Instant::now(), processor_seconds());
        work();
        self.wall = self.wall.min(start.elapsed().as_secs_f64());
        self.processor = self.processor.min(processor_seconds() - before);
    }
}

/// The time this process has spent on processors, which other processes do not change; Linux only.
fn processor_seconds() -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return f64::NAN;
    };
    let nanoseconds = |path: std::path::PathBuf| -> Option<f64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    let threads = threads.filter_map(|thread| nanoseconds(thread.ok()?.path()));
    threads.sum::<f64>() / 1e9
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

/// The most memory this process has held; Linux only.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0 / 1e6)
}

/// Synthetic logits like those of a network: a few classes have much larger scores than the rest.
fn synthetic(rows: usize, classes: usize) -> (Array2<f32>, Vec<usize>) {
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

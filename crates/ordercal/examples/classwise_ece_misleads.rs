//! Dividing all logits by 1000 makes the class-wise ECE of balanced data almost zero, although calibration does not improve.
//!
//! `cargo run --example classwise_ece_misleads`

#![allow(clippy::print_stdout)]

use ndarray::Array2;
use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::{Dataset, ScoreKind, Scores};

const ROWS: usize = 5000;
const CLASSES: usize = 10;

fn main() -> Result<(), ordercal::Error> {
    let (logits, labels) = overconfident_and_balanced();
    let shown = [
        Metric::ClasswiseEce,
        Metric::ClasswiseEceSum,
        Metric::MarginalCe,
        Metric::Ece,
        Metric::Nll,
        Metric::Brier,
        Metric::Accuracy,
    ];
    let measure = |divisor: f32| {
        let divided = logits.mapv(|v| v / divisor);
        let scores = Scores::new(ScoreKind::Logits, divided.view())?;
        let data = Dataset::new(scores, &labels)?;
        evaluate(&Predictions::from(&data), &shown, &MetricOptions::default())
    };
    let (before, after) = (measure(1.0)?, measure(1000.0)?);
    println!("{:<18} {:>10} {:>12}", "metric", "logits", "logits/1000");
    for metric in shown {
        println!(
            "{metric:<18} {:>10.5} {:>12.5}",
            before[&metric], after[&metric]
        );
    }
    println!(
        "\nThe class-wise errors vanish, every other error grows, and the predictions are the same."
    );
    Ok(())
}

/// Logits and labels of a simulated overconfident classifier, with the same number of rows for each class.
fn overconfident_and_balanced() -> (Array2<f32>, Vec<usize>) {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 24) as f32
    };
    let labels: Vec<usize> = (0..ROWS).map(|row| row % CLASSES).collect();
    let logits = Array2::from_shape_fn((ROWS, CLASSES), |(row, class)| {
        let noise = 5.0 * (uniform() + uniform() + uniform() - 1.5);
        if labels[row] == class {
            noise + 9.0 * uniform()
        } else {
            noise
        }
    });
    (logits, labels)
}

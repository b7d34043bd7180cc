//! The metrics through the public API: equal to public packages, exact at the edges, mergeable, reproducible.

mod edges;
mod evidence;
mod packages;
mod paper_tables;
mod ranking;
mod reliability;
mod state;
mod state_bytes;
mod weights;

use ndarray::Array2;
use ordercal::{Dataset, ScoreKind, Scores};

/// The SplitMix64 generator, so that the tests' data do not depend on the library's.
struct SplitMix(u64);

impl SplitMix {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.uniform() * bound as f64) as usize
    }

    /// Roughly normal, with mean 0 and variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Logits of an overconfident classifier and labels that it predicts better than chance.
fn overconfident(
    seed: u64,
    rows: usize,
    classes: usize,
    sharpness: f64,
) -> (Array2<f32>, Vec<u32>) {
    let mut random = SplitMix(seed);
    let mut labels = Vec::with_capacity(rows);
    let mut logits =
        Array2::from_shape_fn((rows, classes), |_| (random.normal() * sharpness) as f32);
    for mut row in logits.rows_mut() {
        let label = random.below(classes);
        row[label] += (random.uniform() * 3.0 * sharpness) as f32;
        labels.push(label as u32);
    }
    (logits, labels)
}

fn dataset<'a>(logits: &'a Array2<f32>, labels: &[u32]) -> Dataset<'a> {
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("logits are finite");
    Dataset::new(scores, labels).expect("labels are classes")
}

/// Says that two numbers are closer than a tolerance, or names both.
#[track_caller]
fn assert_close(ours: f64, expected: f64, tolerance: f64, what: &str) {
    if ours.is_nan() && expected.is_nan() {
        return;
    }
    let difference = (ours - expected).abs();
    assert!(
        difference <= tolerance,
        "{what}: {ours} instead of {expected}, off by {difference:e}"
    );
}

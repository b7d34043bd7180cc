//! A stress test of the order: hostile rows through fitted and extreme models, in every kind and type of output.

use ndarray::{Array2, ArrayView2};
use ordercal::{Model, Real, Rng, ScoreKind, Scores};
use rayon::prelude::*;

use crate::models::{extreme, fitted};
use crate::promise::violation;
use crate::rows::hostile_matrix;

/// Numbers of classes. Small ones are more frequent, because they are cheap.
const WIDTHS: [usize; 16] = [2, 2, 2, 3, 3, 4, 5, 7, 8, 10, 10, 16, 17, 33, 100, 1000];
/// Rows per round; a round uses one number of classes and all models for it.
const ROUND: usize = 2048;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Findings {
    /// The number of rows, each tried in three kinds of output and two float types.
    pub rows: usize,
    /// Descriptions of the first rows whose order was not kept.
    pub violations: Vec<String>,
}

/// Tries at least `rows` hostile rows; `progress` is called with the number of completed rows.
pub fn run(rows: usize, seed: u64, progress: &(dyn Fn(usize) + Sync)) -> Findings {
    let mut widths = WIDTHS.to_vec();
    widths.push(2000);
    let pools: Vec<(usize, Vec<Model>)> = widths
        .par_iter()
        .map(|&classes| {
            let mut models = extreme(classes, &mut Rng::new(seed ^ classes as u64));
            // Fits for a thousand classes take long and test nothing that a hundred do not.
            if classes <= 100 {
                models.extend(fitted(classes, seed));
            }
            (classes, models)
        })
        .collect();
    let mut findings = Findings::default();
    let mut round = 0;
    while findings.rows < rows {
        let batch: Vec<Findings> = (round..round + 8)
            .into_par_iter()
            .map(|round| {
                let mut rng = Rng::new(seed.wrapping_add(1 + round as u64));
                let (classes, models) = &pools[rng.below(pools.len())];
                // Fewer rows with many classes, so that each number of classes takes about the same time.
                let rows = (ROUND * 16 / classes.max(&16)).max(8);
                self::round(rows, *classes, models, &mut rng)
            })
            .collect();
        round += batch.len();
        for part in batch {
            findings.rows += part.rows;
            findings.violations.extend(part.violations);
        }
        progress(findings.rows);
    }
    findings
}

/// Tries `rows` hostile rows with the same number of classes, divided among the models, in every kind and type of output.
pub fn round(rows: usize, classes: usize, models: &[Model], rng: &mut Rng) -> Findings {
    let mut findings = Findings::default();
    let rows_per_model = rows.div_ceil(models.len());
    for model in models {
        let matrix = hostile_matrix(rows_per_model, classes, rng);
        let scores = Scores::new(ScoreKind::Logits, matrix.view()).expect("valid rows");
        for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
            check::<f32>(model, &scores, matrix.view(), kind, &mut findings);
            check::<f64>(model, &scores, matrix.view(), kind, &mut findings);
        }
        findings.rows += rows_per_model;
    }
    findings
}

fn check<T: Real>(
    model: &Model,
    scores: &Scores<'_>,
    matrix: ArrayView2<'_, f32>,
    kind: ScoreKind,
    findings: &mut Findings,
) {
    let output: Array2<T> = model
        .apply(scores, kind)
        .expect("the right number of classes");
    for (input, output) in matrix.rows().into_iter().zip(output.rows()) {
        let (input, output) = (input.to_vec(), output.to_vec());
        if let Some(what) = violation(&input, &output, kind)
            && findings.violations.len() < 10
        {
            let classes = input.len();
            findings
                .violations
                .push(format!("{kind}, {classes} classes: {what}"));
        }
    }
}

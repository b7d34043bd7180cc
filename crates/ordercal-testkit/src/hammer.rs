//! The promise, hammered: hostile rows through fitted and wild models, in every output there is.

use ndarray::{Array2, ArrayView2};
use ordercal::{Model, Real, Rng, ScoreKind, Scores};
use rayon::prelude::*;

use crate::models::{fitted, wild};
use crate::promise::broken;
use crate::rows::hostile_matrix;

/// Widths, small ones more often: most rows are cheap, and some are as wide as they come.
const WIDTHS: [usize; 16] = [2, 2, 2, 3, 3, 4, 5, 7, 8, 10, 10, 16, 17, 33, 100, 1000];
/// Rows per round; a round uses one width and all its models.
const ROUND: usize = 2048;

/// What a run found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Rows tried, each in four outputs.
    pub rows: usize,
    /// Rows that broke the promise, described.
    pub violations: Vec<String>,
}

/// Tries at least `rows` hostile rows, telling `progress` how many are done.
pub fn run(rows: usize, seed: u64, progress: &(dyn Fn(usize) + Sync)) -> Findings {
    let mut widths = WIDTHS.to_vec();
    widths.push(2000);
    let pools: Vec<(usize, Vec<Model>)> = widths
        .par_iter()
        .map(|&classes| {
            let mut models = wild(classes, &mut Rng::new(seed ^ classes as u64));
            // Fitting needs classes × hidden weights; a thousand classes show nothing more than a hundred.
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
                // Wide rows cost more: fewer of them, so that no width takes all the time.
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

/// Tries `rows` hostile rows of one width, divided among the models, in every output there is.
pub fn round(rows: usize, classes: usize, models: &[Model], rng: &mut Rng) -> Findings {
    let mut findings = Findings::default();
    // Each model sees rows of its own.
    let share = rows.div_ceil(models.len());
    for model in models {
        let matrix = hostile_matrix(share, classes, rng);
        let scores = Scores::new(ScoreKind::Logits, matrix.view()).expect("valid rows");
        for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
            check::<f32>(model, &scores, matrix.view(), kind, &mut findings);
            check::<f64>(model, &scores, matrix.view(), kind, &mut findings);
        }
        findings.rows += share;
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
        if let Some(what) = broken(&input, &output, kind)
            && findings.violations.len() < 10
        {
            let classes = input.len();
            findings
                .violations
                .push(format!("{kind}, {classes} classes: {what}"));
        }
    }
}

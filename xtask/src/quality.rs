//! `cargo xtask quality DIR`: every method on every bundle, beside what other implementations reach.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ndarray::{Array2, ArrayView2};
use ordercal::{Dataset, Method, ScoreKind, Scores};
use serde_json::Value;

use crate::npz;

/// Calibrates on the split `calib` and scores on the split `test`.
pub fn run(dir: &Path, reference: Option<&Path>, methods: &[Method]) -> Result<()> {
    let mut bundles: Vec<PathBuf> = std::fs::read_dir(dir)
        .with_context(|| format!("cannot list {}", dir.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    bundles.retain(|path| path.extension().is_some_and(|e| e == "npz"));
    bundles.sort();
    ensure!(!bundles.is_empty(), "no *.npz in {}", dir.display());
    let reference: Value = match reference {
        Some(path) => serde_json::from_str(&std::fs::read_to_string(path)?)?,
        None => Value::Null,
    };
    println!(
        "{:<24} {:<14} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8}  reference nll",
        "dataset", "method", "nll", "ece", "brier", "accuracy", "changed", "seconds"
    );
    for path in &bundles {
        let name = path
            .file_stem()
            .context("a bundle has a name")?
            .to_string_lossy()
            .into_owned();
        let arrays = npz::read(path)?;
        let (calib_scores, calib_labels) = split(&arrays, "calib")?;
        let (test_scores, test_labels) = split(&arrays, "test")?;
        let calib = Dataset::new(
            Scores::new(ScoreKind::Logits, calib_scores.view())?,
            &calib_labels,
        )?;
        let test = Scores::new(ScoreKind::Logits, test_scores.view())?;
        for method in methods {
            let begin = Instant::now();
            let fitted = method.fit(&calib)?;
            let seconds = begin.elapsed().as_secs_f64();
            let probs = fitted.model.apply::<f64>(&test, ScoreKind::Probs)?;
            let figures = Figures::new(probs.view(), &test_labels);
            let changed = changed(test_scores.view(), probs.view());
            let note = note(&reference[&name], method.key(), &figures);
            println!(
                "{:<24} {:<14} {:>8.5} {:>8.5} {:>8.6} {:>8.4} {:>7} {:>8.4}  {}",
                name,
                method.key(),
                figures.nll,
                figures.ece,
                figures.brier,
                figures.accuracy,
                changed,
                seconds,
                note
            );
        }
    }
    Ok(())
}

/// The reference's figure for a method, under whichever name it has there.
fn note(reference: &Value, key: &str, figures: &Figures) -> String {
    let names = [
        format!("torch-{key}"),
        format!("probmetrics-{key}"),
        format!("sklearn-{key}-ovr"),
        key.to_owned(),
    ];
    let found = names.iter().find_map(|name| {
        let nll = reference[name]["nll"].as_f64()?;
        Some((name, nll))
    });
    match found {
        Some((name, nll)) => {
            let gap = 100.0 * (figures.nll / nll - 1.0);
            format!("{nll:.5} ({gap:+.3}%) {name}")
        }
        None => String::new(),
    }
}

type Arrays = std::collections::BTreeMap<String, npz::NpzArray>;

fn split(arrays: &Arrays, split: &str) -> Result<(Array2<f32>, Vec<i64>)> {
    let get = |name: String| {
        arrays
            .get(&name)
            .with_context(|| format!("there is no array {name}"))
    };
    let scores = get(format!("{split}_logits"))?;
    let labels = get(format!("{split}_labels"))?;
    ensure!(scores.shape.len() == 2, "{split}_logits is not a matrix");
    let values = scores.values.iter().map(|&v| v as f32).collect();
    let matrix = Array2::from_shape_vec((scores.shape[0], scores.shape[1]), values)?;
    Ok((matrix, labels.values.iter().map(|&l| l as i64).collect()))
}

struct Figures {
    nll: f64,
    ece: f64,
    brier: f64,
    accuracy: f64,
}

impl Figures {
    fn new(probs: ArrayView2<'_, f64>, labels: &[i64]) -> Self {
        let (mut nll, mut brier, mut hits) = (0.0, 0.0, 0.0);
        let mut bins = [[0.0; 3]; 15];
        for (row, &label) in probs.rows().into_iter().zip(labels) {
            let label = label as usize;
            nll -= row[label].ln();
            let top = argmax(row.iter().copied());
            let hit = f64::from(u8::from(top == label));
            hits += hit;
            brier += row
                .iter()
                .enumerate()
                .map(|(c, p)| (p - f64::from(u8::from(c == label))).powi(2))
                .sum::<f64>();
            let bin = ((row[top] * 15.0).ceil() as usize).clamp(1, 15) - 1;
            bins[bin][0] += 1.0;
            bins[bin][1] += row[top];
            bins[bin][2] += hit;
        }
        let n = labels.len() as f64;
        Self {
            nll: nll / n,
            ece: bins
                .iter()
                .map(|[_, conf, hit]| (conf - hit).abs() / n)
                .sum(),
            brier: brier / n / probs.ncols() as f64,
            accuracy: hits / n,
        }
    }
}

fn argmax<T: PartialOrd>(values: impl Iterator<Item = T>) -> usize {
    let mut best: Option<(usize, T)> = None;
    for (index, value) in values.enumerate() {
        if best.as_ref().is_none_or(|(_, b)| value > *b) {
            best = Some((index, value));
        }
    }
    best.map_or(0, |(index, _)| index)
}

fn changed(scores: ArrayView2<'_, f32>, probs: ArrayView2<'_, f64>) -> usize {
    let rows = scores.rows().into_iter().zip(probs.rows());
    rows.filter(|(s, p)| argmax(s.iter()) != argmax(p.iter()))
        .count()
}

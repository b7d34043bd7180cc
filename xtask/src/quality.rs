//! `cargo xtask quality DIR`: every method on every bundle, beside what other implementations reach.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ndarray::Array2;
use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::select::{Folds, choose};
use ordercal::{Dataset, DirOdir, Method, Model, MsOdir, ScoreKind, Scores, Unwatched};
use ordercal_io::{DataRef, load};
use serde_json::Value;

const METRICS: [Metric; 4] = [Metric::Nll, Metric::Ece, Metric::Brier, Metric::Accuracy];

/// Calibrates on the split `calib` and scores on the split `test`.
pub fn run(dir: &Path, reference: Option<&Path>, methods: &[Method]) -> Result<()> {
    let reference: Value = match reference {
        Some(path) => serde_json::from_str(&std::fs::read_to_string(path)?)
            .with_context(|| format!("parsing {}", path.display()))?,
        None => Value::Null,
    };
    println!(
        "{:<24} {:<14} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8}  reference nll",
        "dataset", "method", "nll", "ece", "brier", "accuracy", "changed", "seconds"
    );
    for path in bundles(dir)? {
        let name = path.file_stem().context("a bundle has a name")?;
        let name = name.to_string_lossy().into_owned();
        let bundle = DataRef::new(&path);
        let calib = load(&bundle.clone().with_split("calib"), None)?;
        let test = load(&bundle.with_split("test"), None)?;
        let (calib, test) = (calib.dataset()?, test.dataset()?);
        for method in methods {
            let begin = Instant::now();
            let (method, mut chosen) = search(method, &calib)?;
            let fitted = method.fit(&calib)?;
            let seconds = begin.elapsed().as_secs_f64();
            let model = fitted.model;
            if let Model::Ts(ts) = &model {
                chosen = format!(", T = {:.5}", ts.temperature());
            }
            let probs = model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
            let predictions = Predictions::from_probs(probs.view(), test.labels())?;
            let values = evaluate(&predictions, &METRICS, &MetricOptions::default())?;
            let nll = values[&Metric::Nll];
            println!(
                "{:<24} {:<14} {:>8.5} {:>8.5} {:>8.6} {:>8.4} {:>7} {:>8.4}  {}",
                name,
                method.key(),
                nll,
                values[&Metric::Ece],
                values[&Metric::Brier],
                values[&Metric::Accuracy],
                changed(test.scores(), &probs),
                seconds,
                [note(&reference[&name], method.key(), nll), chosen].concat()
            );
            for line in fitted.report.notes {
                println!("    {line}");
            }
        }
    }
    Ok(())
}

/// Chooses λ and μ of the methods that nobody uses without doing so, and says which.
fn search(method: &Method, calib: &Dataset<'_>) -> Result<(Method, String)> {
    let grid: Vec<Method> = match method {
        Method::MsOdir(given) if *given == MsOdir::default() => {
            given.grid().into_iter().map(Method::from).collect()
        }
        Method::DirOdir(given) if *given == DirOdir::default() => {
            given.grid().into_iter().map(Method::from).collect()
        }
        _ => return Ok((method.clone(), String::new())),
    };
    let folds = Folds::new(calib.rows(), 5, 1357)?;
    let chosen = grid[choose(&grid, calib, &folds, &Unwatched)?.best].clone();
    let (lambda, mu) = match &chosen {
        Method::MsOdir(m) => (m.lambda, m.mu),
        Method::DirOdir(m) => (m.lambda, m.mu),
        _ => unreachable!("the grid is of one method"),
    };
    Ok((chosen, format!("lambda {lambda:e}, mu {mu:e}")))
}

/// The bundles of a folder, by name.
pub fn bundles(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut bundles: Vec<PathBuf> = std::fs::read_dir(dir)
        .with_context(|| format!("cannot list {}", dir.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    bundles.retain(|path| path.extension().is_some_and(|e| e == "npz"));
    bundles.sort();
    ensure!(!bundles.is_empty(), "no *.npz in {}", dir.display());
    Ok(bundles)
}

/// The reference's figure for a method, under whichever name it has there.
fn note(reference: &Value, key: &str, ours: f64) -> String {
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
            let gap = 100.0 * (ours / nll - 1.0);
            format!("{nll:.5} ({gap:+.3}%) {name}")
        }
        None => String::new(),
    }
}

fn argmax<'a, T: PartialOrd + 'a>(values: impl Iterator<Item = &'a T>) -> usize {
    let best = values
        .enumerate()
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map_or(0, |(class, _)| class)
}

fn changed(scores: &Scores<'_>, probs: &Array2<f64>) -> usize {
    let rows = probs.rows().into_iter().enumerate();
    rows.filter(|(row, probs)| argmax(scores.row(*row).iter()) != argmax(probs.iter()))
        .count()
}

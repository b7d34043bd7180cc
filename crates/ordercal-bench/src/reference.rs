//! `cargo measure reference DIR`: every method on every bundle, beside what other implementations reach.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use ordercal::compare::{Measures, measure};
use ordercal::metrics::Metric;
use ordercal::select::{Folds, choose};
use ordercal::{Dataset, DirOdir, Method, Model, MsOdir, Unwatched};
use serde_json::Value;

use crate::bundles::{Bundle, bundles};
use crate::{method, reference_metrics};

const METRICS: [Metric; 4] = [Metric::Nll, Metric::Ece, Metric::Brier, Metric::Accuracy];

/// Prints nll, ece, brier, accuracy, changed predictions and seconds. `ms-odir` and `dir-odir` with default
/// settings have λ and μ chosen by 5-fold cross validation.
#[derive(clap::Args)]
pub struct Args {
    /// A folder of bundles *.npz with the splits `calib` and `test`
    dir: PathBuf,
    /// A JSON file of other implementations' figures [default: DIR/../reference/calibrators.json, if it exists]
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// A key, or JSON with hyperparameters; may be given several times [default: every method]
    #[arg(long = "method", value_name = "METHOD", value_parser = method::parse)]
    methods: Vec<Method>,
}

/// Fits on the split `calib`, scores on the split `test`; then compares the metrics themselves with
/// `DIR/../reference/metrics.json`, if it exists.
pub fn run(args: &Args) -> Result<()> {
    let dir = args.dir.as_path();
    let beside = |name: &str| Some(dir.join("../reference").join(name)).filter(|f| f.exists());
    let reference = match args
        .reference
        .clone()
        .or_else(|| beside("calibrators.json"))
    {
        Some(path) => serde_json::from_str(&std::fs::read_to_string(&path)?)
            .with_context(|| format!("parsing {}", path.display()))?,
        None => Value::Null,
    };
    let methods = match args.methods.is_empty() {
        true => all_methods(&reference),
        false => args.methods.clone(),
    };
    println!(
        "{:<24} {:<14} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8}  reference nll",
        "dataset", "method", "nll", "ece", "brier", "accuracy", "changed", "seconds"
    );
    for path in bundles(dir, None)? {
        measure_bundle(&path, &methods, &reference)?;
    }
    match beside("metrics.json") {
        Some(metrics) if !reference_metrics::check(dir, &metrics)? => {
            bail!("a metric differs from its reference")
        }
        _ => Ok(()),
    }
}

/// Every method, and those projections that the reference has figures of.
fn all_methods(reference: &Value) -> Vec<Method> {
    let mut methods = Method::all();
    let sets = || {
        reference
            .as_object()
            .into_iter()
            .flat_map(|sets| sets.values())
    };
    let free = Method::all().into_iter().filter(|m| !m.promises_order());
    let projected = free.map(Method::keep_order);
    methods.extend(projected.filter(|m| sets().any(|set| find(set, m.key()).is_some())));
    methods
}

fn measure_bundle(path: &Path, methods: &[Method], reference: &Value) -> Result<()> {
    let bundle = Bundle::read(path)?;
    let (name, calib, test) = (&bundle.name, bundle.calib()?, bundle.test()?);
    for method in methods {
        let begin = Instant::now();
        let (method, mut chosen) = search(method, &calib)?;
        let fitted = method.fit(&calib)?;
        let seconds = begin.elapsed().as_secs_f64();
        if let Model::Ts(ts) = &fitted.model {
            chosen = format!(", T = {:.5}", ts.temperature());
        }
        let measured = measure(&fitted.model, &test, &Measures::new(&METRICS))?;
        let nll = measured.metrics[&Metric::Nll];
        println!(
            "{:<24} {:<14} {:>8.5} {:>8.5} {:>8.6} {:>8.4} {:>7} {:>8.4}  {}{chosen}",
            name,
            method.key(),
            nll,
            measured.metrics[&Metric::Ece],
            measured.metrics[&Metric::Brier],
            measured.metrics[&Metric::Accuracy],
            measured.changed_predictions,
            seconds,
            beside_reference(&reference[name], method.key(), nll),
        );
        for note in fitted.report.notes {
            println!("    {note}");
        }
    }
    Ok(())
}

/// Chooses λ and μ of the methods that are never used without doing so, and says which.
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

/// The reference's NLL of a method on one data set, and the name it has there.
fn find(set: &Value, key: &str) -> Option<(String, f64)> {
    let names = [
        format!("torch-{key}"),
        format!("probmetrics-{key}"),
        format!("sklearn-{key}-ovr"),
        key.to_owned(),
    ];
    names
        .into_iter()
        .find_map(|name| set[&name]["nll"].as_f64().map(|nll| (name, nll)))
}

fn beside_reference(set: &Value, key: &str, ours: f64) -> String {
    find(set, key).map_or(String::new(), |(name, nll)| {
        let gap = 100.0 * (ours / nll - 1.0);
        format!("{nll:.5} ({gap:+.3}%) {name}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn projections_are_those_of_the_reference() {
        assert_eq!(all_methods(&Value::Null), Method::all());
        let reference = json!({"note": "text", "a": {"sms+order": {"nll": 1.0}}});
        let projected = Method::from_key("sms+order").unwrap();
        assert_eq!(
            all_methods(&reference),
            [Method::all(), vec![projected]].concat()
        );
    }
}

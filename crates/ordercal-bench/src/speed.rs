//! `cargo measure speed`: seconds and memory of single fits.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ordercal::{Method, Svs};
use ordercal_testkit::rows::overconfident_data;
use serde_json::{Value, json};

use crate::method;

/// Prints a JSON object for each fit. `peak_megabytes` is the process's, so only the first method's is its own.
#[derive(clap::Args)]
pub struct Args {
    /// Rows of the generated data
    #[arg(long, value_name = "N", default_value_t = 25_000)]
    rows: usize,
    /// Classes of the generated data
    #[arg(long, value_name = "K", default_value_t = 1000)]
    classes: usize,
    /// A key, or JSON with hyperparameters; may be given several times [default: svs]
    #[arg(long = "method", value_name = "METHOD", value_parser = method::parse)]
    methods: Vec<Method>,
}

pub fn run(args: &Args) -> Result<()> {
    let data = overconfident_data(args.rows, args.classes, 1);
    let before = peak_megabytes();
    let methods = match args.methods.is_empty() {
        true => vec![Svs::default().into()],
        false => args.methods.clone(),
    };
    for method in methods {
        let begin = Instant::now();
        let report = method.fit(&data)?.report;
        let mut cost = json!({
            "method": method.key(),
            "seconds": begin.elapsed().as_secs_f64(),
            "iterations": report.iterations,
            "passes": report.evaluations,
            "nll_before": report.nll_before,
            "nll_after": report.nll_after,
            "peak_megabytes": peak_megabytes(),
            "megabytes_before": before,
            "stop": report.stop.to_string(),
        });
        if let Some(estimate) = method.estimate(args.rows, args.classes) {
            cost["expected_seconds"] = json!(estimate.seconds);
            cost["expected_megabytes"] = json!(estimate.bytes / 1e6);
        }
        println!("{cost}");
    }
    Ok(())
}

/// Fits a method in a process of its own and returns the peak memory, which is that of this fit.
pub fn peak_in_own_process(method: &Method, (rows, classes): (usize, usize)) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["speed", "--method", &serde_json::to_string(method)?])
        .args(["--rows", &rows.to_string()])
        .args(["--classes", &classes.to_string()])
        .output()
        .context("cannot start a process of its own")?;
    ensure!(
        output.status.success(),
        "cannot measure {}: {}",
        method.key(),
        String::from_utf8_lossy(&output.stderr)
    );
    let cost: Value = serde_json::from_slice(&output.stdout)?;
    Ok(cost["peak_megabytes"].as_f64().unwrap_or(f64::NAN))
}

/// The peak resident set size of the process so far; NaN where the system does not say.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |count| count * 1024.0 / 1e6)
}

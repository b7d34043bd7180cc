//! `cargo measure speed`: seconds and memory of single fits.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ordercal::{Method, Svs};
use ordercal_testkit::rows::overconfident_data;
use serde::{Deserialize, Serialize};

use crate::method;

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
    /// Print one JSON object per fit and nothing else
    #[arg(long)]
    json: bool,
}

/// What a fit took.
#[derive(Serialize, Deserialize)]
pub struct Cost {
    pub method: String,
    pub seconds: f64,
    pub iterations: usize,
    /// Passes over the data.
    pub passes: usize,
    pub nll_before: f64,
    pub nll_after: f64,
    /// Peak resident set size of the process so far, in bytes; NaN where the system does not say.
    #[serde(deserialize_with = "number_or_null")]
    pub peak_bytes: f64,
    pub stop: String,
}

/// JSON has no NaN.
fn number_or_null<'de, D: serde::Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or(f64::NAN))
}

/// Fits each method once. The peak is the process's, so only one method per run says what it needs.
pub fn run(args: &Args) -> Result<()> {
    let &Args {
        rows,
        classes,
        json,
        ..
    } = args;
    let data = overconfident_data(rows, classes, 1);
    if !json {
        let megabytes = peak_bytes() / 1e6;
        println!("{rows} x {classes}: {megabytes:.0} MB with the data alone");
    }
    let methods = match args.methods.is_empty() {
        true => vec![Svs::default().into()],
        false => args.methods.clone(),
    };
    for method in methods {
        let begin = Instant::now();
        let report = method.fit(&data)?.report;
        let cost = Cost {
            method: method.key().to_owned(),
            seconds: begin.elapsed().as_secs_f64(),
            iterations: report.iterations,
            passes: report.evaluations,
            nll_before: report.nll_before,
            nll_after: report.nll_after,
            peak_bytes: peak_bytes(),
            stop: report.stop.to_string(),
        };
        if json {
            println!("{}", serde_json::to_string(&cost)?);
        } else {
            if let Some(estimate) = method.estimate(rows, classes) {
                println!(
                    "{:<14} {:>8.2} s and {:.0} MB beyond the data were expected",
                    cost.method,
                    estimate.seconds,
                    estimate.bytes / 1e6
                );
            }
            println!(
                "{:<14} {:>8.2} s, {:>5} iterations, {:>5} passes, nll {:.5} -> {:.5}, {:.0} MB, {}",
                cost.method,
                cost.seconds,
                cost.iterations,
                cost.passes,
                cost.nll_before,
                cost.nll_after,
                cost.peak_bytes / 1e6,
                cost.stop,
            );
        }
    }
    Ok(())
}

/// Fits a method in a process of its own, whose peak memory is that of this fit.
pub fn in_own_process(method: &Method, (rows, classes): (usize, usize)) -> Result<Cost> {
    let output = Command::new(std::env::current_exe()?)
        .args(["speed", "--json", "--method"])
        .arg(serde_json::to_string(method)?)
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
    serde_json::from_slice(&output.stdout).context("cannot read what the process measured")
}

fn peak_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |count| count * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_survive_json() {
        let cost = Cost {
            method: "ts".to_owned(),
            seconds: 0.5,
            iterations: 3,
            passes: 4,
            nll_before: 2.0,
            nll_after: 1.0,
            peak_bytes: f64::NAN,
            stop: "converged".to_owned(),
        };
        let text = serde_json::to_string(&cost).unwrap();
        let read: Cost = serde_json::from_str(&text).unwrap();
        assert_eq!((read.passes, read.stop.as_str()), (4, "converged"));
        assert!(read.peak_bytes.is_nan());
    }
}

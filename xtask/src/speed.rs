//! `cargo xtask speed`: seconds and memory of fits at the size of a large classifier.

use std::time::Instant;

use anyhow::Result;
use ordercal::Method;
use ordercal_testkit::rows::overconfident_data;

/// Fits each method once. The most memory in use is the process's so far: one method at a time tells apart.
pub fn run(rows: usize, classes: usize, methods: &[Method]) -> Result<()> {
    let data = overconfident_data(rows, classes, 1);
    let before = peak_megabytes();
    println!("{rows} x {classes}: {before:.0} MB with the data alone");
    for method in methods {
        let begin = Instant::now();
        let report = method.fit(&data)?.report;
        println!(
            "{:<14} {:>8.2} s, {:>5} iterations, {:>5} passes, nll {:.5} -> {:.5}, {:.0} MB, {}",
            method.key(),
            begin.elapsed().as_secs_f64(),
            report.iterations,
            report.evaluations,
            report.nll_before,
            report.nll_after,
            peak_megabytes(),
            report.stop,
        );
    }
    Ok(())
}

/// The most memory this process has had, where the system says so.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kb| kb / 1024.0)
}

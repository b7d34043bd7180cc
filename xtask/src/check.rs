//! `cargo xtask check`: all that the continuous integration runs, in the order in which it fails fastest.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// What is run, each with what to call it. All of it in the development profile: a second one would compile
/// everything a second time.
const STEPS: [(&str, &[&str]); 10] = [
    ("format", &["fmt", "--all", "--check"]),
    (
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ],
    ),
    (
        "docs",
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
    ),
    ("build", &["test", "--no-run"]),
    ("example", &["run", "--example", "calibrate"]),
    ("doc tests", &["test", "--doc", "--no-fail-fast"]),
    (
        "benchmarks, each once",
        &["test", "--package", "ordercal", "--bench", "kernels"],
    ),
    ("browser", &["xtask", "browser", "--built"]),
    ("python", &["xtask", "python"]),
    // Last, so that the output ends with the counts.
    (
        "tests",
        &["test", "--lib", "--bins", "--tests", "--no-fail-fast"],
    ),
];

/// Runs every step and stops at the first that fails.
pub fn run() -> Result<()> {
    for (name, arguments) in STEPS {
        println!("== {name}: cargo {}", arguments.join(" "));
        let begin = Instant::now();
        let status = Command::new(env!("CARGO"))
            .args(arguments)
            .env("RUSTDOCFLAGS", "--deny warnings")
            .status()
            .with_context(|| format!("cannot run cargo for the step {name}"))?;
        if !status.success() {
            bail!(
                "the step {name} failed; run it alone with: cargo {}",
                arguments.join(" ")
            );
        }
        // The last word belongs to the counts of the tests.
        if name != "tests" {
            println!("== {name}: {:.0} s", begin.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

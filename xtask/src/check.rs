//! `cargo xtask check`: all that the continuous integration runs, in the order in which it fails fastest.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// What is run, each with what to call it.
const STEPS: [(&str, &[&str]); 7] = [
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
    ("example", &["run", "--release", "--example", "calibrate"]),
    (
        "doc tests",
        &[
            "test",
            "--workspace",
            "--exclude",
            "ordercal-python",
            "--doc",
            "--no-fail-fast",
        ],
    ),
    ("python", &["xtask", "python"]),
    // Last, so that the output ends with the counts; the crates left out hold no tests of their own.
    (
        "tests",
        &[
            "test",
            "--workspace",
            "--exclude",
            "xtask",
            "--exclude",
            "ordercal-testkit",
            "--exclude",
            "ordercal-python",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ],
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
        println!("== {name}: {:.0} s", begin.elapsed().as_secs_f64());
    }
    Ok(())
}

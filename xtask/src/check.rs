//! `cargo xtask check`: all that the continuous integration runs, in the order in which it fails fastest.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::run::cargo;

/// What is run, each with what to call it. All of it in the development profile: a second one would compile
/// everything a second time. For the same reason steps choose all packages, even where they need one: cargo unites the
/// features that the chosen packages ask of a dependency, and compiles it again where another choice gives others.
const STEPS: [(&str, &str); 14] = [
    ("format", "xtask format"),
    ("packages", "xtask package"),
    // rust-version is held to by clippy's lint `incompatible_msrv`, which knows since when there is what of std.
    (
        "lints",
        "clippy --workspace --all-targets --all-features -- --deny warnings",
    ),
    (
        "lints, features off",
        "clippy --package ordercal-io --package ordercal-report --package ordercal-cli --all-targets \
         --no-default-features -- --deny warnings",
    ),
    (
        "docs",
        "doc --workspace --all-features --no-deps --document-private-items",
    ),
    ("build", "test --workspace --no-run"),
    ("worked example", "xtask worked-example"),
    // As it was built.
    ("example", "xtask example"),
    ("doc tests", "test --workspace --doc --no-fail-fast"),
    ("instructions", "xtask instructions --built"),
    ("browser", "xtask browser --built"),
    ("python", "xtask python"),
    ("guide", "xtask docs --built"),
    // Last, so that the output ends with the counts.
    (
        "tests",
        "test --workspace --lib --bins --tests --no-fail-fast",
    ),
];

/// Runs every step and stops at the first that fails.
pub fn run() -> Result<()> {
    let this = std::env::current_exe()?;
    for (name, command) in STEPS {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let command = format!("cargo {}", arguments.join(" "));
        println!("== {name}: {command}");
        let (begin, processor) = (Instant::now(), children_seconds());
        let mut step = match &arguments[..] {
            // This program as it is: cargo would compile it again without incremental compilation.
            ["xtask", rest @ ..] => {
                let mut command = Command::new(&this);
                command.args(rest).current_dir(crate::root());
                command
            }
            _ => cargo(&arguments),
        };
        // A first build takes longer with incremental compilation, which serves the builds after it.
        let status = step
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTDOCFLAGS", "--deny warnings")
            .status()?;
        if !status.success() {
            bail!("the step {name} failed; run it alone with: {command}");
        }
        // The last word belongs to the counts of the tests.
        if name != "tests" {
            let took = begin.elapsed().as_secs_f64();
            let used = children_seconds() - processor;
            println!(
                "== {name}: {took:.0} s, {used:.0} s of CPU, {:.0} s so far",
                children_seconds()
            );
        }
    }
    Ok(())
}

/// The processor time of all processes that this one has started and that have ended, in seconds; 0 where the system
/// does not have Linux' /proc.
fn children_seconds() -> f64 {
    // In a hundredth of a second, whatever the processor; the name, in parentheses, may contain spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

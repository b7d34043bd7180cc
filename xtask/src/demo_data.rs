//! `cargo xtask demo-data`: trains the demo classifiers and writes their held-out logits.
//!
//! Everything comes from Debian packages by name: the images, the letters and the framework that trains on
//! them. What was trained, and on what terms, is in `crates/ordercal-cli/demo/README.md`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::step;

/// The data sets, and what reads and trains on them.
const PACKAGES: [&str; 4] = [
    "dataset-fashion-mnist",
    "r-cran-mlbench",
    "python3-numpy",
    "python3-torch",
];

/// Writes a data set of an R package as text.
const EXPORT: &str = "library(mlbench); data(LetterRecognition); \
    write.csv(LetterRecognition, commandArgs(TRUE)[1], row.names = FALSE, quote = FALSE)";

/// Writes `fashion_mnist.npz` and `letters.npz` to `out`. Takes about ten minutes on one core.
pub fn run(out: &Path) -> Result<()> {
    let root = crate::root();
    let work = root.join("target/demo-data");
    std::fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;

    install()?;
    let letters = work.join("letters.csv");
    step(Command::new("Rscript").args(["-e", EXPORT]).arg(&letters))?;
    // Debian's own Python: the packages are installed for that one.
    step(
        Command::new("/usr/bin/python3")
            .arg(root.join("xtask/src/demo_data/make.py"))
            .arg(out)
            .arg(&letters),
    )
}

/// Installs the packages that are missing, which takes the rights to do so.
fn install() -> Result<()> {
    let present = Command::new("dpkg")
        .arg("--status")
        .args(PACKAGES)
        .output()
        .context("this needs a Debian system: cannot run dpkg")?;
    if present.status.success() {
        return Ok(());
    }
    step(
        Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(PACKAGES),
    )
    .context("install the packages by hand, then run this again")
}

//! `cargo xtask doc-coverage`: how many public items are documented, and how many have an example.
//!
//! rustdoc counts them itself with `--show-coverage`, which the stable toolchain has behind `RUSTC_BOOTSTRAP`.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::run::{cargo, output};

/// The libraries, each with the least share of items that have an example, in per cent: what was reached once is kept.
const CRATES: [(&str, f64); 4] = [
    ("ordercal", 70.0),
    ("ordercal-io", 100.0),
    ("ordercal-onnx", 66.0),
    ("ordercal-report", 100.0),
];

/// Prints the counts of every crate, and fails where documentation is missing.
pub fn run() -> Result<()> {
    println!("crate             documented      with example");
    for (name, least) in CRATES {
        let text = output(
            cargo(&["rustdoc", "--quiet", "--package", name, "--lib", "--"])
                .args(["-Z", "unstable-options", "--show-coverage"])
                .args(["--output-format", "json"])
                .env("RUSTC_BOOTSTRAP", "1"),
        )?;
        let files: Value = serde_json::from_str(&text).context("rustdoc's counts")?;
        let files = files.as_object().context("rustdoc gave no files")?;
        let sum = |key: &str| -> u64 { files.values().filter_map(|f| f[key].as_u64()).sum() };
        let (total, documented) = (sum("total"), sum("with_docs"));
        let (examples, possible) = (sum("with_examples"), sum("total_examples"));
        let share = 100.0 * examples as f64 / possible.max(1) as f64;
        println!(
            "{name:<17} {documented:>5} of {total:<5}  {examples:>4} of {possible:<4} ({share:.0}%)"
        );
        ensure!(
            documented == total,
            "{name} has public items without documentation"
        );
        ensure!(
            share >= least,
            "{name}: fewer than {least}% of the items have an example"
        );
    }
    Ok(())
}

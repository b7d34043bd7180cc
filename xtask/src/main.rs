//! Development commands that `cargo xtask NAME` runs.
#![allow(clippy::print_stdout)]

mod npz;
mod reference_metrics;

use std::path::Path;

use anyhow::{Result, bail, ensure};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["metrics", logits_dir, metrics_json] => {
            let within = reference_metrics::check(Path::new(logits_dir), Path::new(metrics_json))?;
            ensure!(within, "some figures are off");
            Ok(())
        }
        _ => bail!("usage: cargo xtask metrics DIR JSON"),
    }
}

//! `cargo xtask picture`: the README's picture, a reliability diagram before and after calibration.

use anyhow::{Context, Result};

use crate::run::{cargo, step};

/// Calibrates the demo's Fashion-MNIST classifier with the command line's own `fit` and `plot`.
pub fn run() -> Result<()> {
    let folder = crate::root().join("target/picture");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    // The figure names a model by its file.
    let model = folder.join("oi, no prediction changed.safetensors");
    let bundle = format!("{}/fashion_mnist.npz", crate::DEMO);
    let tool = |command: &str| {
        let run = "run --quiet --release --package ordercal-cli --";
        let words: Vec<&str> = run.split(' ').chain(command.split(' ')).collect();
        cargo(&words)
    };
    step(
        tool("fit --quiet --method oi --output")
            .arg(&model)
            .arg(&bundle),
    )?;
    let title = "Reliability of a Fashion-MNIST classifier before and after calibration";
    step(
        tool("plot reliability --form classic")
            .args(["--title", title])
            .arg("--model")
            .arg(&model)
            .args(["--output", "docs/reliability.svg"])
            .arg(&bundle),
    )
}

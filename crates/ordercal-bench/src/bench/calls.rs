//! What users call, with conversion and checks: the Python package, in a process of its own, and whole commands of the tool.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::data::Set;
use super::workloads::{Caller, LARGE, LONG, Ours, Run, Workload, timed};

/// Rows and classes of a large binary problem.
const BINARY: (usize, usize) = (4_000_000, 2);
const RESAMPLED: (usize, usize) = (10_000, 100);

pub fn all() -> Vec<Workload> {
    vec![
        python("evaluate(p, y, probs, [\"ece\"])", LARGE, "evaluate-ece")
            .against("netcal-ece", 2.0)
            .against("torchmetrics-ece", 2.0),
        python("evaluate(z, y)", LARGE, "evaluate-logits").within(0.15),
        python("evaluate(p, y, probs)", LARGE, "evaluate-probs").within(0.15),
        python("evaluate(z, y, bootstrap=1000)", RESAMPLED, "bootstrap").within(1.5),
        python("TemperatureScaling(probs).fit", LARGE, "fit-probs").beside("torch-ts"),
        python("ts predict_proba of logits", LONG, "predict-logits").against("numpy-softmax", 6.0),
        python("diag predict_proba of logits", LONG, "predict-diag").against("numpy-softmax", 4.0),
        python("ts predict_proba of probs", LONG, "predict-probs").beside("numpy-softmax"),
        command("ordercal evaluate", LARGE, "evaluate"),
        command("ordercal fit --method ts", BINARY, "fit"),
        command("ordercal apply, ts", LONG, "apply").beside("numpy-softmax"),
    ]
}

/// A call that `benchmarks/calls.py` makes.
fn python(name: &'static str, size: (usize, usize), call: &'static str) -> Workload {
    Workload::of(Caller::Python, name, size, Ours::Python(call))
}

/// A command on `logits.npy`, from the start of the process to its end.
fn command(name: &'static str, size: (usize, usize), command: &'static str) -> Workload {
    let run = move |set: &Set| {
        let model = set.folder.join("ts.safetensors");
        if command == "apply" && !model.exists() {
            tool(set, "fit", &model)?;
        }
        let (seconds, result) = timed(|| tool(set, command, &model))?;
        Ok(Run { seconds, result })
    };
    Workload::of(Caller::Command, name, size, Ours::Here(Box::new(run)))
}

/// Runs the tool once and returns the NLL that it says, if it says one.
fn tool(set: &Set, command: &str, model: &Path) -> Result<f64> {
    let logits = set.folder.join("logits.npy");
    let mut run = Command::new(binary()?);
    run.arg(command);
    if command == "apply" {
        run.arg(model).arg(logits);
        run.arg("--output").arg(set.folder.join("applied.npy"));
    } else {
        run.arg("--json").arg("--logits").arg(logits);
        run.arg("--labels").arg(set.folder.join("labels.npy"));
    }
    if command == "fit" {
        run.args(["--method", "ts", "--output"]).arg(model);
    }
    let output = run.output().context("cannot run the tool")?;
    ensure!(
        output.status.success(),
        "ordercal {command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let places = ["/nll_after", "/rows/0/metrics/nll"];
    let found = places
        .iter()
        .find_map(|place| said.pointer(place)?.as_f64());
    Ok(found.unwrap_or(f64::NAN))
}

/// The tool, built in the release profile the first time.
fn binary() -> Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(built) = BUILT.get() {
        return Ok(built);
    }
    let root = crate::root();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "ordercal-cli"])
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the tool cannot be built");
    let name = format!("target/release/ordercal{}", std::env::consts::EXE_SUFFIX);
    Ok(BUILT.get_or_init(|| root.join(name)))
}

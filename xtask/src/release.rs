//! `cargo xtask release --dry-run`: everything that is published, packed and installed in a clean place.
//!
//! It is built in the development profile and with the shared `target/`, which saves most of the time: what is tried is
//! the packaging, not the optimiser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run::{cargo, output, step};
use crate::{package, python};

/// What an installed package has to do.
const TRY: &str = "\
import numpy as np, ordercal
rng = np.random.default_rng(0)
logits = rng.normal(size=(200, 3)).astype(np.float32)
fitted = ordercal.TemperatureScaling().fit(logits, rng.integers(3, size=200))
assert (fitted.predict(logits) == logits.argmax(axis=1)).all()
print(ordercal.__version__)
";

/// Packs and installs; publishes nothing.
pub fn dry_run() -> Result<()> {
    // Outside of the workspace, which a package inside of it would have to be a member of.
    let work = std::env::temp_dir().join(format!("ordercal-release-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    // That of the workspace, which this program shares.
    let version = env!("CARGO_PKG_VERSION");
    let tool = install_tool(&work, version)?;
    let said = output(Command::new(&tool).arg("--version"))?;
    ensure!(
        said.split_whitespace().nth(1) == Some(version),
        "the tool says {said}, not {version}"
    );
    let demo = work.join("demo");
    step(
        Command::new(&tool)
            .args(["demo", "--quiet", "--out"])
            .arg(&demo),
    )?;
    ensure!(
        demo.join("report.html").exists(),
        "the installed tool wrote no report"
    );
    println!("== release: the tool, installed from packages alone, runs its demo");
    for kind in ["sdist", "wheel"] {
        let said = install_python(&work, kind)?;
        ensure!(
            said.trim() == version,
            "the {kind} says {said}, not {version}"
        );
        println!("== release: the {kind}, installed in an empty environment, fits and predicts");
    }
    fs::remove_dir_all(&work)?;
    println!("== release: version {version} can be published; docs/releasing.md has the order");
    Ok(())
}

/// Installs the tool from the packages of all crates, unpacked beside each other.
fn install_tool(work: &Path, version: &str) -> Result<PathBuf> {
    let names = package::run(false)?;
    let packed = package::folder()?;
    let mut command = cargo(&["install", "--quiet", "--debug"]);
    for name in &names {
        let archive = packed.join(format!("{name}-{version}.crate"));
        step(
            Command::new("tar")
                .arg("-xzf")
                .arg(&archive)
                .arg("-C")
                .arg(work),
        )?;
        // None of them is on crates.io yet in this version.
        let unpacked = work.join(format!("{name}-{version}"));
        if name != "ordercal-cli" {
            let patch = format!("patch.crates-io.{name}.path={unpacked:?}");
            command.args(["--config", &patch]);
        }
    }
    let tool = work.join(format!("ordercal-cli-{version}"));
    step(
        command
            .arg("--path")
            .arg(&tool)
            .arg("--root")
            .arg(work.join("installed"))
            .arg("--target-dir")
            .arg(package::target()?)
            .current_dir(work),
    )?;
    Ok(work.join("installed/bin/ordercal"))
}

/// Builds a distribution of the Python package, installs it with pip in an environment of its own, and tries it.
fn install_python(work: &Path, kind: &str) -> Result<String> {
    let maturin = python::tested()?.with_file_name("maturin");
    let built = work.join(kind);
    let project = crate::root().join("python");
    let mut command = Command::new(maturin);
    match kind {
        "sdist" => command.arg("sdist"),
        _ => command.args(["build", "--quiet", "--profile", "dev"]),
    };
    step(command.arg("--out").arg(&built).current_dir(&project))?;
    let file = fs::read_dir(&built)?
        .next()
        .context("nothing was built")??
        .path();
    let empty = work.join("no-requirements.txt");
    fs::write(&empty, "")?;
    let python = python::environment(&work.join(format!("venv-{kind}")), &empty)?;
    step(
        python::pip(&python)
            .arg(&file)
            .env("MATURIN_PEP517_ARGS", "--profile dev")
            .env("CARGO_TARGET_DIR", package::target()?),
    )?;
    output(Command::new(&python).args(["-c", TRY]).current_dir(work))
}

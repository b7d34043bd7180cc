//! The Python part of `cargo xtask check`: a wheel, built and tested in a virtual environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::run::{skip, step};

#[cfg(windows)]
const PYTHON: &str = "python";
#[cfg(not(windows))]
const PYTHON: &str = "python3";

/// Why Python's part was left out.
pub const MISSING: &str =
    "there is no Python 3.11 or newer with the module venv, and apt-get cannot install it here";

/// Whether there is a Python that the environments can be made of.
pub fn present() -> bool {
    let probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
    let runs = || {
        let run = Command::new(PYTHON).args(["-c", probe]).output();
        run.is_ok_and(|output| output.status.success())
    };
    runs() || debian::install("python3-venv") && runs()
}

/// Builds the wheel below `target/`, installs it there and runs its tests.
pub fn run() -> Result<()> {
    let project = crate::root().join("python");
    if !present() {
        let tests = std::fs::read_dir(project.join("tests"))?.count();
        skip("python", tests, "files of tests", MISSING);
        return Ok(());
    }
    let python = installed()?;
    let stubs = [
        "-m",
        "mypy.stubtest",
        "ordercal",
        "--mypy-config-file",
        "pyproject.toml",
        "--allowlist",
        "stubtest_allowlist.txt",
    ];
    let types = [
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "-p",
        "ordercal",
    ];
    step(Command::new(&python).args(stubs).current_dir(&project))?;
    step(Command::new(&python).args(types).current_dir(&project))?;
    step(
        Command::new(&python)
            .args(["-m", "pytest", "--quiet", "-rs"])
            .current_dir(&project),
    )
}

/// The tests of the PyTorch modules, in an environment of their own: PyPI's torch brings gigabytes.
pub fn torch() -> Result<()> {
    let python = install("venv-torch", "requirements-torch.txt")?;
    step(
        Command::new(&python)
            .args(["-m", "pytest", "--quiet", "-rs", "tests/test_torch.py"])
            .current_dir(crate::root().join("python")),
    )
}

/// Runs the tests of `ordercal.spark` on a cluster of two executors, with Spark and Java installed first.
pub fn spark() -> Result<()> {
    // One after the other, because a process has either a classic session or one of Spark Connect.
    let all = ["tests/test_spark.py", "tests/test_spark_connect.py"];
    let java = || Command::new("java").arg("-version").output().is_ok();
    let package = "openjdk-17-jre-headless";
    if !(java() || debian::install(package) && java()) {
        let reason = format!("there is no Java, and apt-get cannot install {package} here");
        skip("spark", all.len(), "files of tests", &reason);
        return Ok(());
    }
    let project = crate::root().join("python");
    // In an environment of its own: where Spark is installed, the ordinary tests would run these, too.
    let python = install("venv-spark", "requirements-spark.txt")?;
    for tests in all {
        step(
            Command::new(&python)
                .args(["-m", "pytest", "--quiet", tests])
                .current_dir(&project),
        )?;
    }
    Ok(())
}

/// The Python with the packages of the tests, in which the wheel was installed last.
pub fn tested() -> Result<PathBuf> {
    let requirements = crate::root().join("python/requirements-test.txt");
    environment(&crate::root().join("target/python/venv"), &requirements)
}

/// The same, with the wheel as the sources are now.
pub fn installed() -> Result<PathBuf> {
    install("venv", "requirements-test.txt")
}

/// The Python of an environment below `target/` that has the wheel, freshly built, and what its tests need.
fn install(folder: &str, requirements: &str) -> Result<PathBuf> {
    let project = crate::root().join("python");
    let work = crate::root().join("target/python");
    let python = environment(&work.join(folder), &project.join(requirements))?;
    let bin = python.parent().context("Python lies in a folder")?;

    // The development profile, as the Rust tests have it: what they share is compiled once. Old wheels go
    // first, so that there is no doubt which one is installed.
    let wheels = work.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).context("cannot remove the old wheels")?;
    }
    step(
        Command::new(bin.join("maturin"))
            .args(["build", "--quiet", "--profile", "dev", "--interpreter"])
            .arg(&python)
            .arg("--out")
            .arg(&wheels)
            .current_dir(&project),
    )?;
    let wheel = only_wheel(&wheels)?;
    let wheel = wheel.to_str().context("the path of the wheel is no text")?;
    step(pip(&python).args(["--force-reinstall", "--no-deps", wheel]))?;
    Ok(python)
}

/// The Python of a virtual environment with the packages of a requirements file; it is made if it is not there.
pub fn environment(folder: &Path, requirements: &Path) -> Result<PathBuf> {
    let bin = folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let python = bin.join("python");
    if !python.exists() {
        step(
            Command::new(PYTHON)
                .args(["-m", "venv", "--clear"])
                .arg(folder),
        )
        .context("Python 3.11 or newer with its module venv is needed")?;
    }
    step(pip(&python).arg("--requirement").arg(requirements))?;
    Ok(python)
}

/// `pip install` without its chatter.
pub fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    command.args(install);
    command
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).context("there are no wheels")?;
    let paths = entries.map(|entry| entry.map(|e| e.path()));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let mut wheels = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => bail!("not exactly one wheel was built"),
    }
}

//! Python behind pipes: the peers (`benchmarks/peers.py`) and our own package (`benchmarks/calls.py`).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::workloads::Run;

/// The packages with their versions, as pip reads them.
const REQUIREMENTS: &str = "benchmarks/requirements.txt";

/// The two Pythons.
pub struct Pythons {
    pub peers: Server,
    pub ours: Server,
    /// Names and versions of the peers' packages.
    pub versions: Vec<String>,
}

impl Pythons {
    /// Installs what they import below `target/` and starts both.
    pub fn start(root: &Path) -> Result<Self> {
        let python = environment(root)?;
        let package = install(root, &python)?;
        Ok(Self {
            peers: Server::start(&python, &root.join("benchmarks/peers.py"), None)?,
            ours: Server::start(&python, &root.join("benchmarks/calls.py"), Some(&package))?,
            versions: versions(root)?,
        })
    }
}

/// A running Python that answers requests.
pub struct Server {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// `package` is a folder to import from, in addition to what is installed.
    fn start(python: &Path, script: &Path, package: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(python);
        if let Some(package) = package {
            command.env("PYTHONPATH", package);
        }
        let mut child = command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", script.display()))?;
        let answers = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        Ok(Self {
            requests: child.stdin.take(),
            answers,
            child,
        })
    }

    /// Runs a workload once; with `result`, also asks for its result.
    pub fn run(&mut self, work: &str, data: &Path, result: bool) -> Result<Run> {
        let request = serde_json::json!({"work": work, "data": data, "result": result});
        let pipe = self.requests.as_mut().context("Python has stopped")?;
        writeln!(pipe, "{request}").with_context(|| format!("asking for {work}"))?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(
            !line.is_empty(),
            "Python failed at {work}; what it said is above"
        );
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("reading {line}"))?;
        Ok(Run {
            seconds: answer["seconds"].as_f64().context("no seconds")?,
            result: answer["result"].as_f64().unwrap_or(f64::NAN),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without requests it ends by itself; what became of it is of no interest any more.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// The Python of a virtual environment with the packages.
fn environment(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench/venv");
    let status = Command::new(env!("CARGO"))
        .args(["xtask", "venv"])
        .args([folder.as_path(), &root.join(REQUIREMENTS)])
        .current_dir(root)
        .status()
        .context("cannot run cargo xtask")?;
    ensure!(status.success(), "the peers cannot be installed");
    let bin = if cfg!(windows) { "Scripts" } else { "bin" };
    Ok(folder.join(bin).join("python"))
}

/// Installs the Python package as its users do, which is a release build, and returns the folder to import it from. It has
/// a folder of its own, so that the packages of the environment stay as they are.
fn install(root: &Path, python: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench/package");
    let status = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"])
        .arg("--disable-pip-version-check")
        .arg("--target")
        .args([folder.as_path(), &root.join("python")])
        .status()
        .context("cannot run pip")?;
    ensure!(status.success(), "the Python package cannot be built");
    Ok(folder)
}

/// Names and versions: what the requirements pin.
fn versions(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(REQUIREMENTS))?;
    let pinned = text.lines().filter_map(|line| line.split_once("=="));
    Ok(pinned
        .map(|(name, version)| format!("{name} {version}"))
        .collect())
}

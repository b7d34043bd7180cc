//! The peers: Python packages in a virtual environment of their own, behind `benchmarks/peers.py`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The packages with their versions, as pip reads them.
const REQUIREMENTS: &str = "benchmarks/requirements.txt";

/// A running Python that answers requests.
pub struct Peers {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Names and versions of the packages.
    pub versions: Vec<String>,
}

/// A peer's answer.
pub struct Answer {
    pub seconds: f64,
    pub result: f64,
}

impl Peers {
    /// Installs the packages below `target/` and starts the server.
    pub fn start(root: &Path) -> Result<Self> {
        let python = environment(root)?;
        let versions = versions(root)?;
        let mut child = Command::new(&python)
            .arg(root.join("benchmarks/peers.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start benchmarks/peers.py")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        Ok(Self {
            requests: child.stdin.take(),
            answers,
            versions,
            child,
        })
    }

    /// Runs a workload once; with `result`, also asks for its result.
    pub fn run(&mut self, work: &str, data: &Path, result: bool) -> Result<Answer> {
        let request = serde_json::json!({"work": work, "data": data, "result": result});
        let pipe = self.requests.as_mut().context("the peers have stopped")?;
        writeln!(pipe, "{request}").with_context(|| format!("asking for {work}"))?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(
            !line.is_empty(),
            "the peers failed at {work}; what they said is above"
        );
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("reading {line}"))?;
        Ok(Answer {
            seconds: answer["seconds"].as_f64().context("no seconds")?,
            result: answer["result"].as_f64().unwrap_or(f64::NAN),
        })
    }
}

impl Drop for Peers {
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

/// Names and versions: what the requirements pin.
fn versions(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(REQUIREMENTS))?;
    let pinned = text.lines().filter_map(|line| line.split_once("=="));
    Ok(pinned
        .map(|(name, version)| format!("{name} {version}"))
        .collect())
}

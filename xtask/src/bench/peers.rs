//! The peers: Python packages in a virtual environment of their own, behind `benchmarks/peers.py`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::python;

/// What is installed, by name.
const PACKAGES: [&str; 8] = [
    "numpy",
    // probmetrics' structured scalings need it and do not say so.
    "numba",
    "torch",
    "probmetrics",
    "scikit-learn",
    "netcal",
    "torchmetrics",
    "uncertainty-calibration",
];

/// A running Python that answers requests.
pub struct Peers {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Names and versions of the packages.
    pub versions: Vec<String>,
}

/// What a peer says.
pub struct Answer {
    pub seconds: f64,
    pub result: f64,
}

impl Peers {
    /// Installs the packages below `target/` and starts the server.
    pub fn start(root: &Path) -> Result<Self> {
        let environment = root.join("target/bench/venv");
        let python = python::environment(&environment, &PACKAGES)?;
        let versions = versions(&python)?;
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

    /// Runs a piece of work once; with `result`, asks what came of it as well.
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

fn versions(python: &PathBuf) -> Result<Vec<String>> {
    let script = "import sys, importlib.metadata as m\n\
                  for name in sys.argv[1:]: print(name, m.version(name))";
    let output = Command::new(python)
        .args(["-c", script])
        .args(PACKAGES)
        .output()
        .context("cannot run Python")?;
    ensure!(output.status.success(), "a package is not there");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

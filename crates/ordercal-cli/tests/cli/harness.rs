//! One way to run the program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What a run left.
pub struct Finished {
    /// The exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Finished {
    /// The run, which must have ended well.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stderr: {}", self.stderr);
        self
    }

    /// The object that `--json` printed.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// The error in that object.
    #[track_caller]
    pub fn error(&self) -> String {
        let error = &self.json()["error"];
        error.as_str().expect("an error is text").to_owned()
    }
}

/// A folder that commands run in.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a file in it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    /// The names of what is in it, sorted.
    pub fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// Runs a line of arguments without quotes, split at spaces.
    pub fn run(&self, line: &str) -> Finished {
        self.run_args(line.split_whitespace())
    }

    /// Starts a line of arguments and does not wait for its end.
    pub fn start(&self, line: &str) -> std::process::Child {
        Command::new(env!("CARGO_BIN_EXE_ordercal"))
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Every file below a folder with its bytes, by its path.
    pub fn tree(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path(folder)];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.path(folder)).unwrap();
                    let bytes = std::fs::read(&path).unwrap();
                    files.insert(name.to_string_lossy().into_owned(), bytes);
                }
            }
        }
        files
    }

    /// Runs any arguments.
    pub fn run_args<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Finished {
        let output = Command::new(env!("CARGO_BIN_EXE_ordercal"))
            .args(args)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

//! `cargo xtask worked-example`: does what CONTRIBUTING.md says about adding a calibrator, in a copy of the sources,
//! and tries whether everything knows the new method.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root;
use crate::run::output;

/// Where the new file and the new line go.
const FILE: &str = "crates/ordercal/src/methods/scaling/prior_shift.rs";
const TABLE: &str = "crates/ordercal/src/methods/table.rs";
/// The line of the table that the new one goes behind.
const BEFORE: &str = "sms::Sms \"sms\" free;\n";
/// What is copied.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", "crates", "xtask", "python"];

/// Adds the method to a copy of the sources and uses it.
pub fn run() -> Result<()> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md"))?;
    let file = block(&text, "```rust\n").context("CONTRIBUTING.md has no worked example")?;
    let line = block(&text, "```text\n").context("CONTRIBUTING.md has no line for the table")?;
    let copy = root().join("target/worked-example");
    for name in SOURCES {
        copy_changed(&root().join(name), &copy.join(name))?;
    }
    write_changed(&copy.join(FILE), file.as_bytes())?;
    let table = fs::read_to_string(root().join(TABLE))?;
    ensure!(table.contains(BEFORE), "{TABLE} no longer has {BEFORE:?}");
    let table = table.replace(BEFORE, &format!("{BEFORE}                {line}"));
    write_changed(&copy.join(TABLE), table.as_bytes())?;

    let out = copy.join("out");
    fs::create_dir_all(&out)?;
    let demo = copy.join(crate::DEMO).join("letters.npz");
    let (calib, test) = (suffixed(&demo, "#calib"), suffixed(&demo, "#test"));
    let (model, ordered) = (path(&out, "m.safetensors"), path(&out, "o.safetensors"));
    // All packages that the tests build, although one is needed: their dependencies have the same features then, and are
    // compiled once.
    let same = ["--quiet", "--workspace"];
    let program = [&["build"], &same[..], &["--bin", "ordercal"]].concat();
    run_in(&copy, cargo(&program))?;
    let program = std::env::current_exe()?.with_file_name("ordercal");
    let tool = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new(&program);
        command.args(arguments);
        run_in(&copy, command)
    };
    let help = tool(&["fit", "--help"])?;
    ensure!(
        help.contains("prior-shift"),
        "fit --help does not list it:\n{help}"
    );
    tool(&["fit", &calib, "--method", "prior-shift", "-o", &model])?;
    tool(&[
        "fit",
        &calib,
        "--method",
        "prior-shift+order",
        "-o",
        &ordered,
    ])?;
    tool(&["apply", &model, &test, "-o", &path(&out, "probs.npy")])?;
    tool(&["export", &ordered, "-o", &path(&out, "o.onnx")])?;
    let metrics = tool(&["evaluate", &test, "--model", &ordered, "--json"])?;
    let kept = "\"changed_predictions\":0";
    ensure!(metrics.matches(kept).count() == 2, "evaluate:\n{metrics}");
    let methods = "uncalibrated,prior-shift,prior-shift+order";
    let table = tool(&["compare", path_text(&demo), "--methods", methods, "--json"])?;
    ensure!(table.contains("\"prior-shift\""), "compare:\n{table}");
    let tests = [&["test"], &same[..], &["--test", "one_method"]].concat();
    run_in(&copy, cargo(&tests))?;
    println!("one file and one line: every part knows the new method");
    Ok(())
}

/// The first block of a list item that starts with `fence`, without its indentation.
fn block(text: &str, fence: &str) -> Option<String> {
    let start = text.find(fence)? + fence.len();
    let end = start + text[start..].find("   ```")?;
    let lines = text[start..end].lines();
    Some(
        lines
            .map(|line| format!("{}\n", line.strip_prefix("   ").unwrap_or(line)))
            .collect(),
    )
}

/// Crates that are compiled once more, for the copy; without optimisation, since little is computed.
const COPIED: [&str; 6] = [
    "ordercal",
    "ordercal-cli",
    "ordercal-io",
    "ordercal-onnx",
    "ordercal-report",
    "ordercal-testkit",
];

/// Cargo for the copy; compiled dependencies are shared with the real workspace.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(COPIED.map(|name| format!("--config=profile.dev.package.{name}.opt-level=0")))
        .args(arguments)
        .env("CARGO_TARGET_DIR", root().join("target"))
        .env("ORDERCAL_METHOD", "prior-shift");
    command
}

/// Runs a command in the copy, for what it writes to standard output.
fn run_in(copy: &Path, mut command: Command) -> Result<String> {
    output(command.current_dir(copy))
}

/// Copies what is newer, so that a second run compiles little.
fn copy_changed(from: &Path, to: &Path) -> Result<()> {
    if from.file_name().is_some_and(|name| name == "target") {
        return Ok(());
    }
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_changed(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    write_changed(to, &fs::read(from)?)
}

fn write_changed(to: &Path, content: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::write(to, content).with_context(|| format!("cannot write {}", to.display()))
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("the path of the repository is text")
}

fn path(folder: &Path, name: &str) -> String {
    path_text(&folder.join(name)).to_owned()
}

fn suffixed(path: &Path, suffix: &str) -> String {
    PathBuf::from(format!("{}{suffix}", path_text(path)))
        .display()
        .to_string()
}

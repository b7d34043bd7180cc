//! `cargo xtask worked-example`: does what CONTRIBUTING.md says about adding a calibrator, in a copy of the sources,
//! and runs the conformance suite for the new method. The tests of the other crates go through the table of methods.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run::output;
use crate::{package, root};

/// Where the new file and the new line go.
const FILE: &str = "crates/ordercal/src/methods/scaling/prior_shift.rs";
const TABLE: &str = "crates/ordercal/src/methods/table.rs";
/// The line of the table that the new one goes behind.
const BEFORE: &str = "sms::Sms \"sms\" free;\n";
/// What is copied.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", "crates", "xtask", "python"];

/// Adds the method to a copy of the sources and tests it.
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

    // All packages, although two are needed: their dependencies have the features of the tests then, and are compiled once.
    let test = "test --quiet --workspace --test one_method";
    output(
        Command::new(env!("CARGO"))
            .args(test.split(' '))
            // Compiled once more, for the copy; without optimisation, since little is computed.
            .args(
                ["ordercal", "ordercal-testkit"]
                    .map(|name| format!("--config=profile.dev.package.{name}.opt-level=0")),
            )
            .env("CARGO_TARGET_DIR", package::target()?)
            .env("ORDERCAL_METHOD", "prior-shift")
            .current_dir(copy),
    )?;
    println!("one file and one line: the new method conforms");
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

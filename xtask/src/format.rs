//! `cargo xtask format`: every file, also those whose modules a macro declares, which `cargo fmt` does not find.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::run::output;

/// Fails if a file of the repository is not as rustfmt writes it; with `fix`, writes it so.
pub fn run(fix: bool) -> Result<()> {
    // With files that git does not ignore but has not seen yet.
    let listed = output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .args(["-z", "--", "*.rs"])
            .current_dir(crate::root()),
    )?;
    let files: Vec<&str> = listed
        .split_terminator('\0')
        .filter(|file| crate::root().join(file).exists())
        .collect();
    ensure!(!files.is_empty(), "git lists no *.rs file");
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]);
    if !fix {
        command.arg("--check");
    }
    let status = command.args(files).current_dir(crate::root()).status();
    if !status.context("cannot run rustfmt")?.success() {
        bail!("rustfmt would write it differently: cargo xtask format --fix");
    }
    Ok(())
}

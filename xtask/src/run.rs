//! Running other programs.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// This toolchain's cargo, at the root of the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(crate::root());
    command
}

/// Runs a command that has to succeed.
pub fn step(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command
        .status()
        .with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown} failed");
    }
    Ok(())
}

/// Reports, at the end of a step, that it left something out.
pub fn skip(step: &str, count: usize, what: &str, reason: &str) {
    println!("== {step}: {count} {what} SKIPPED: {reason}");
}

/// Runs the library's example `calibrate`, as it was built last.
pub fn example() -> Result<()> {
    // Cargo puts examples into a folder beside this program.
    let program = std::env::current_exe()?.with_file_name("examples/calibrate");
    step(&mut Command::new(program))
}

/// Counts lines of the sources as they are, or of a revision.
pub fn lines(revision: &[&str]) -> Result<()> {
    let mut command = Command::new("python3");
    command.arg("xtask/src/lines.py").args(revision);
    step(command.current_dir(crate::root()))
}

/// Runs a command that has to succeed, for what it writes to standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        eprint!("{}", String::from_utf8_lossy(&stderr));
        bail!("{shown} failed");
    }
    String::from_utf8(stdout).with_context(|| format!("{shown} did not write text"))
}

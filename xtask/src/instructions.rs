//! `cargo xtask instructions`: how many instructions the hottest loops take, compared with what they took.
//!
//! Seconds depend on the machine and on what else it does; instructions, counted by callgrind, do not. The loops are
//! those of `cargo measure kernels`, as the tests compile them (the library is optimised, with checks of overflow) and with
//! AVX2, the best that valgrind knows. Another compiler generates other code, so counts are compared for the compiler
//! that they were taken with.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::debian;
use crate::package;
use crate::run::{cargo, output, skip, step};

/// The counts to compare with: a line for the compiler, then one per loop.
const FILE: &str = "crates/ordercal-bench/instructions.txt";

/// The most that a count may differ, in either direction: what has become faster is written down, too.
const TOLERANCE: f64 = 0.10;

/// The function around each loop.
const FUNCTION: &str = "ordercal_bench::kernels::measured";

/// Counts, and compares; with `fix`, writes the counts instead.
pub fn run(built: bool, fix: bool) -> Result<()> {
    let path = crate::root().join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let (first, lines) = text.split_once('\n').context("the file is empty")?;
    let skipped = |reason: &str| skip("instructions", lines.lines().count(), "loops", reason);
    if cfg!(not(target_arch = "x86_64")) {
        skipped("they were counted for x86-64");
        return Ok(());
    }
    let present = || Command::new("valgrind").arg("--version").output().is_ok();
    if !(present() || debian::install("valgrind") && present()) {
        skipped("there is no valgrind, and apt-get cannot install it here");
        return Ok(());
    }
    let compiler = output(Command::new("rustc").arg("--version"))?;
    let compiler = compiler.split_whitespace().take(2).collect::<Vec<_>>();
    let compiler = compiler.join(" ");
    if first != compiler && !fix {
        skipped(&format!("counted with {first}, this is {compiler}"));
        return Ok(());
    }
    if !built {
        // As the check builds it: other packages or incremental compilation would divide the code in another way.
        let build = ["build", "--workspace", "--bin", "ordercal-bench"];
        step(cargo(&build).env("CARGO_INCREMENTAL", "0"))?;
    }
    let counts = count()?;
    if fix {
        let lines = counts.iter().map(|(name, n)| format!("{n:>10} {name}\n"));
        let text = format!("{compiler}\n{}", lines.collect::<String>());
        return fs::write(&path, text).with_context(|| format!("cannot write {FILE}"));
    }
    let expected = lines
        .lines()
        .map(|line| line.trim().split_once(' ').context("a count and a name"))
        .collect::<Result<Vec<_>>>()?;
    let names = |all: Vec<&str>| all.join("; ");
    let (found, known) = (
        names(counts.iter().map(|(name, _)| name.as_str()).collect()),
        names(expected.iter().map(|(_, name)| *name).collect()),
    );
    ensure!(
        found == known,
        "{FILE} has other loops: {known}\nnow there are: {found}\nwrite it with --fix"
    );
    let mut failed = 0;
    for ((name, count), (before, _)) in counts.iter().zip(&expected) {
        let before: f64 = before.parse().context("a count")?;
        let change = *count as f64 / before - 1.0;
        let bad = change.abs() > TOLERANCE;
        failed += usize::from(bad);
        let mark = if bad { "  <-- more than 10%" } else { "" };
        println!("{count:>10} {:>+6.1}% {name}{mark}", 100.0 * change);
    }
    println!("{} passed, {failed} failed", counts.len() - failed);
    ensure!(
        failed == 0,
        "the number of instructions changed; if it has to, write it down: cargo xtask instructions --fix"
    );
    Ok(())
}

/// The name of each loop with its instructions.
fn count() -> Result<Vec<(String, u64)>> {
    let target = package::target()?;
    let folder = target.join("instructions");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    // Cargo puts both programs into the same folder, wherever that is.
    let program = std::env::current_exe()?.with_file_name("ordercal-bench");
    let names = output(
        Command::new("valgrind")
            .args(["--quiet", "--tool=callgrind"])
            // Counts begin at the function and are written when it ends: one file each.
            .arg(format!("--zero-before={FUNCTION}"))
            .arg(format!("--dump-after={FUNCTION}"))
            .arg(format!(
                "--callgrind-out-file={}",
                folder.join("counts").display()
            ))
            .arg(program)
            .args(["kernels", "--once"])
            .env("ORDERCAL_SIMD", "avx2"),
    )?;
    let names = names.lines().enumerate();
    names
        .map(|(place, name)| {
            let file = folder.join(format!("counts.{}", place + 1));
            Ok((name.to_owned(), total(&file)?))
        })
        .collect()
}

/// The sum of one of callgrind's files.
fn total(file: &Path) -> Result<u64> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("callgrind wrote no {shown}"))?;
    if !text.contains("Trigger: --dump-after") {
        bail!("{shown} is not the end of a loop");
    }
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let totals = totals.with_context(|| format!("{shown} has no totals"))?;
    totals
        .trim()
        .parse()
        .with_context(|| format!("{shown}: {totals}"))
}

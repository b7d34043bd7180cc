//! `cargo xtask hammer`: the order promise on as many hostile rows as there is patience for.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use anyhow::{Result, bail};
use ordercal_testkit::hammer;

/// Tries `rows` rows; fails if a single one breaks the promise.
pub fn run(rows: usize, seed: u64) -> Result<()> {
    let begin = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let findings = hammer::run(rows, seed, &|done| {
        if terminal {
            eprint!(
                "\r{done} of {rows} rows, {:.0} s",
                begin.elapsed().as_secs_f64()
            );
            let _ = std::io::stderr().flush();
        }
    });
    if terminal {
        eprintln!();
    }
    for violation in &findings.violations {
        println!("{violation}");
    }
    println!(
        "{} rows (seed {seed}) in {:.1} s: {} violations",
        findings.rows,
        begin.elapsed().as_secs_f64(),
        findings.violations.len()
    );
    if !findings.violations.is_empty() {
        bail!("the order was not kept");
    }
    Ok(())
}

//! `cargo measure hammer`: the order promise on any number of hostile rows.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use anyhow::{Result, bail};
use ordercal_testkit::hammer;

#[derive(clap::Args)]
pub struct Args {
    /// How many rows to try
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: usize,
    /// The seed of the rows
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Fails if a single row breaks the promise.
pub fn run(&Args { rows, seed }: &Args) -> Result<()> {
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

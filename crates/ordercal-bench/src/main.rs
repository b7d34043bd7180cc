//! Measures ordercal; `cargo measure` builds it with optimisation and runs it.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod bundles;
mod groups;
mod hammer;
mod harm;
mod kernels;
mod method;
mod monitor;
mod quality;
mod record;
mod scaling;
mod speed;

use std::path::Path;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures ordercal
#[derive(Parser)]
#[command(name = "cargo measure", bin_name = "cargo measure")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Time ordercal, and other packages on the same work
    Bench(bench::Args),
    /// Fit auto beside twelve methods to every bundle of a folder, and say how many it beats
    Quality(quality::Args),
    /// Record the results of every method on every bundle of a folder, and compare them with an earlier record
    Record(record::Args),
    /// Fit methods to scores that are calibrated already, and say what that costs
    Harm(harm::Args),
    /// Fit a temperature for all rows, one per group, and the mixture of both, and print the NLL of other rows
    Groups(Box<groups::Args>),
    /// Simulate streams, and count the false alarms and the delays of `monitor`
    Monitor(monitor::Args),
    /// Time fits against rows, classes and threads, and measure their memory
    Scaling(scaling::Args),
    /// Time single fits to generated data and measure their memory
    Speed(speed::Args),
    /// Time the hottest loops, each by itself
    Kernels(kernels::Args),
    /// Check the order promise on hostile rows
    Hammer(hammer::Args),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Quality(args) => quality::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Harm(args) => harm::run(&args),
        Command::Groups(args) => groups::run(&args),
        Command::Monitor(args) => monitor::run(&args),
        Command::Scaling(args) => scaling::run(&args),
        Command::Speed(args) => speed::run(&args),
        Command::Kernels(args) => kernels::run(&args),
        Command::Hammer(args) => hammer::run(&args),
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}

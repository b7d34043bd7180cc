//! The command line of ordercal: files in, calibrated probabilities out.

mod args;
mod commands;
mod config;
mod exit;
mod fail_if;
mod help;
mod input;
mod measure;
mod models;
mod printer;
mod stream;
mod verdict;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use exit::Exit;
use printer::Printer;

fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let outcome = run(&cli);
    if INTERRUPTED.load(Ordering::SeqCst) {
        // What is missing now, the handler has removed: it ends the process, and its exit code counts.
        loop {
            std::thread::park();
        }
    }
    finish(outcome)
}

/// The exit status of an outcome; results that could not be printed are an error, too.
fn finish(outcome: Result<Exit>) -> Exit {
    let written = outcome.and_then(|exit| printer::check_written().map(|()| exit));
    written.unwrap_or_else(|error| {
        printer::error(error);
        Exit::BadInput
    })
}

/// Whether Ctrl-C was pressed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn run(cli: &Cli) -> Result<Exit> {
    // Ctrl-C ends the process at once, in the middle of any fit; unfinished files are removed first.
    ctrlc::set_handler(|| {
        INTERRUPTED.store(true, Ordering::SeqCst);
        ordercal_io::discard_pending();
        commands::demo::remove_temporary_folder();
        std::process::exit(Exit::INTERRUPTED);
    })
    .context("cannot listen for Ctrl-C")?;
    if let Some(threads) = cli.common.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .build_global()
            .context("cannot start the threads")?;
    }
    let printer = Printer::new(&cli.common);
    match &cli.command {
        Command::Demo(args) => commands::demo::run(args, &cli.common, printer),
        Command::Fit(args) => commands::fit::run(args, &cli.common, printer),
        Command::Apply(args) => commands::apply::run(args, printer),
        Command::Evaluate(args) => commands::evaluate::run(args, &cli.common, printer),
        Command::Merge(args) => commands::merge::run(args, printer),
        Command::Compare(args) => commands::compare::run(args, &cli.common, printer),
        Command::Curve(args) => commands::curve::run(args, &cli.common, printer),
        Command::Plot(args) => commands::plot::run(args, printer),
        Command::Export(args) => commands::export::run(args, printer),
        Command::Inspect(args) => commands::inspect::run(args, printer),
        Command::Metrics { keys } => commands::metrics::run(keys, printer),
        Command::Completions { shell } => Ok(commands::completions::run(*shell)),
    }
}

/// Prints help and version unchanged, and anything else as an error of one sentence.
fn refuse(error: &clap::Error) -> Exit {
    let rendered = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printer::text(rendered);
            finish(Ok(Exit::Done))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            printer::error("no command was given; `ordercal --help` lists them");
            Exit::BadInput
        }
        _ => {
            let sentence: Vec<&str> = rendered
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage:"))
                .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
                .collect();
            printer::error(sentence.join(" ").trim_start_matches("error: "));
            Exit::BadInput
        }
    }
}

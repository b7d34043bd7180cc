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
mod output;
mod printer;
mod signals;
mod stream;
mod verdict;

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
    if signals::ending() {
        // What is missing now, the handler has removed: it ends the process, and its exit code counts.
        loop {
            std::thread::park();
        }
    }
    ordercal_io::discard_pending();
    finish(outcome, cli.common.json)
}

/// The exit status of an outcome; results that could not be printed are an error, too.
fn finish(outcome: Result<Exit>, json: bool) -> Exit {
    let written = outcome.and_then(|exit| printer::check_written().map(|()| exit));
    written.unwrap_or_else(|error| {
        printer::error(&error.to_string(), json);
        Exit::BadInput
    })
}

/// More threads than this never help, and each takes memory.
const MOST_THREADS: usize = 1024;

fn run(cli: &Cli) -> Result<Exit> {
    signals::listen()?;
    let limit = (cli.common.max_memory).or_else(ordercal_io::default_memory_limit);
    if let Some(bytes) = limit {
        ordercal::memory::set_limit(bytes);
    }
    if let Some(threads) = cli.common.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.get().min(MOST_THREADS))
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
        Command::Monitor(args) => commands::monitor::run(args, printer),
        Command::Compare(args) => commands::compare::run(args, &cli.common, printer),
        Command::Curve(args) => commands::curve::run(args, &cli.common, printer),
        Command::Plot(args) => commands::plot::run(args, printer),
        Command::Export(args) => commands::export::run(args, printer),
        Command::Inspect(args) => commands::inspect::run(args, printer),
        Command::Metrics { keys } => commands::metrics::run(keys, printer),
        Command::Man { command } => commands::man::run(command.as_deref()),
        Command::Completions { shell } => Ok(commands::completions::run(*shell)),
    }
}

/// Prints help and version unchanged, and anything else as an error of one sentence.
fn refuse(error: &clap::Error) -> Exit {
    let rendered = error.render().to_string();
    // The arguments could not be parsed, but what is wanted is plain.
    let json = std::env::args_os().any(|argument| argument == "--json");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printer::text(rendered);
            finish(Ok(Exit::Done), json)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            printer::error("no command was given; `ordercal --help` lists them", json);
            Exit::BadInput
        }
        _ => {
            let sentence: Vec<&str> = rendered
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage:"))
                .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
                .collect();
            let sentence = sentence.join(" ");
            printer::error(sentence.trim_start_matches("error: "), json);
            Exit::BadInput
        }
    }
}

//! `ordercal completions`: a completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Exit;
use crate::printer;

pub fn run(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ordercal", &mut script);
    printer::text(String::from_utf8_lossy(&script));
    Exit::Done
}

//! `ordercal man`: manual pages.

use anyhow::{Result, anyhow};
use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit::Exit;
use crate::printer;

/// Prints the page of the program, or of one of its commands.
pub fn run(command: Option<&str>) -> Result<Exit> {
    let mut program = Cli::command();
    // Adds the options of every command to each.
    program.build();
    let page = match command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            let found = found.ok_or_else(|| {
                anyhow!("there is no command `{name}`; `ordercal --help` lists them")
            })?;
            // clap keeps names for as long as the program runs.
            found.name(&*format!("ordercal-{name}").leak())
        }
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    printer::text(String::from_utf8_lossy(&text));
    Ok(Exit::Done)
}

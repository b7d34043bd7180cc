//! Output: text and tables for people, or one JSON object for programs.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ordercal::diagnose::Warning;
use ordercal_report::wrap;
use serde_json::Value;

use crate::args::Common;
use crate::input::at;

/// The widest line of a table.
const WIDTH: u16 = 80;

/// Prints the results of a command.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    json: bool,
    quiet: bool,
    strict: bool,
}

impl Printer {
    /// A printer that follows `--json`, `--quiet` and `--strict`.
    pub fn new(common: &Common) -> Self {
        Self {
            json: common.json,
            quiet: common.quiet,
            strict: common.strict,
        }
    }

    /// Prints warnings about a file on stderr. With `--strict`, the first is an error.
    pub fn warn(self, path: &Path, warnings: &[Warning]) -> Result<()> {
        self.refuse(path, warnings)?;
        for warning in warnings {
            let line = format!("warning: {}: {warning}", path.display());
            say(io::stderr(), one_line(&line));
        }
        Ok(())
    }

    /// With `--strict`, the first warning is an error.
    pub fn refuse(self, path: &Path, warnings: &[Warning]) -> Result<()> {
        match warnings.first() {
            Some(warning) if self.strict => Err(at(path, format_args!("{warning} (--strict)"))),
            _ => Ok(()),
        }
    }

    /// Prints a result; `--json` suppresses it.
    pub fn result(self, line: impl Display) {
        if !self.json {
            say_result(line);
        }
    }

    /// Prints a remark, with long lines wrapped; `--quiet` and `--json` suppress it.
    pub fn remark(self, line: impl Display) {
        if !self.json && !self.quiet {
            say_result(wrap(&line.to_string(), 3));
        }
    }

    /// Prints the object of `--json`.
    pub fn json(self, value: &Value) {
        if self.json {
            say_result(value);
        }
    }

    /// A progress bar on stderr; hidden unless stderr is a terminal, and by `--quiet` and `--json`.
    pub fn progress(self, of: u64, what: impl Into<String>) -> ProgressBar {
        let bar = ProgressBar::new(of);
        if self.json || self.quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style =
            ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}, {eta} left");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.with_prefix(what.into())
    }
}

/// Prints an error on stderr, in one line.
pub fn error(message: impl Display) {
    let message = one_line(&message.to_string());
    say(io::stderr(), format_args!("error: {message}"));
}

/// Says on stderr that something did not hold.
pub fn failure(message: impl Display) {
    say(io::stderr(), message);
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Prints a longer text: help, completions.
pub fn text(text: impl Display) {
    say_result(text.to_string().trim_end());
}

/// The first failure to write a result.
static FAILURE: Mutex<Option<io::Error>> = Mutex::new(None);

/// Whether all results could be written. A closed pipe, as behind `| head`, is not an error: nobody reads the rest.
pub fn check_written() -> Result<()> {
    let failed = FAILURE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match failed.or_else(|| io::stdout().flush().err()) {
        Some(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow!("standard output: cannot write the results: {e}"))
        }
        _ => Ok(()),
    }
}

/// Prints a line on stdout; [`check_written`] reports a failure.
fn say_result(line: impl Display) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }
}

/// Prints a line where a failure cannot be reported.
fn say(mut to: impl Write, line: impl Display) {
    let _ = writeln!(to, "{line}");
}

/// A table whose first column holds names and whose others hold numbers.
pub fn table(header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(header)
        .add_rows(rows);
    // Horizontal lines around the header and at the end only.
    for part in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(part);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

//! Output: text and tables for people, or one JSON object for programs.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ordercal::diagnose::Warning;
use ordercal::words::printable;
use ordercal::{Progress, Watch};
use ordercal_io::STDOUT;
use ordercal_report::wrap;
use serde_json::Value;

use crate::args::Common;
use crate::input::at;

/// The widest line of a table.
const WIDTH: u16 = 80;

/// The most groups of a table; `--json` has all of them.
pub const MOST_GROUPS: usize = 20;

/// Prints the results of a command.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    json: bool,
    quiet: bool,
    strict: bool,
    /// Whether standard output is taken by a result, so that text goes to stderr.
    aside: bool,
}

impl Printer {
    /// A printer that follows `--json`, `--quiet` and `--strict`.
    pub fn new(common: &Common) -> Self {
        Self {
            json: common.json,
            quiet: common.quiet,
            strict: common.strict,
            aside: false,
        }
    }

    /// A printer beside an output file: where that is standard output, text goes to stderr.
    pub fn beside(self, output: &Path) -> Result<Self> {
        let aside = output == Path::new(STDOUT);
        if aside && self.json {
            bail!("--json and -o - both print to standard output; write one of them to a file");
        }
        Ok(Self { aside, ..self })
    }

    fn line(self, line: impl Display) {
        if self.aside {
            say(io::stderr(), line);
        } else {
            say_result(line);
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
            self.line(line);
        }
    }

    /// Prints a remark, with long lines wrapped; `--quiet` and `--json` suppress it.
    pub fn remark(self, line: impl Display) {
        if self.remarks() {
            self.line(wrap(&line.to_string(), 3));
        }
    }

    /// Prints the object of `--json`.
    pub fn json(self, value: &Value) {
        if self.json {
            say_result(value);
        }
    }

    /// Says how many of the groups a table leaves out.
    pub fn left_out(self, groups: usize) {
        if groups > MOST_GROUPS {
            let more = groups - MOST_GROUPS;
            self.remark(format_args!("and {more} more groups; --json lists all"));
        }
    }

    /// Whether remarks are printed.
    pub fn remarks(self) -> bool {
        !self.json && !self.quiet
    }

    /// Does work behind a progress bar.
    pub fn watched<T>(self, what: impl Into<String>, work: impl FnOnce(&dyn Watch) -> T) -> T {
        let bar = self.progress(0, what);
        let done = work(&|progress: &Progress| {
            bar.set_length(progress.of as u64);
            bar.set_position(progress.iteration as u64);
            bar.set_message(format!("loss {:.4}", progress.loss));
            ControlFlow::Continue(())
        });
        bar.finish_and_clear();
        done
    }

    /// A progress bar on stderr; hidden unless stderr is a terminal, and by `--quiet` and `--json`.
    pub fn progress(self, of: u64, what: impl Into<String>) -> ProgressBar {
        let bar = ProgressBar::new(of);
        if !self.remarks() {
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

/// Prints an error on stderr, in one line, and with `--json` as an object on stdout as well.
pub fn error(message: &str, json: bool) {
    let message = without_controls(&one_line(message));
    if json {
        say(io::stdout(), serde_json::json!({ "error": message }));
    }
    say(io::stderr(), format_args!("error: {message}"));
}

/// Says on stderr that something did not hold.
pub fn failure(message: impl Display) {
    say(io::stderr(), message);
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Text from data without the characters that would control a terminal.
fn without_controls(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        c => printable(c),
    };
    text.chars().map(shown).collect()
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
    let line = without_controls(&line.to_string());
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }
}

/// Prints a line where a failure cannot be reported.
fn say(mut to: impl Write, line: impl Display) {
    let _ = writeln!(to, "{}", without_controls(&line.to_string()));
}

/// A table whose first column holds names and whose others hold numbers.
pub fn table(
    header: impl IntoIterator<Item = impl Into<String>>,
    rows: Vec<Vec<String>>,
) -> String {
    let header: Vec<String> = header.into_iter().map(Into::into).collect();
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

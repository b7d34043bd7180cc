//! Output: text and tables for people, or one JSON object for programs.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ordercal_io::STDOUT;
use ordercal_report::wrap;
use serde_json::Value;

use crate::args::Common;

/// The widest line of a table.
const WIDTH: u16 = 80;

/// Prints the results of a command.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    json: bool,
    quiet: bool,
    /// Whether standard output is taken by a result, so that text goes to stderr.
    aside: bool,
}

impl Printer {
    /// A printer that follows `--json` and `--quiet`.
    pub fn new(common: &Common) -> Self {
        Self {
            json: common.json,
            quiet: common.quiet,
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
            say(io::stdout(), line);
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
        if !self.json && !self.quiet {
            self.line(wrap(&line.to_string(), 3));
        }
    }

    /// Prints the object of `--json`.
    pub fn json(self, value: &Value) {
        if self.json {
            say(io::stdout(), value);
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

/// Prints an error on stderr, in one line, and with `--json` as an object on stdout as well.
pub fn failure(message: &str, json: bool) {
    let message: String = message.replace(['\n', '\r'], " ");
    let message = without_controls(&message);
    if json {
        say(io::stdout(), serde_json::json!({ "error": message }));
    }
    say(io::stderr(), format_args!("error: {message}"));
}

/// Text from data without the characters that would control a terminal.
fn without_controls(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Prints a longer text: help, completions.
pub fn text(text: impl Display) {
    say(io::stdout(), text.to_string().trim_end());
}

/// Prints a line. A closed pipe, as behind `| head`, is not an error.
fn say(mut to: impl Write, line: impl Display) {
    let _ = writeln!(to, "{}", without_controls(&line.to_string()));
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

//! Output: text and tables for people, or one JSON object for programs.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
}

impl Printer {
    /// A printer that follows `--json` and `--quiet`.
    pub fn new(common: &Common) -> Self {
        Self {
            json: common.json,
            quiet: common.quiet,
        }
    }

    /// Prints a result; `--json` suppresses it.
    pub fn result(self, line: impl Display) {
        if !self.json {
            say(io::stdout(), line);
        }
    }

    /// Prints a remark, with long lines wrapped; `--quiet` and `--json` suppress it.
    pub fn remark(self, line: impl Display) {
        if !self.json && !self.quiet {
            say(io::stdout(), wrap(&line.to_string(), 3));
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

/// Prints an error on stderr, in one line.
pub fn error(message: impl Display) {
    let message = message.to_string().replace(['\n', '\r'], " ");
    say(io::stderr(), format_args!("error: {message}"));
}

/// Prints a longer text: help, completions.
pub fn text(text: impl Display) {
    say(io::stdout(), text.to_string().trim_end());
}

/// Prints a line. A closed pipe, as behind `| head`, is not an error.
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

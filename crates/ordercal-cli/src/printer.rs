//! Where results go: words and tables for people, or one JSON object for programs.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::args::Common;

/// The widest line of a table.
const WIDTH: u16 = 80;

/// Prints what a command found.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    json: bool,
    quiet: bool,
}

impl Printer {
    /// A printer as the flags ask for.
    pub fn new(common: &Common) -> Self {
        Self {
            json: common.json,
            quiet: common.quiet,
        }
    }

    /// A line that is the result; only `--json` replaces it.
    pub fn result(self, line: impl Display) {
        if !self.json {
            say(io::stdout(), line);
        }
    }

    /// A line that helps to understand; `--quiet` and `--json` leave it out. Long ones are wrapped.
    pub fn remark(self, line: impl Display) {
        if !self.json && !self.quiet {
            say(io::stdout(), wrap(&line.to_string()));
        }
    }

    /// The object that `--json` asks for.
    pub fn json(self, value: &Value) {
        if self.json {
            say(io::stdout(), value);
        }
    }

    /// A bar on stderr, if that is a terminal and nobody asked for silence.
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

/// One sentence on stderr.
pub fn error(message: impl Display) {
    let message = message.to_string().replace(['\n', '\r'], " ");
    say(io::stderr(), format_args!("error: {message}"));
}

/// Text that is a whole: help, completions.
pub fn text(text: impl Display) {
    say(io::stdout(), text.to_string().trim_end());
}

/// Prints a line. A reader that went away, as `head` does, is no reason to fail.
fn say(mut to: impl Write, line: impl Display) {
    let _ = writeln!(to, "{line}");
}

/// Breaks lines at spaces so that they fit; what follows is indented.
fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            wrapped.push('\n');
        }
        let mut width = 0;
        for (place, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if place > 0 && width + 1 + length > usize::from(WIDTH) {
                wrapped.push_str("\n   ");
                width = 3;
            } else if place > 0 {
                wrapped.push(' ');
                width += 1;
            }
            wrapped.push_str(word);
            width += length;
        }
    }
    wrapped
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
    // Lines around the header and at the end, none between the rows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_and_short_ones_are_left_alone() {
        assert_eq!(wrap("\na b  c"), "\na b  c");
        let long = format!("1. {}", "word ".repeat(30));
        let wrapped = wrap(&long);
        assert!(
            wrapped.lines().all(|line| line.chars().count() <= 80),
            "{wrapped}"
        );
        assert_eq!(wrapped.lines().count(), 2);
        assert_eq!(wrapped.split_whitespace().count(), 31);
        // A word that is too long stays whole.
        let path = "x".repeat(100);
        assert_eq!(wrap(&path), path);
    }
}

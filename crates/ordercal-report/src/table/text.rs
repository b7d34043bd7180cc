//! Tables for a terminal: a row for each method, split if there are too many datasets for 80 columns.

use super::{Table, TableRow};

/// The widest line.
const WIDTH: usize = 80;
/// The widest heading of a column; longer names are broken.
const HEAD: usize = 13;

/// The table as text of at most 80 columns, with ranks as subscripts.
pub fn to_text(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|c| c.method.as_str()).collect();
    let first = names.iter().map(|n| n.chars().count()).max().unwrap_or(0) + 2;
    let columns: Vec<TextColumn> = table.all_rows().map(TextColumn::new).collect();
    let mut text = format!("{}\n", table.title);
    let mut rest = &columns[..];
    while !rest.is_empty() {
        let mut width = first;
        let fits = |column: &&TextColumn| {
            width += 2 + column.width;
            width <= WIDTH
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (now, later) = rest.split_at(count);
        part(&mut text, table, first, now);
        rest = later;
    }
    for note in table.notes() {
        text.push_str(note);
        text.push('\n');
    }
    text
}

/// A row of the table, which is a column here.
struct TextColumn {
    head: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl TextColumn {
    fn new(row: &TableRow) -> Self {
        let head = broken(&row.name);
        let last = row.cells.iter().map(|cell| cell.rank).max();
        let digits = last.map_or(1, |rank| rank.to_string().len());
        let cells: Vec<String> = row
            .cells
            .iter()
            .map(|cell| {
                let mark = if cell.close { "*" } else { "" };
                let behind = format!("{}{mark}", subscript(cell.rank));
                // Padded, so that numbers with ranks of one and two digits align.
                let width = digits + 1;
                format!("{}{behind:<width$}", cell.number(row.decimals))
            })
            .collect();
        let longest = |lines: &[String]| lines.iter().map(|l| l.chars().count()).max();
        let width = longest(&head).max(longest(&cells)).unwrap_or(0);
        Self { head, cells, width }
    }
}

fn part(text: &mut String, table: &Table, first: usize, columns: &[TextColumn]) {
    let mut push = |line: String| {
        text.push_str(line.trim_end());
        text.push('\n');
    };
    let width = first + columns.iter().map(|c| 2 + c.width).sum::<usize>();
    let lines = columns.iter().map(|c| c.head.len()).max().unwrap_or(0);
    for line in 0..lines {
        let mut head = " ".repeat(first);
        for column in columns {
            // Headings are aligned at the bottom.
            let blank = lines - column.head.len();
            let word = if line < blank {
                ""
            } else {
                &column.head[line - blank]
            };
            head.push_str(&format!("  {word:>width$}", width = column.width));
        }
        push(head);
    }
    push("─".repeat(width));
    for (name, methods) in table.groups() {
        push(name.to_owned());
        for method in methods {
            let mut line = format!(
                "  {:<width$}",
                table.columns[method].method,
                width = first - 2
            );
            for column in columns {
                line.push_str(&format!(
                    "  {:>width$}",
                    column.cells[method],
                    width = column.width
                ));
            }
            push(line);
        }
    }
    push("─".repeat(width));
}

/// A name broken into lines after separators.
fn broken(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive(['_', '-', ' ', '/']) {
        let room = HEAD.saturating_sub(lines.last().map_or(0, |l| l.chars().count()));
        if word.trim_end().chars().count() > room && !lines.last().is_some_and(String::is_empty) {
            lines.push(String::new());
        }
        for c in word.chars() {
            if lines.last().map_or(0, |l| l.chars().count()) == HEAD {
                lines.push(String::new());
            }
            lines.last_mut().expect("there is a line").push(c);
        }
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// A rank in subscript digits.
pub(super) fn subscript(rank: usize) -> String {
    let digit = |c: char| char::from_u32('₀' as u32 + c as u32 - '0' as u32);
    rank.to_string().chars().filter_map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{dataset, result, small};
    use crate::comparison::{Comparison, UNCALIBRATED};
    use ordercal::metrics::Metric;

    #[test]
    fn a_small_table_reads_as_expected() {
        let text = to_text(&Table::of_metric(&small(), Metric::Ece));
        let expected = "\
ECE
                                          average
                                         relative
                first_set      second       error
─────────────────────────────────────────────────
order-preserving: keep every ranking and prediction
  uncalibrated   0.1000₃     0.2000₂      1.000₃
  ts             0.0500₂     0.0200₁      0.300₁
free: may change predictions
  vs             0.0400₁     0.3000₃      0.950₂
─────────────────────────────────────────────────
";
        // Widths are checked by the layout below; what matters here is what stands where.
        let squeeze = |t: &str| -> Vec<String> {
            t.lines()
                .filter(|l| !l.starts_with('─'))
                .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect()
        };
        assert_eq!(squeeze(&text), squeeze(expected));
    }

    #[test]
    fn many_datasets_with_long_names_stay_within_80_columns() {
        let names = [
            "cifar100_densenet_bc100",
            "imagenet_pnasnet5_large_again",
            "anextraordinarilylongnamewithoutanyseparator",
            "d",
            "cars_resnet_101_pretrained",
            "birds",
            "svhn",
        ];
        let datasets = names.iter().map(|name| {
            let methods = vec![
                result(UNCALIBRATED, true, &[(Metric::Brier, 0.000_33)]),
                result("dir-odir+order", true, &[(Metric::Brier, 0.000_31)]),
            ];
            dataset(name, methods)
        });
        let comparison = Comparison::new(vec![Metric::Brier], datasets.collect()).unwrap();
        let text = to_text(&Table::of_metric(&comparison, Metric::Brier));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(text.matches("0.00033").count(), names.len());
        assert_eq!(broken(names[0]), ["cifar100_", "densenet_", "bc100"]);
        assert_eq!(broken(names[2]).concat(), names[2]);
    }

    #[test]
    fn ranks_are_subscripts() {
        assert_eq!(subscript(1), "₁");
        assert_eq!(subscript(14), "₁₄");
    }
}

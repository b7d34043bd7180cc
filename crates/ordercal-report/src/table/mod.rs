//! Tables of a comparison, and their formats: one file each.

mod csv;
mod html;
mod latex;
mod markdown;
mod text;

use ordercal::metrics::Metric;

use crate::comparison::Comparison;

pub use csv::to_csv;
pub use html::to_html;
pub use latex::to_latex;
pub use markdown::to_markdown;
pub use text::to_text;

/// The meaning of the mark `*`.
pub const MARK_NOTE: &str = "* not significantly different from the best (paired bootstrap, 95%)";
/// The meaning of an infinite relative error.
pub const INFINITE_NOTE: &str = "∞ the uncalibrated error is 0 on some dataset";
/// The heading of order-preserving methods.
pub const KEPT_NOTE: &str = "order-preserving: keep every ranking and prediction";
/// The heading of free methods.
pub const FREE_NOTE: &str = "free: may change predictions";

/// One number with its rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The number.
    pub value: f64,
    /// 1 is the best of its row.
    pub rank: usize,
    /// Whether it does not differ significantly from the best of its row; false for the best itself.
    pub close: bool,
    /// A note in parentheses, such as the change of accuracy.
    pub note: Option<String>,
}

/// A column of a table: a method.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its key.
    pub method: String,
    /// Whether it is order-preserving.
    pub order_preserving: bool,
}

/// A row of a table: a dataset, a metric, or an average.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow {
    /// The name of the dataset or metric.
    pub name: String,
    /// The number of decimals.
    pub decimals: usize,
    /// A cell for each method.
    pub cells: Vec<Cell>,
}

/// A table in the paper's form: datasets × methods with ranks, and the average relative error below.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The heading of the column of row names.
    pub corner: &'static str,
    /// The methods.
    pub columns: Vec<Column>,
    /// The datasets or metrics.
    pub rows: Vec<TableRow>,
    /// The average relative error.
    pub average: Option<TableRow>,
}

impl Table {
    /// A metric of every method on every dataset.
    pub fn of_metric(comparison: &Comparison, metric: Metric) -> Self {
        let all = || (0..comparison.datasets().len()).map(|d| comparison.values(metric, d));
        let decimals = decimals_for(all().flatten());
        let rows = comparison
            .datasets()
            .iter()
            .enumerate()
            .map(|(place, dataset)| {
                let mut row = row(
                    &dataset.name,
                    decimals,
                    &comparison.values(metric, place),
                    &comparison.ranks(metric, place),
                    &comparison.close_to_best(metric, place),
                );
                let free = dataset.methods.iter().enumerate();
                for (method, result) in free.filter(|(_, m)| !m.order_preserving) {
                    let change = comparison.accuracy_change(place, method);
                    row.cells[method].note =
                        change.map(|c| signed_percent(c, result.changed_predictions));
                }
                row
            });
        let name = match metric.higher_is_better() {
            true => "average relative value",
            false => "average relative error",
        };
        Self {
            title: metric.name().to_owned(),
            corner: "dataset",
            columns: columns(comparison),
            rows: rows.collect(),
            average: Some(average(comparison, metric, name)),
        }
    }

    /// The average relative error by every metric.
    pub fn summary(comparison: &Comparison) -> Self {
        let metrics = comparison.metrics().iter();
        let errors = metrics.filter(|metric| !metric.higher_is_better());
        Self {
            title: "Average relative error".to_owned(),
            corner: "metric",
            columns: columns(comparison),
            rows: errors.map(|&m| average(comparison, m, m.key())).collect(),
            average: None,
        }
    }

    /// The rows, with the average last.
    pub fn all_rows(&self) -> impl Iterator<Item = &TableRow> {
        self.rows.iter().chain(&self.average)
    }

    /// The indices of the order-preserving methods and of the free ones, each group with its heading.
    pub fn groups(&self) -> Vec<(&'static str, Vec<usize>)> {
        let with = |kept: bool| -> Vec<usize> {
            let places = 0..self.columns.len();
            places
                .filter(|&i| self.columns[i].order_preserving == kept)
                .collect()
        };
        let groups = [(KEPT_NOTE, with(true)), (FREE_NOTE, with(false))];
        groups
            .into_iter()
            .filter(|(_, places)| !places.is_empty())
            .collect()
    }

    /// The indices of all methods, the order-preserving ones first.
    pub(crate) fn order(&self) -> Vec<usize> {
        let groups = self.groups().into_iter();
        groups.flat_map(|(_, places)| places).collect()
    }

    /// The notes below the table.
    pub fn notes(&self) -> Vec<&'static str> {
        let mut cells = self.all_rows().flat_map(|row| &row.cells);
        let infinite = cells.any(|cell| cell.value.is_infinite());
        let mut notes = Vec::new();
        if self.has_marks() {
            notes.push(MARK_NOTE);
        }
        if infinite {
            notes.push(INFINITE_NOTE);
        }
        notes
    }

    /// Whether any cell is marked.
    pub fn has_marks(&self) -> bool {
        let mut cells = self.all_rows().flat_map(|row| &row.cells);
        cells.any(|cell| cell.close)
    }
}

pub(crate) fn columns(comparison: &Comparison) -> Vec<Column> {
    let methods = comparison.methods().into_iter();
    methods
        .map(|(method, order_preserving)| Column {
            method: method.to_owned(),
            order_preserving,
        })
        .collect()
}

fn average(comparison: &Comparison, metric: Metric, name: &str) -> TableRow {
    row(
        name,
        3,
        &comparison.average_relative_errors(metric),
        &comparison.average_ranks(metric),
        &comparison.close_to_best_average(metric),
    )
}

fn row(name: &str, decimals: usize, values: &[f64], ranks: &[usize], close: &[bool]) -> TableRow {
    let cells = values.iter().zip(ranks).zip(close);
    TableRow {
        name: name.to_owned(),
        decimals,
        cells: cells
            .map(|((&value, &rank), &close)| Cell {
                value,
                rank,
                close: close && rank > 1,
                note: None,
            })
            .collect(),
    }
}

/// Four decimals, and up to six if the smallest value would have fewer than two significant digits.
fn decimals_for(values: impl Iterator<Item = f64>) -> usize {
    let smallest = values
        .filter(|v| *v > 0.0 && v.is_finite())
        .fold(f64::INFINITY, f64::min);
    if !smallest.is_finite() {
        return 4;
    }
    let leading = -smallest.log10().floor();
    (leading as i64 + 1).clamp(4, 6) as usize
}

fn signed_percent(change: f64, changed: u64) -> String {
    // Without changed predictions the difference is exactly 0.
    if changed == 0 {
        return "±0.0%".to_owned();
    }
    format!("{:+.1}%", 100.0 * change).replace("-0.0%", "+0.0%")
}

impl Cell {
    /// The value with a fixed number of decimals.
    pub fn number(&self, decimals: usize) -> String {
        if self.value.is_finite() {
            format!("{:.decimals$}", self.value)
        } else if self.value.is_nan() {
            "–".to_owned()
        } else {
            "∞".to_owned()
        }
    }

    /// The number, between two marks if it is the best of its row.
    fn marked(&self, number: String, (open, close): (&str, &str)) -> String {
        match self.rank {
            1 => format!("{open}{number}{close}"),
            _ => number,
        }
    }

    /// The note behind a space, if there is one.
    fn note(&self) -> String {
        let note = self.note.as_ref();
        note.map_or(String::new(), |note| format!(" ({note})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;

    #[test]
    fn tables_hold_values_ranks_and_changes_of_accuracy() {
        let table = Table::of_metric(&small(), Metric::Ece);
        assert_eq!(table.title, "ECE");
        let cell = &table.rows[0].cells[2];
        assert_eq!((cell.rank, cell.note.as_deref()), (1, Some("+1.0%")));
        assert_eq!(table.rows[1].cells[2].note.as_deref(), Some("-1.0%"));
        assert_eq!(table.rows[0].cells[1].note, None);
        let average = table.average.as_ref().unwrap();
        assert_eq!(average.cells[1].number(3), "0.300");
        assert_eq!(
            table.groups(),
            [(KEPT_NOTE, vec![0, 1]), (FREE_NOTE, vec![2])]
        );
    }

    #[test]
    fn a_summary_is_about_errors() {
        let summary = Table::summary(&small());
        let names: Vec<&str> = summary.rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["ece"]);
    }

    #[test]
    fn small_values_have_more_digits() {
        assert_eq!(decimals_for([0.2, 1.5].into_iter()), 4);
        assert_eq!(decimals_for([0.0061, 0.1].into_iter()), 4);
        assert_eq!(decimals_for([0.00102, 0.1].into_iter()), 4);
        assert_eq!(decimals_for([0.000_33].into_iter()), 5);
        assert_eq!(decimals_for([0.000_044].into_iter()), 6);
        assert_eq!(decimals_for([0.0, f64::NAN].into_iter()), 4);
    }
}

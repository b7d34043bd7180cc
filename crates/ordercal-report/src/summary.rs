//! A comparison as plain text.

use crate::comparison::Comparison;
use crate::table::{Table, to_text};
use crate::verdict::verdict;
use crate::wrap::wrap;

/// The table of average relative errors, then a table for every metric.
pub fn tables(comparison: &Comparison) -> Vec<Table> {
    let metrics = comparison.metrics().iter();
    let mut tables = vec![Table::summary(comparison)];
    // The summary is empty if only accuracies were compared.
    tables.retain(|table| !table.rows.is_empty());
    tables.extend(metrics.map(|&metric| Table::of_metric(comparison, metric)));
    tables
}

/// The tables, the changed predictions and the verdict, in lines of at most 80 columns.
pub fn summary(comparison: &Comparison) -> String {
    let mut text: Vec<String> = tables(comparison).iter().map(to_text).collect();
    text.push(changes(comparison));
    text.push(
        verdict(comparison)
            .iter()
            .map(|s| wrap(s, 4))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    text.join("\n")
}

/// The predictions that free methods changed, a line for each method.
fn changes(comparison: &Comparison) -> String {
    let mut text = String::from("Changed predictions (change of accuracy in percentage points)\n");
    let methods = comparison.methods();
    let longest = methods.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let mut free = methods
        .iter()
        .enumerate()
        .filter(|(_, (_, kept))| !kept)
        .peekable();
    if free.peek().is_none() {
        return "Changed predictions: none, all methods are order-preserving\n".to_owned();
    }
    for (place, (key, _)) in free {
        let sets = comparison
            .datasets()
            .iter()
            .enumerate()
            .map(|(set, dataset)| {
                let changed = dataset.methods[place].changed_predictions;
                let accuracy = comparison.accuracy_change(set, place);
                let points = accuracy.map_or(String::new(), |a| format!(" ({:+.2})", 100.0 * a));
                format!("{changed} of {}{points}", dataset.n_test)
            });
        let line = format!("  {key:<longest$}  {}", sets.collect::<Vec<_>>().join(", "));
        text.push_str(&wrap(&line, 4));
        text.push('\n');
    }
    text
}

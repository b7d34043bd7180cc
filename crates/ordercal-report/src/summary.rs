//! All that a comparison has to say, as plain text.

use crate::comparison::Comparison;
use crate::table::{Table, to_text};
use crate::verdict::verdict;

/// The summary, then every metric.
pub fn tables(comparison: &Comparison) -> Vec<Table> {
    let metrics = comparison.metrics().iter();
    let mut tables = vec![Table::summary(comparison)];
    // Without an error there is nothing to sum up.
    tables.retain(|table| !table.rows.is_empty());
    tables.extend(metrics.map(|&metric| Table::of_metric(comparison, metric)));
    tables
}

/// The tables, what happened to predictions, and the verdict, in lines of at most 80 columns where tables allow.
pub fn summary(comparison: &Comparison) -> String {
    let mut text: Vec<String> = tables(comparison).iter().map(to_text).collect();
    text.push(changes(comparison));
    text.push(
        verdict(comparison)
            .iter()
            .map(|s| wrapped(s))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    text.join("\n")
}

/// What free methods did to predictions, a line each.
fn changes(comparison: &Comparison) -> String {
    let mut text = String::from("Changed predictions (and accuracy, in points)\n");
    let methods = comparison.methods();
    let longest = methods.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let mut free = methods
        .iter()
        .enumerate()
        .filter(|(_, (_, kept))| !kept)
        .peekable();
    if free.peek().is_none() {
        return "Changed predictions: none, every method keeps them\n".to_owned();
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
        text.push_str(&wrapped(&line));
        text.push('\n');
    }
    text
}

/// Lines of at most 80 columns, broken between words; what follows is indented.
fn wrapped(sentence: &str) -> String {
    let indent = sentence.len() - sentence.trim_start().len();
    let mut text = " ".repeat(indent);
    let mut width = indent;
    for (place, word) in sentence.trim_start().split(' ').enumerate() {
        let length = word.chars().count();
        if place > 0 && width + 1 + length > 80 {
            text.push_str("\n    ");
            width = 4;
        } else if place > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn long_lines_are_broken_between_words() {
        let long = format!("  {}", "word ".repeat(40).trim_end());
        let text = wrapped(&long);
        assert!(
            text.lines().count() == 3 && text.lines().all(|l| l.len() <= 80),
            "{text}"
        );
        assert_eq!(text.split_whitespace().count(), 40);
        assert_eq!(wrapped("short"), "short");
    }
}

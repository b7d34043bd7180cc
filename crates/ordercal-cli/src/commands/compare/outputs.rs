//! A comparison as text and as the files of a folder.

use std::path::Path;

use anyhow::Result;
use ordercal_io::write_atomically;
use ordercal_report::{
    Comparison, DataSource, DatasetResult, Report, ReportFigure, Table, Theme, to_csv, to_json,
    to_latex, to_markdown, to_text, verdict,
};

use super::figures::Drawing;

/// What a comparison says about itself.
pub struct About {
    /// The heading.
    pub title: String,
    /// The files, one for each dataset.
    pub sources: Vec<DataSource>,
    /// What the datasets are called in file names.
    pub file_names: Vec<String>,
    /// What their classes are called, if that is known.
    pub class_names: Vec<Option<Vec<String>>>,
    /// How it was run.
    pub run: Vec<(String, String)>,
}

/// Writes every file; each is whole or not there.
pub fn write(
    folder: &Path,
    about: &About,
    comparison: &Comparison,
    drawings: &[Drawing],
) -> Result<()> {
    let json = serde_json::to_string_pretty(&to_json(&untimed(comparison)?))?;
    let file = |name: &str, text: &str| write_atomically(&folder.join(name), text.as_bytes());
    file("results.json", &json)?;
    file("results.csv", &to_csv(comparison))?;
    let tables = tables(comparison);
    let joined = |format: &dyn Fn(&Table) -> String| {
        tables.iter().map(format).collect::<Vec<_>>().join("\n")
    };
    file("tables.md", &joined(&to_markdown))?;
    file("tables.tex", &joined(&to_latex))?;
    for drawing in drawings {
        let path = format!("figures/{}.svg", drawing.file);
        file(&path, drawing.draw(Theme::LIGHT)?.as_str())?;
    }
    write_report(folder, about, comparison, drawings)
}

/// Writes the report alone.
pub fn write_report(
    folder: &Path,
    about: &About,
    comparison: &Comparison,
    drawings: &[Drawing],
) -> Result<()> {
    let figure = |drawing: &Drawing| {
        Ok(ReportFigure {
            caption: drawing.caption.clone(),
            svg: drawing.draw(Theme::PAGE)?,
        })
    };
    let report = Report {
        title: about.title.clone(),
        comparison: untimed(comparison)?,
        figures: drawings.iter().map(figure).collect::<Result<_>>()?,
        sources: about.sources.clone(),
        run: about.run.clone(),
    };
    write_atomically(&folder.join("report.html"), report.to_html()?.as_bytes())?;
    Ok(())
}

/// The summary, then every metric.
fn tables(comparison: &Comparison) -> Vec<Table> {
    let metrics = comparison.metrics().iter();
    let mut tables = vec![Table::summary(comparison)];
    // Without an error there is nothing to sum up.
    tables.retain(|table| !table.rows.is_empty());
    tables.extend(metrics.map(|&metric| Table::of_metric(comparison, metric)));
    tables
}

/// The tables and the verdict for a terminal.
pub fn text(comparison: &Comparison) -> String {
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

/// The same without seconds: what is compared byte for byte must not hold any.
fn untimed(comparison: &Comparison) -> Result<Comparison> {
    let mut datasets: Vec<DatasetResult> = comparison.datasets().to_vec();
    for method in datasets.iter_mut().flat_map(|d| &mut d.methods) {
        method.fit_seconds = None;
    }
    Ok(Comparison::new(comparison.metrics().to_vec(), datasets)?)
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

//! The report as one self-contained HTML file.

use askama::Template;
use ordercal::metrics::Metric;
use ordercal::words::printable;

use crate::comparison::Comparison;
use crate::error::{Error, Result};
use crate::result::DatasetResult;
use crate::svg::Svg;
use crate::table::{self, Cell, Table, TableRow};
use crate::theme::Theme;
use crate::verdict::verdict;

/// A figure with its caption.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportFigure {
    /// The dataset that it is about.
    pub dataset: String,
    /// The caption.
    pub caption: String,
    /// The figure, drawn with [`Theme::PAGE`].
    pub svg: Svg,
}

/// Reliability pictures of one dataset, which a page shows side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct BeforeAfter {
    /// The dataset's name.
    pub dataset: String,
    /// The pictures: of the uncalibrated scores, and of the best method that keeps every prediction.
    pub pictures: Vec<ReportFigure>,
}

/// A data file of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSource {
    /// The dataset's name.
    pub name: String,
    /// The path of the file.
    pub file: String,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// The contents of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// The numbers.
    pub comparison: Comparison,
    /// The pictures that come first, dataset by dataset.
    pub before_after: Vec<BeforeAfter>,
    /// The other figures, in order.
    pub figures: Vec<ReportFigure>,
    /// The files.
    pub sources: Vec<DataSource>,
    /// The settings of the run, such as command, seed and version, each with its name.
    pub run: Vec<(String, String)>,
}

impl Report {
    /// The report as a self-contained HTML document.
    ///
    /// # Errors
    /// [`Error::Draw`] if the template cannot be filled.
    pub fn to_html(&self) -> Result<String> {
        let page = Page {
            title: &self.title,
            light: Theme::LIGHT.variables(),
            dark: Theme::DARK.variables(),
            verdict: verdict(&self.comparison),
            before_after: &self.before_after,
            methods: self.comparison.methods(),
            datasets: self.comparison.datasets(),
            summary: HtmlTable::new(Table::summary(&self.comparison), "", "summary"),
            metrics: self
                .comparison
                .metrics()
                .iter()
                .map(|&m| self.metric(m))
                .collect(),
            changes: self.changes(),
            figures: &self.figures,
            sources: self.sources(),
            run: &self.run,
            chosen: self.chosen(),
        };
        let html = page.render().map_err(|e| Error::Draw {
            problem: e.to_string(),
        })?;
        // Whatever is shown: titles, names of files, settings.
        let shown = |c: char| if c == '\n' { c } else { printable(c) };
        Ok(html.chars().map(shown).collect())
    }

    /// A metric's table, or one sentence if no method differs from the uncalibrated scores.
    fn metric(&self, metric: Metric) -> Section {
        let comparison = &self.comparison;
        let mut trivial = Vec::new();
        for (place, dataset) in comparison.datasets().iter().enumerate() {
            let values = comparison.values(metric, place);
            // Equal to the last bit, and not a number nowhere.
            if values
                .iter()
                .any(|&value| value.total_cmp(&values[0]).is_ne())
            {
                let table = Table::of_metric(comparison, metric);
                return Section::Table(HtmlTable::new(table, metric.brief(), metric.key()));
            }
            trivial.push(format!("{:.4} on {}", values[0], dataset.name));
        }
        Section::Sentence(format!(
            "{}: the same for every method, {}.",
            metric.name(),
            trivial.join(", ")
        ))
    }

    /// Each dataset with its file, if it is known.
    fn sources(&self) -> Vec<(&DatasetResult, Option<&DataSource>)> {
        let datasets = self.comparison.datasets().iter();
        let source = |name: &str| self.sources.iter().find(|s| s.name == name);
        datasets.map(|d| (d, source(&d.name))).collect()
    }

    /// The number of changed predictions of each method, and the change of accuracy; one sentence if there are none.
    fn changes(&self) -> Section {
        let comparison = &self.comparison;
        let mut results = comparison.datasets().iter().flat_map(|d| &d.methods);
        if results.all(|result| result.changed_predictions == 0) {
            return Section::Sentence(
                "Changed predictions: none, by any method on any dataset.".to_owned(),
            );
        }
        let rows = comparison
            .datasets()
            .iter()
            .enumerate()
            .map(|(set, dataset)| {
                let cells = dataset.methods.iter().enumerate().map(|(place, result)| {
                    let accuracy = comparison.accuracy_change(set, place);
                    let accuracy = accuracy.filter(|_| !result.order_preserving);
                    Cell {
                        value: result.changed_predictions as f64,
                        rank: 0,
                        close: false,
                        note: accuracy.map(|a| format!("accuracy {:+.2} points", 100.0 * a)),
                    }
                });
                TableRow {
                    name: dataset.name.clone(),
                    decimals: 0,
                    cells: cells.collect(),
                }
            });
        let table = Table {
            title: "Changed predictions".to_owned(),
            corner: "dataset",
            columns: table::columns(comparison),
            rows: rows.collect(),
            average: None,
        };
        let meaning = "The number of test rows whose prediction differs from the uncalibrated one. Order-preserving \
                       methods guarantee 0.";
        Section::Table(HtmlTable {
            order: (0..table.columns.len()).collect(),
            ..HtmlTable::new(table, meaning, "changes")
        })
    }

    fn chosen(&self) -> Vec<(String, Vec<(String, String)>)> {
        let datasets = self.comparison.datasets().iter();
        datasets
            .map(|d| {
                let methods = d.methods.iter();
                let lines = methods.map(|m| (m.method.clone(), m.chosen.to_string()));
                (d.name.clone(), lines.collect())
            })
            .collect()
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: &'a str,
    light: String,
    dark: String,
    verdict: Vec<String>,
    before_after: &'a [BeforeAfter],
    methods: Vec<(&'a str, bool)>,
    datasets: &'a [DatasetResult],
    summary: HtmlTable,
    metrics: Vec<Section>,
    changes: Section,
    figures: &'a [ReportFigure],
    sources: Vec<(&'a DatasetResult, Option<&'a DataSource>)>,
    run: &'a [(String, String)],
    chosen: Vec<(String, Vec<(String, String)>)>,
}

/// A table, or what a table without information comes down to.
enum Section {
    Table(HtmlTable),
    Sentence(String),
}

impl Section {
    fn html(&self) -> askama::Result<String> {
        match self {
            Self::Table(table) => table.render(),
            Self::Sentence(sentence) => SentenceTemplate { sentence }.render(),
        }
    }
}

#[derive(Template)]
#[template(source = "<p>{{ sentence }}</p>", ext = "html")]
struct SentenceTemplate<'a> {
    sentence: &'a str,
}

/// A table of the page, with a row for each method.
#[derive(Template)]
#[template(path = "table.html")]
struct HtmlTable {
    id: &'static str,
    meaning: &'static str,
    /// Whether its columns are datasets, which can be filtered.
    about_datasets: bool,
    /// The methods in their order.
    order: Vec<usize>,
    table: Table,
}

impl HtmlTable {
    fn new(table: Table, meaning: &'static str, id: &'static str) -> Self {
        Self {
            id,
            meaning,
            about_datasets: table.corner == "dataset",
            order: table.order(),
            table,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;

    fn report() -> Report {
        Report {
            title: "A <b>title</b>".to_owned(),
            comparison: small(),
            before_after: Vec::new(),
            figures: Vec::new(),
            sources: vec![DataSource {
                name: "second".to_owned(),
                file: "dir/second & last.npz".to_owned(),
                sha256: "00ff".to_owned(),
            }],
            run: vec![("seed".to_owned(), "1357".to_owned())],
        }
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_outside() {
        let html = report().to_html().unwrap();
        assert!(html.starts_with("<!doctype html>"));
        assert!(html.trim_end().ends_with("</html>"));
        assert!(
            !html.contains("<b>title") && html.contains("second &#38; last.npz"),
            "{html}"
        );
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            let found = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(outside), "{outside}");
        }
        // The verdict comes before any table.
        assert!(html.find("is the best method").unwrap() < html.find("<table").unwrap());
        assert!(html.contains("aria-sort") && html.contains("prefers-color-scheme: dark"));
        assert!(html.contains(&Metric::Ece.brief().replace('\'', "&#39;")));
        assert!(html.contains("00ff") && html.contains("1357"));
    }

    /// The comparison of methods that keep the order alone.
    fn kept_only() -> Report {
        let all = small();
        let mut datasets = all.datasets().to_vec();
        for dataset in &mut datasets {
            dataset.methods.retain(|m| m.order_preserving);
        }
        Report {
            comparison: Comparison::new(all.metrics().to_vec(), datasets).unwrap(),
            ..report()
        }
    }

    #[test]
    fn tables_that_say_nothing_are_sentences() {
        let html = kept_only().to_html().unwrap();
        let same = "Accuracy: the same for every method, 0.9000 on first_set, 0.8000 on second.";
        assert!(html.contains(same), "{html}");
        assert!(html.contains("Changed predictions: none, by any method on any dataset."));
        assert!(!html.contains("id=\"accuracy\"") && !html.contains("id=\"changes\""));
        assert!(html.contains("id=\"ece\""));
        let html = report().to_html().unwrap();
        assert!(html.contains("id=\"accuracy\"") && html.contains("id=\"changes\""));
    }

    #[test]
    fn pictures_come_before_tables_and_details_are_folded() {
        let svg = crate::TransformFigure {
            title: "a picture".to_owned(),
            input: "score".to_owned(),
            curves: vec![crate::TransformCurve {
                name: "ts".to_owned(),
                slot: 1,
                points: vec![(0.0, 0.0), (1.0, 2.0)],
            }],
            scores: None,
        };
        let picture = ReportFigure {
            dataset: "second".to_owned(),
            caption: "Before".to_owned(),
            svg: svg.draw(Theme::PAGE).unwrap(),
        };
        let html = Report {
            before_after: vec![BeforeAfter {
                dataset: "second".to_owned(),
                pictures: vec![picture],
            }],
            ..report()
        };
        let html = html.to_html().unwrap();
        let place = |text: &str| {
            html.find(text)
                .unwrap_or_else(|| panic!("{text} in {html}"))
        };
        assert!(place("is the best method") < place("a picture"));
        assert!(place("a picture") < place("id=\"summary\""));
        assert!(place("id=\"summary\"") < place("<details"));
        assert!(place("<details") < place("id=\"ece\""));
    }

    #[test]
    fn the_same_numbers_give_the_same_bytes() {
        assert_eq!(report().to_html(), report().to_html());
    }
}

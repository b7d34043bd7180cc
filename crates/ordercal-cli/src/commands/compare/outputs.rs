//! The files of a comparison.

use std::path::Path;

use anyhow::Result;
use ordercal_io::write_atomically;
use ordercal_report::{
    BeforeAfter, Comparison, DataSource, DatasetResult, Report, ReportFigure, Table, Theme, tables,
    to_csv, to_json, to_latex, to_markdown,
};

use super::figures::Drawing;

/// The description of a run in its report.
pub struct About {
    /// The heading.
    pub title: String,
    /// The files, one for each dataset.
    pub sources: Vec<DataSource>,
    /// The names of the datasets in file names.
    pub file_names: Vec<String>,
    /// The names of their classes, if known.
    pub class_names: Vec<Option<Vec<String>>>,
    /// The settings of the run, each with its name.
    pub run: Vec<(String, String)>,
}

/// Writes all files, each atomically.
pub fn write(
    folder: &Path,
    about: &About,
    comparison: &Comparison,
    before_after: Vec<BeforeAfter>,
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
    write_report(folder, about, comparison, before_after, drawings)
}

/// Writes the report only.
pub fn write_report(
    folder: &Path,
    about: &About,
    comparison: &Comparison,
    before_after: Vec<BeforeAfter>,
    drawings: &[Drawing],
) -> Result<()> {
    let figure = |drawing: &Drawing| {
        Ok(ReportFigure {
            dataset: drawing.dataset.clone(),
            caption: drawing.caption.clone(),
            svg: drawing.draw(Theme::PAGE)?,
        })
    };
    let report = Report {
        title: about.title.clone(),
        comparison: untimed(comparison)?,
        before_after,
        figures: drawings.iter().map(figure).collect::<Result<_>>()?,
        sources: about.sources.clone(),
        run: about.run.clone(),
    };
    write_atomically(&folder.join("report.html"), report.to_html()?.as_bytes())?;
    Ok(())
}

/// The same comparison without seconds, so that equal runs give equal bytes.
fn untimed(comparison: &Comparison) -> Result<Comparison> {
    let mut datasets: Vec<DatasetResult> = comparison.datasets().to_vec();
    for method in datasets.iter_mut().flat_map(|d| &mut d.methods) {
        method.fit_seconds = None;
    }
    Ok(Comparison::new(comparison.metrics().to_vec(), datasets)?)
}

//! The figures of a comparison.

use std::path::Path;

use anyhow::Result;
use ordercal::{InputKind, Model};
use ordercal_io::SavedModel;
use ordercal_report::{
    BeforeAfter, Comparison, ReliabilityFigure, ReliabilityForm, ReliabilitySeries, ReportFigure,
    Svg, Theme, TransformFigure, best_method, deciding_metric,
};

use super::outputs::About;
use super::stored::{StoredResult, model_path};
use crate::commands::plot::{
    curves_of, describe_input, function_of, input_of, range_of, simplex_of,
};

/// The largest number of lines that a figure keeps legible: as many as have a colour of their own.
const MOST_SERIES: usize = Theme::LIGHT.series.len();
/// The methods that are shown first.
const PREFERRED: [&str; 7] = ["uncalibrated", "ts", "diag", "oi", "op", "auto", "sms"];

/// A figure that can be drawn in any theme.
pub struct Drawing {
    /// The name of its file without the ending.
    pub file: String,
    /// The dataset that it is about.
    pub dataset: String,
    /// What it shows.
    pub caption: String,
    draw: Box<dyn Fn(Theme) -> ordercal_report::Result<Svg>>,
}

impl Drawing {
    pub fn draw(&self, theme: Theme) -> ordercal_report::Result<Svg> {
        (self.draw)(theme)
    }
}

/// The figures of every dataset; `models` is the folder of the models.
pub fn drawings(
    models: &Path,
    about: &About,
    datasets: &[Vec<StoredResult>],
) -> Result<Vec<Drawing>> {
    let mut drawings = Vec::new();
    for (place, parts) in datasets.iter().enumerate() {
        let (name, file) = (&about.sources[place].name, &about.file_names[place]);
        for (form, key, what, meaning) in [
            (
                ReliabilityForm::Gap,
                "reliability",
                "Reliability",
                "confidence minus accuracy in each bin; points above the dashed line are overconfident. Inside the band, a \
                 gap may be chance. The bars below show the number of rows.",
            ),
            (
                ReliabilityForm::Weighted,
                "weighted",
                "Weighted reliability",
                "the gap of each bin times its share of the rows; the absolute heights add up to the ECE. Inside the band, \
                 a gap may be chance.",
            ),
        ] {
            let figure = ReliabilityFigure {
                title: format!("{what}: {name}"),
                series: series(parts),
                form,
            };
            drawings.push(Drawing {
                file: format!("{file}-{key}"),
                dataset: name.clone(),
                caption: format!("{name}: {meaning}"),
                draw: Box::new(move |theme| figure.draw(theme)),
            });
        }
        drawings.extend(transform(models, name, file, parts)?);
        drawings.extend(simplexes(models, about, place, parts)?);
    }
    Ok(drawings)
}

/// What the report shows first: each dataset before calibration, and after the best method that keeps every prediction.
pub fn before_after(
    comparison: &Comparison,
    datasets: &[Vec<StoredResult>],
) -> Result<Vec<BeforeAfter>> {
    let best = deciding_metric(comparison)
        .and_then(|metric| best_method(comparison, metric, true))
        .unwrap_or(0);
    let mut places = vec![0, best];
    places.dedup();
    let mut shown = Vec::new();
    for (dataset, parts) in comparison.datasets().iter().zip(datasets) {
        let picture = |&place: &usize| {
            let when = if place == 0 { "Before" } else { "After" };
            let series = series_of(parts, place);
            let caption = format!(
                "{when}: {}. Where the bars end at the dashed line, confidence is right.",
                series.name
            );
            let figure = ReliabilityFigure {
                title: format!("{when}: {}", dataset.name),
                series: vec![series],
                form: ReliabilityForm::Classic,
            };
            Ok(ReportFigure {
                dataset: dataset.name.clone(),
                caption,
                svg: figure.draw(Theme::PAGE)?,
            })
        };
        shown.push(BeforeAfter {
            dataset: dataset.name.clone(),
            pictures: places.iter().map(picture).collect::<Result<_>>()?,
        });
    }
    Ok(shown)
}

/// The methods of a figure, each with the same colour in all figures.
fn series(parts: &[StoredResult]) -> Vec<ReliabilitySeries> {
    let rank = |part: &StoredResult| {
        let place = PREFERRED.iter().position(|key| *key == part.method);
        place.unwrap_or(PREFERRED.len())
    };
    let mut places: Vec<usize> = (0..parts.len()).collect();
    places.sort_by_key(|&place| rank(&parts[place]));
    places.truncate(MOST_SERIES);
    places.sort_unstable();
    let places = places.into_iter();
    places.map(|place| series_of(parts, place)).collect()
}

fn series_of(parts: &[StoredResult], place: usize) -> ReliabilitySeries {
    ReliabilitySeries {
        name: parts[place].method.clone(),
        slot: place,
        diagram: parts[place].reliability.clone(),
    }
}

/// The functions learned by `ts` and `diag`, if they were compared.
fn transform(
    models: &Path,
    name: &str,
    file: &str,
    parts: &[StoredResult],
) -> Result<Option<Drawing>> {
    let mut found = Vec::new();
    for (slot, part) in parts.iter().enumerate() {
        if part.method == "ts" || part.method == "diag" {
            let saved = SavedModel::load(&model_path(models, file, &part.method))?;
            found.push((part.method.clone(), slot, saved.model));
        }
    }
    found.retain(|(.., model)| function_of(model).is_some());
    let input = found.iter().find_map(|(.., model)| input_of(model));
    if found.is_empty() {
        return Ok(None);
    }
    let named: Vec<(&str, &Model)> = found.iter().map(|(n, _, m)| (n.as_str(), m)).collect();
    let mut curves = curves_of(&named, range_of(&named, None));
    for (curve, (_, slot, _)) in curves.iter_mut().skip(1).zip(&found) {
        curve.slot = *slot;
    }
    let figure = TransformFigure {
        title: format!("Learned functions: {name}"),
        input: describe_input(input.unwrap_or(InputKind::LogSoftmax)).to_owned(),
        curves,
        scores: None,
    };
    Ok(Some(Drawing {
        file: format!("{file}-transform"),
        dataset: name.to_owned(),
        caption: format!("{name}: the learned functions over the range of the calibration scores."),
        draw: Box::new(move |theme| figure.draw(theme)),
    }))
}

/// The simplex figures of models with three classes.
fn simplexes(
    models: &Path,
    about: &About,
    place: usize,
    parts: &[StoredResult],
) -> Result<Vec<Drawing>> {
    let (name, file) = (&about.sources[place].name, &about.file_names[place]);
    let mut drawings = Vec::new();
    for part in parts.iter().skip(1) {
        let saved = SavedModel::load(&model_path(models, file, &part.method))?;
        if saved.model.classes() != 3 {
            break;
        }
        let title = format!("What {} does to probabilities: {name}", part.method);
        let names = about.class_names[place].as_deref();
        let figure = simplex_of(&saved.model, title, names, None)?;
        drawings.push(Drawing {
            file: format!("{file}-simplex-{}", part.method),
            dataset: name.clone(),
            caption: format!(
                "{name}: how {} moves probabilities; each colour is one order of the classes.",
                part.method
            ),
            draw: Box::new(move |theme| figure.draw(theme)),
        });
    }
    Ok(drawings)
}

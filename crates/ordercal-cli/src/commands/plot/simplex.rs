//! `plot simplex`: a map of three classes.

use anyhow::{Result, bail};
use ndarray::Array2;
use ordercal::{Model, ScoreKind, Scores};
use ordercal_report::{Arrow, SimplexFigure, region_of};
use serde_json::json;

use super::{FigureFile, open_counted};
use crate::args::SimplexArgs;
use crate::models::{load_model, match_classes};
use crate::printer::Printer;
use ordercal_io::LoadedData;

/// The number of arrows along a side.
const STEPS: usize = 16;

pub fn run(args: &SimplexArgs, printer: Printer) -> Result<()> {
    let file = FigureFile::new(&args.draw)?;
    let saved = load_model(&args.model)?;
    let classes = saved.model.classes();
    if classes != 3 {
        bail!(
            "{}: the model has {classes} classes, but a simplex figure needs 3",
            args.model.display()
        );
    }
    let counts = match open_counted(&args.counted, "test")? {
        Some(mut reader) => {
            match_classes(&mut reader, [(args.model.as_path(), &saved)])?;
            Some(count(&LoadedData::collect(reader)?.scores()?))
        }
        None => None,
    };
    let names = saved.class_names.as_deref();
    let title = file.title(|| format!("What {} does to probabilities", saved.method.key()));
    let figure = figure_of(&saved.model, title, names, counts)?;
    let numbers = json!({
        "figure": "simplex",
        "arrows": figure.arrows.iter().map(|a| json!([a.from, a.to])).collect::<Vec<_>>(),
        "counts": figure.counts,
    });
    file.write(&figure.draw(file.args.theme)?, numbers, printer)
}

/// The simplex figure of a model with three classes.
pub fn figure_of(
    model: &Model,
    title: String,
    names: Option<&[String]>,
    counts: Option<[u64; 6]>,
) -> ordercal::Result<SimplexFigure> {
    let grid = SimplexFigure::grid(STEPS);
    let probs = Array2::from_shape_fn((grid.len(), 3), |(row, class)| grid[row][class]);
    let scores = Scores::new(ScoreKind::Probs, probs.view())?;
    let moved = model.apply::<f64>(&scores, ScoreKind::Probs)?;
    let arrows = grid.iter().zip(moved.rows()).map(|(from, to)| Arrow {
        from: *from,
        to: [to[0], to[1], to[2]],
    });
    let name = |class: usize| match names.and_then(|names| names.get(class)) {
        Some(name) => name.clone(),
        None => format!("class {class}"),
    };
    Ok(SimplexFigure {
        title,
        classes: [name(0), name(1), name(2)],
        arrows: arrows.collect(),
        counts,
    })
}

fn count(scores: &Scores<'_>) -> [u64; 6] {
    let mut counts = [0; 6];
    for row in 0..scores.rows() {
        let row = scores.row(row);
        counts[region_of([row[0], row[1], row[2]].map(f64::from))] += 1;
    }
    counts
}

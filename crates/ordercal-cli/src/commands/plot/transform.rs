//! `plot transform`: the functions learned by `ts` and `diag`.

use std::path::Path;

use anyhow::{Result, bail};
use ordercal::{InputKind, Model, Scores};
use ordercal_io::{DataRef, LoadedData};
use ordercal_report::{ScoreHistogram, TransformCurve, TransformFigure};
use serde_json::json;

use super::{FigureFile, open_counted};
use crate::args::TransformArgs;
use crate::models::load_single_models;
use crate::printer::Printer;

/// The number of intervals of a curve: about a pixel each.
const POINTS: u32 = 400;
/// The number of bars of the histogram.
const BARS: usize = 60;

pub fn run(args: &TransformArgs, printer: Printer) -> Result<()> {
    let file = FigureFile::new(&args.draw)?;
    let saved = load_single_models(&args.models)?;
    for (path, (_, saved)) in args.models.iter().zip(&saved) {
        if function_of(&saved.model).is_none() {
            let what = match DataRef::parse(path).split() {
                Some(_) => "what a group is mixed from".to_owned(),
                None => format!("a model of {}", saved.method.key()),
            };
            bail!(
                "{}: {what} is not a function of a single score; use models of diag or ts",
                path.display()
            );
        }
    }
    let named: Vec<(&str, &Model)> = saved
        .iter()
        .map(|(name, saved)| (name.as_str(), &saved.model))
        .collect();
    let input = common_input(&args.models, &named)?;
    let scores = match open_counted(&args.counted, "calib")? {
        Some(reader) => Some(shifted(&LoadedData::collect(reader)?.scores()?, input)),
        None => None,
    };
    let range = range_of(&named, scores.as_deref());
    let curves = curves_of(&named, range);
    let scores = scores.map(|scores| ScoreHistogram::new(scores, range, BARS));
    let numbers = json!({
        "figure": "transform",
        "curves": curves.iter().map(|c| json!({"name": c.name, "points": c.points})).collect::<Vec<_>>(),
        "scores": scores.as_ref().map(|h| json!({"low": h.low, "high": h.high, "counts": h.counts})),
    });
    let figure = TransformFigure {
        title: file.title(|| "Learned functions: calibrated score against score".to_owned()),
        input: describe(input).to_owned(),
        curves,
        scores,
    };
    file.write(&figure.draw(file.args.theme)?, numbers, printer)
}

/// The input that all functions have in common.
fn common_input(paths: &[std::path::PathBuf], models: &[(&str, &Model)]) -> Result<InputKind> {
    let mut found: Option<(&Path, InputKind)> = None;
    for (path, (_, model)) in paths.iter().zip(models) {
        let Some(own) = input_of(model) else { continue };
        match found {
            Some((first, input)) if input != own => bail!(
                "{} reads the {}, but {} reads the {}; draw them in separate figures",
                first.display(),
                describe(input),
                path.display(),
                describe(own)
            ),
            _ => found = Some((path, own)),
        }
    }
    Ok(found.map_or(InputKind::LogSoftmax, |(_, input)| input))
}

/// The input of a function in words.
pub fn describe(input: InputKind) -> &'static str {
    match input {
        InputKind::Raw => "score",
        InputKind::LogSoftmax => "log-probability",
        InputKind::Centred => "score minus the mean of its row",
    }
}

/// All finite scores, shifted row by row as the functions read them.
fn shifted(scores: &Scores<'_>, input: InputKind) -> Vec<f64> {
    let mut all = Vec::with_capacity(scores.as_slice().len());
    for row in 0..scores.rows() {
        let values = || {
            let row = scores.row(row).iter().map(|&s| f64::from(s));
            row.filter(|s| s.is_finite())
        };
        let shift = match input {
            InputKind::Raw => 0.0,
            InputKind::LogSoftmax => {
                let top = values().fold(f64::NEG_INFINITY, f64::max);
                top + values().map(|s| (s - top).exp()).sum::<f64>().ln()
            }
            InputKind::Centred => values().sum::<f64>() / values().count() as f64,
        };
        all.extend(values().map(|s| s - shift));
    }
    all
}

/// The members of a fold average with their weights, or the model itself.
fn members(model: &Model) -> Vec<(f64, &Model)> {
    match model {
        Model::Mixture(mixture) => mixture.members().iter().map(|(w, m)| (*w, m)).collect(),
        model => vec![(1.0, model)],
    }
}

/// The input of a model's function; `None` if any shift of the row gives the same.
pub fn input_of(model: &Model) -> Option<InputKind> {
    members(model)
        .into_iter()
        .find_map(|(_, member)| match member {
            Model::Diag(diag) => Some(diag.input()),
            _ => None,
        })
}

/// The function of a single score that a model applies, if it is one. Of a fold average it is the mean of
/// the members' functions, although the model averages their probabilities.
pub fn function_of(model: &Model) -> Option<Box<dyn Fn(f64) -> f64 + '_>> {
    let members = members(model);
    if members
        .iter()
        .any(|(_, member)| member.function(0.0).is_none())
    {
        return None;
    }
    Some(Box::new(move |x| {
        let values = members
            .iter()
            .map(|(weight, member)| Some(weight * member.function(x)?));
        values.sum::<Option<f64>>().unwrap_or(f64::NAN)
    }))
}

/// The range of the calibration scores, or else of the given scores.
pub fn range_of(models: &[(&str, &Model)], scores: Option<&[f64]>) -> (f64, f64) {
    let all = models.iter().flat_map(|(_, model)| members(model));
    let learned = all.filter_map(|(_, member)| match member {
        Model::Diag(diag) => Some(diag.range()),
        _ => None,
    });
    let wider = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    let given = || scores?.iter().map(|&s| (s, s)).reduce(wider);
    let (low, high) = learned.reduce(wider).or_else(given).unwrap_or((-10.0, 0.0));
    if low < high {
        (low, high)
    } else {
        (low - 1.0, high + 1.0)
    }
}

/// The identity and the models' functions over a range; models without such a function are left out.
pub fn curves_of(models: &[(&str, &Model)], (low, high): (f64, f64)) -> Vec<TransformCurve> {
    let curve = |name: &str, slot: usize, function: &dyn Fn(f64) -> f64| {
        let points = (0..=POINTS).map(|i| {
            let x = low + (high - low) * f64::from(i) / f64::from(POINTS);
            (x, function(x))
        });
        TransformCurve {
            name: name.to_owned(),
            slot,
            points: points.collect(),
        }
    };
    let mut curves = vec![curve("identity", 0, &|x| x)];
    for (place, (name, model)) in models.iter().enumerate() {
        if let Some(function) = function_of(model) {
            curves.push(curve(name, place + 1, &function));
        }
    }
    curves
}

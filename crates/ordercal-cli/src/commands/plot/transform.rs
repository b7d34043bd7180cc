//! `plot transform`: functions of one score.

use std::path::Path;

use anyhow::{Result, bail};
use ordercal::{InputKind, Model, Scores};
use ordercal_report::{Curve, Histogram, TransformFigure};
use serde_json::json;

use super::{Target, load_counted};
use crate::args::TransformArgs;
use crate::models::load_models;
use crate::printer::Printer;

/// Points of a curve; pixels of a screen cannot tell more.
const POINTS: u32 = 400;
/// Bars of the strip below.
const BARS: usize = 60;

pub fn run(args: &TransformArgs, printer: Printer) -> Result<()> {
    let target = Target::new(&args.draw)?;
    let saved = load_models(&args.models)?;
    for (path, (_, saved)) in args.models.iter().zip(&saved) {
        if function_of(&saved.model).is_none() {
            bail!(
                "{}: a model of {} is no function of a single score; give models of diag or ts",
                path.display(),
                saved.method.key()
            );
        }
    }
    let named: Vec<(&str, &Model)> = saved
        .iter()
        .map(|(name, saved)| (name.as_str(), &saved.model))
        .collect();
    let input = common_input(&args.models, &named)?;
    let counted = load_counted(&args.counted, "calib")?;
    let scores = match &counted {
        Some((_, loaded)) => Some(shifted(&loaded.scores()?, input)),
        None => None,
    };
    let range = range_of(&named, scores.as_deref());
    let curves = curves_of(&named, range);
    let scores = scores.map(|scores| Histogram::new(scores, range, BARS));
    let numbers = json!({
        "figure": "transform",
        "curves": curves.iter().map(|c| json!({"name": c.name, "points": c.points})).collect::<Vec<_>>(),
        "scores": scores.as_ref().map(|h| json!({"low": h.low, "high": h.high, "counts": h.counts})),
    });
    let figure = TransformFigure {
        title: target.title(|| "What was learned: calibrated against given score".to_owned()),
        input: describe(input).to_owned(),
        curves,
        scores,
    };
    target.write(&figure.draw(target.theme())?, numbers, printer)
}

/// The shift that all functions read their scores after.
fn common_input(paths: &[std::path::PathBuf], models: &[(&str, &Model)]) -> Result<InputKind> {
    let mut found: Option<(&Path, InputKind)> = None;
    for (path, (_, model)) in paths.iter().zip(models) {
        let Some(own) = input_of(model) else { continue };
        match found {
            Some((first, input)) if input != own => bail!(
                "{} reads the {}, but {} the {}; draw them apart",
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

/// What a function reads.
pub fn describe(input: InputKind) -> &'static str {
    match input {
        InputKind::Raw => "score as given",
        InputKind::LogSoftmax => "log-probability",
        InputKind::Centred => "score less the mean of its row",
    }
}

/// Every possible score after its row's shift.
pub fn shifted(scores: &Scores<'_>, input: InputKind) -> Vec<f64> {
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

/// The models whose functions a model averages: itself, or the folds'.
fn members(model: &Model) -> Vec<(f64, &Model)> {
    match model {
        Model::Mixture(mixture) => mixture.members().iter().map(|(w, m)| (*w, m)).collect(),
        model => vec![(1.0, model)],
    }
}

/// What a model reads, if it is one whose function depends on that.
pub fn input_of(model: &Model) -> Option<InputKind> {
    members(model)
        .into_iter()
        .find_map(|(_, member)| match member {
            Model::Diag(diag) => Some(diag.input()),
            _ => None,
        })
}

/// The function of a single score that a model is. Of a fold ensemble, whose probabilities are averaged, it
/// is the mean of the folds' functions.
pub fn function_of(model: &Model) -> Option<Box<dyn Fn(f64) -> f64 + '_>> {
    let members = members(model);
    let known = |(_, m): &(f64, &Model)| matches!(m, Model::Diag(_) | Model::Ts(_));
    if !members.iter().all(known) {
        return None;
    }
    Some(Box::new(move |x| {
        let values = members.iter().map(|(weight, member)| match member {
            Model::Diag(diag) => weight * diag.function(x),
            Model::Ts(ts) => weight * x * ts.inverse_temperature(),
            _ => f64::NAN,
        });
        values.sum()
    }))
}

/// Where the functions were learned, or else where the data are.
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

/// The identity and the functions of models over a range; those that are none are left out.
pub fn curves_of(models: &[(&str, &Model)], (low, high): (f64, f64)) -> Vec<Curve> {
    let curve = |name: &str, slot: usize, function: &dyn Fn(f64) -> f64| {
        let points = (0..=POINTS).map(|i| {
            let x = low + (high - low) * f64::from(i) / f64::from(POINTS);
            (x, function(x))
        });
        Curve {
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

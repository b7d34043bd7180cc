//! `plot reliability` and `plot weighted`.

use anyhow::Result;
use ordercal::compare::predictions;
use ordercal::metrics::{Binning, MetricOptions, Predictions, Reliability, Target as Outcome};
use ordercal::{Dataset, Model, ScoreKind};
use ordercal_report::{ReliabilityFigure, ReliabilityForm, ReliabilitySeries};
use serde_json::json;

use super::Target;
use crate::args::{BinnedArgs, DrawArgs, FormName, ReliabilityArgs};
use crate::input::{Source, at};
use crate::models::{check_classes, load_models};
use crate::printer::Printer;

pub fn plain(args: &ReliabilityArgs, printer: Printer) -> Result<()> {
    let form = match args.form {
        FormName::Gap => ReliabilityForm::Gap,
        FormName::Classic => ReliabilityForm::Classic,
    };
    draw(&args.binned, &args.draw, form, "reliability", printer)
}

pub fn weighted(binned: &BinnedArgs, draw_args: &DrawArgs, printer: Printer) -> Result<()> {
    draw(
        binned,
        draw_args,
        ReliabilityForm::Weighted,
        "weighted",
        printer,
    )
}

fn draw(
    args: &BinnedArgs,
    draw: &DrawArgs,
    form: ReliabilityForm,
    key: &str,
    printer: Printer,
) -> Result<()> {
    let target = Target::new(draw)?;
    let options = MetricOptions::default().with_bins(args.bins);
    options.validate()?;
    let saved = load_models(&args.model)?;
    let names = saved
        .iter()
        .find_map(|(_, saved)| saved.class_names.clone());
    let source = Source::resolve(&args.data, "test")?.with_class_names(names);
    let loaded = source.load()?;
    let data = loaded.dataset()?;
    for (path, (_, saved)) in args.model.iter().zip(&saved) {
        check_classes((path, &saved.model), (source.path(), data.classes()))?;
    }
    let outcome = args.class.map_or(Outcome::TopLabel, Outcome::Class);
    let how = (outcome, Binning::from(args.binning), &options);
    let mut series =
        vec![series_of("uncalibrated", 0, &data, None, how).map_err(|e| at(source.path(), e))?];
    for (place, (name, saved)) in saved.iter().enumerate() {
        series.push(series_of(name, place + 1, &data, Some(&saved.model), how)?);
    }
    let title = target.title(|| {
        let file = source.path().file_stem().unwrap_or_default();
        let file = file.to_string_lossy();
        let what = match form {
            ReliabilityForm::Weighted => "Weighted reliability",
            _ => "Reliability",
        };
        match args.class {
            None => format!("{what}: {file}"),
            Some(class) => format!("{what} of class {class}: {file}"),
        }
    });
    let numbers = series.iter().map(|one| {
        json!({
            "name": one.name,
            "error": one.diagram.error(),
            "bins": one.diagram.bins,
        })
    });
    let numbers = json!({
        "figure": key,
        "n": data.rows(),
        "series": numbers.collect::<Vec<_>>(),
    });
    let figure = ReliabilityFigure {
        title,
        series,
        form,
    };
    target.write(&figure.draw(target.theme())?, numbers, printer)
}

/// The diagram of scores, or of what a model makes of them.
pub fn series_of(
    name: &str,
    slot: usize,
    data: &Dataset<'_>,
    model: Option<&Model>,
    (outcome, binning, options): (Outcome, Binning, &MetricOptions),
) -> ordercal::Result<ReliabilitySeries> {
    let diagram = match model {
        None => Reliability::new(&Predictions::from(data), outcome, binning, options)?,
        Some(model) => {
            let probs = model.apply::<f64>(data.scores(), ScoreKind::Probs)?;
            let predictions = predictions(probs.view(), data)?;
            Reliability::new(&predictions, outcome, binning, options)?
        }
    };
    Ok(ReliabilitySeries {
        name: name.to_owned(),
        slot,
        diagram,
    })
}

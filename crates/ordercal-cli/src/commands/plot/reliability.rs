//! `plot reliability` and `plot weighted`.

use std::path::PathBuf;

use anyhow::Result;
use ordercal::diagnose::RowChecks;
use ordercal::metrics::{Binning, MetricOptions, Reliability, Target};
use ordercal::{Dataset, Fingerprint};
use ordercal_io::{LabelNeed, LoadedData};
use ordercal_report::{ReliabilityFigure, ReliabilityForm, ReliabilitySeries};
use serde_json::json;

use super::FigureFile;
use crate::args::{BinnedArgs, DrawArgs, FormArg, ReliabilityArgs};
use crate::input::{DataInput, at, ignored};
use crate::measure::with_predictions;
use crate::models::{Applied, Columns, check_kinds, columns_of, load_models, match_classes};
use crate::output::check_distinct;
use crate::printer::Printer;

pub fn plain(args: &ReliabilityArgs, printer: Printer) -> Result<()> {
    let form = match args.form {
        FormArg::Gap => ReliabilityForm::Gap,
        FormArg::Classic => ReliabilityForm::Classic,
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
    let file = FigureFile::new(draw)?;
    let options = MetricOptions::default().with_bins(args.bins);
    options.validate()?;
    let saved = load_models(&args.model)?;
    let columns = columns_of(saved.iter().map(|(_, saved)| saved.by()));
    let input = DataInput::resolve(&args.data, "test")?
        .with_labels(&args.labels)
        .with_ids(&columns);
    input.check_format(None)?;
    let paths = || args.model.iter().map(PathBuf::as_path);
    check_distinct(&draw.output, input.paths().into_iter().chain(paths()))?;
    let mut reader = input.open(LabelNeed::Required)?;
    let pooled = || saved.iter().map(|(_, saved)| saved.pooled());
    match_classes(&mut reader, paths().zip(pooled()))?;
    let kinds = check_kinds(&reader, pooled());
    let loaded = LoadedData::collect(reader)?;
    let data = loaded.dataset()?;
    let fitted_on: Vec<Fingerprint> = pooled().filter_map(|saved| saved.data).collect();
    let mut checks = RowChecks::new(data.classes()).of_models_fitted_on(fitted_on);
    checks.add(&data);
    if data.has_soft_labels() {
        let source = ordercal::Error::SoftLabels {
            what: "a reliability diagram",
        };
        return Err(at(input.path(), source));
    }
    let mut warnings = checks.evaluation();
    warnings.extend(kinds);
    warnings.extend(ignored(loaded.ignored()));
    printer.warn(input.path(), &warnings)?;
    let target = args.class.map_or(Target::TopLabel, Target::Class);
    let how = (target, Binning::from(args.binning), &options);
    let columns = Columns {
        names: &columns,
        values: loaded.ids(),
    };
    let scores = series_of("uncalibrated", 0, &data, columns, None, how);
    let mut series = vec![scores.map_err(|e| at(input.path(), e))?];
    for (place, (name, saved)) in saved.iter().enumerate() {
        let model = Some(saved.applied());
        series.push(series_of(name, place + 1, &data, columns, model, how)?);
    }
    let title = file.title(|| {
        let stem = input.path().file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy();
        let what = match form {
            ReliabilityForm::Weighted => "Weighted reliability",
            _ => "Reliability",
        };
        match args.class {
            None => format!("{what}: {stem}"),
            Some(class) => format!("{what} of class {class}: {stem}"),
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
    file.write(&figure.draw(file.theme())?, numbers, printer)
}

/// The diagram of the scores, or of a model's probabilities.
fn series_of(
    name: &str,
    slot: usize,
    data: &Dataset<'_>,
    columns: Columns<'_>,
    model: Option<Applied<'_>>,
    (target, binning, options): (Target, Binning, &MetricOptions),
) -> ordercal::Result<ReliabilitySeries> {
    with_predictions(data, columns, model, |predictions, _| {
        Ok(ReliabilitySeries {
            name: name.to_owned(),
            slot,
            diagram: Reliability::new(predictions, target, binning, options)?,
        })
    })
}

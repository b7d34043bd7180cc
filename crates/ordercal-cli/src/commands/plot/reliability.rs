//! `plot reliability` and `plot weighted`.

use std::path::PathBuf;

use anyhow::Result;
use ordercal::Dataset;
use ordercal::metrics::{Binning, MetricOptions, Reliability, Target};
use ordercal_io::LoadedData;
use ordercal_report::{ReliabilityFigure, ReliabilityForm, ReliabilitySeries};
use serde_json::json;

use super::FigureFile;
use crate::args::{BinnedArgs, DrawArgs};
use crate::input::{DataInput, at};
use crate::measure::with_predictions;
use crate::models::{Applied, Columns, columns_of, load_models, open_labelled};
use crate::output::check_distinct;
use crate::printer::Printer;

pub fn draw(
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
    let columns = columns_of(saved.iter().map(|saved| saved.model.by()));
    let input = DataInput::resolve(&args.data, "test")?
        .with_labels(&args.labels)
        .with_ids(&columns);
    input.check_format(None)?;
    let models = args.model.iter().map(PathBuf::as_path);
    check_distinct(&draw.output, input.paths().into_iter().chain(models))?;
    let (reader, mut checks, others) = open_labelled(&input, &saved)?;
    let loaded = LoadedData::collect(reader)?;
    let data = loaded.dataset()?;
    checks.add(&data);
    if data.has_soft_labels() {
        let source = ordercal::Error::SoftLabels {
            what: "a reliability diagram",
        };
        return Err(at(input.path(), source));
    }
    let mut warnings = checks.evaluation();
    warnings.extend(others);
    printer.warn(input.path(), &warnings)?;
    let target = args.class.map_or(Target::TopLabel, Target::Class);
    let how = (target, args.binning, &options);
    let columns = Columns {
        names: &columns,
        values: loaded.ids(),
    };
    let scores = series_of("uncalibrated", 0, &data, columns, None, how);
    let mut series = vec![scores.map_err(|e| at(input.path(), e))?];
    for (place, saved) in saved.iter().enumerate() {
        let model = Some(saved.model.applied());
        series.push(series_of(
            &saved.name,
            place + 1,
            &data,
            columns,
            model,
            how,
        )?);
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
    file.write(&figure.draw(file.args.theme)?, numbers, printer)
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

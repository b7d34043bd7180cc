//! `ordercal evaluate`: metrics before and after calibration.

use std::collections::BTreeMap;

use anyhow::Result;
use ordercal::Model;
use ordercal::compare::Measures;
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions};
use ordercal_io::{LabelNeed, write_atomically};
use serde_json::json;

use crate::args::{Common, EvaluateArgs};
use crate::exit::Exit;
use crate::fail_if::{FailIf, metric};
use crate::input::{Source, at};
use crate::measure::{Measured, measure_whole, state_of, tables};
use crate::models::{check_classes, load_models};
use crate::printer::Printer;
use crate::stream::{is_large, measure_stream};
use crate::verdict;

/// Thresholds, each with the text it was read from.
type Limits = Vec<(String, FailIf)>;

/// Runs the command.
pub fn run(args: &EvaluateArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let (shown, limits, plan) = plan(args, common)?;
    let saved = load_models(&args.model)?;
    let names = saved
        .iter()
        .find_map(|(_, saved)| saved.class_names.clone());
    let source = Source::resolve(&args.data, "test")?.with_class_names(names);
    let models: Vec<(String, &Model)> = saved
        .iter()
        .map(|(name, saved)| (name.clone(), &saved.model))
        .collect();
    let mut reader = source.open(LabelNeed::Required)?;
    let classes = reader.classes();
    for (path, (_, model)) in args.model.iter().zip(&models) {
        check_classes((path, model), (source.path(), classes))?;
    }
    let rows = reader.count_rows()?;
    // Resamples need the rows: whoever asks for intervals has to have the memory.
    let (n, rows, state) = if is_large(rows, classes) && plan.bootstrap.is_none() {
        let bar = printer.progress(rows as u64, "rows");
        let found = measure_stream(reader, &models, &plan, args.state_out.is_some(), &bar)
            .map_err(|e| at_data(&source, e))?;
        bar.finish_and_clear();
        (found.rows, found.measured, Some(found.state))
    } else {
        drop(reader);
        let loaded = source.load()?;
        let data = loaded.dataset()?;
        let rows = measure_whole(&data, &models, &plan)?;
        let state = match &args.state_out {
            Some(_) => {
                let last = models.last().map(|(_, model)| *model);
                let state = state_of(&data, last, &plan.options);
                Some(state.map_err(|e| at(source.path(), e))?)
            }
            None => None,
        };
        (data.rows(), rows, state)
    };
    if let (Some(path), Some(state)) = (&args.state_out, state) {
        write_atomically(path, &state.to_bytes())?;
    }

    printer.json(&json!({
        "n": n,
        "classes": classes,
        "rows": rows.iter().map(|r| r.to_json(&shown)).collect::<Vec<_>>(),
    }));
    printer.remark(format_args!("{n} rows of {classes} classes"));
    printer.result(tables(&rows, &shown));
    if rows.iter().any(|row| !row.bounds.is_empty()) {
        printer.remark("(rows were not kept: ± holds the exact value, ≈ is close to it as a rule)");
    }
    explain(&rows, printer);
    Ok(check(&limits, &rows[rows.len() - 1].values, printer))
}

/// Errors of the file library name the file; those of the metrics do not.
fn at_data(source: &Source, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ordercal::Error>() {
        Ok(error) => at(source.path(), error),
        Err(error) => error,
    }
}

/// What to show, what may fail, and all that has to be computed for the two.
fn plan(args: &EvaluateArgs, common: &Common) -> Result<(Vec<Metric>, Limits, Measures)> {
    let shown = match &args.metrics {
        None => Metric::ALL.to_vec(),
        Some(keys) => keys
            .iter()
            .map(|key| metric(key.trim()).map_err(|e| anyhow::anyhow!("--metrics: {e}")))
            .collect::<Result<Vec<_>>>()?,
    };
    let limits = args
        .fail_if
        .iter()
        .map(|text| Ok((text.clone(), FailIf::parse(text)?)))
        .collect::<Result<Limits>>()?;
    let mut metrics = shown.clone();
    metrics.extend(limits.iter().map(|(_, limit)| limit.metric));
    metrics.sort();
    metrics.dedup();
    let options = MetricOptions::default().with_bins(args.bins);
    options.validate()?;
    let bootstrap = args.bootstrap.map(|resamples| {
        let how = BootstrapOptions::default().with_resamples(resamples);
        match common.seed {
            Some(seed) => how.with_seed(seed),
            None => how,
        }
    });
    if let Some(how) = &bootstrap {
        how.validate()?;
    }
    let plan = Measures {
        metrics,
        options,
        bootstrap,
    };
    Ok((shown, limits, plan))
}

fn explain(rows: &[Measured], printer: Printer) {
    let interval = |row: &Measured| row.intervals.get(&Metric::Ece).copied();
    let [before, models @ ..] = rows else {
        return;
    };
    if models.is_empty() {
        printer.remark(verdict::alone(before.gap, interval(before)));
    }
    for after in models {
        let sentence = verdict::compared(
            before.gap,
            after.gap,
            interval(after),
            after.changed,
            after.rows,
        );
        printer.remark(format_args!("{}: {sentence}", after.name));
    }
}

fn check(limits: &[(String, FailIf)], values: &BTreeMap<Metric, f64>, printer: Printer) -> Exit {
    let mut exit = Exit::Done;
    for (text, limit) in limits {
        if limit.fails(values) {
            let value = values.get(&limit.metric).copied().unwrap_or(f64::NAN);
            printer.result(format_args!(
                "failed: {text} ({} is {value:.6})",
                limit.metric
            ));
            exit = Exit::ThresholdFailed;
        }
    }
    exit
}

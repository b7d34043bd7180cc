//! `ordercal evaluate`: metrics before and after calibration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use ordercal::Model;
use ordercal::compare::Measures;
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions};
use ordercal_io::{LabelNeed, write_atomically};
use serde_json::json;

use crate::args::{Common, EvaluateArgs};
use crate::exit::Exit;
use crate::fail_if::{FailIf, metric};
use crate::input::{DataInput, at};
use crate::measure::{Evaluation, evaluate_in_memory, state_of, tables};
use crate::models::{check_classes, load_models};
use crate::output::check_distinct;
use crate::printer::Printer;
use crate::stream::{evaluate_stream, is_large};
use crate::verdict;

/// Thresholds, each with the text it was parsed from.
type Limits = Vec<(String, FailIf)>;

/// Runs the command.
pub fn run(args: &EvaluateArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let (shown, limits, measures) = settings(args, common)?;
    let printer = match &args.state_out {
        Some(path) => printer.beside(path)?,
        None => printer,
    };
    let saved = load_models(&args.model)?;
    let names = saved
        .iter()
        .find_map(|(_, saved)| saved.class_names.clone());
    let input = DataInput::resolve(&args.data, "test")?
        .with_class_names(names)
        .with_ignored(&args.ignore);
    input.check_format(None)?;
    if let Some(path) = &args.state_out {
        let models = args.model.iter().map(PathBuf::as_path);
        check_distinct(path, input.paths().into_iter().chain(models))?;
    }
    let models: Vec<(String, &Model)> = saved
        .iter()
        .map(|(name, saved)| (name.clone(), &saved.model))
        .collect();
    let mut reader = input.open(LabelNeed::Required)?;
    let classes = reader.classes();
    for (path, (_, model)) in args.model.iter().zip(&models) {
        check_classes((path, model), (input.path(), classes))?;
    }
    let rows = reader.count_rows()?;
    // The bootstrap needs all rows in memory.
    let (n, evaluations, state) = if is_large(rows, classes) && measures.bootstrap.is_none() {
        let bar = printer.progress(rows as u64, "rows");
        let keep_state = args.state_out.is_some();
        let found = evaluate_stream(reader, &models, &measures, keep_state, &bar)?;
        bar.finish_and_clear();
        (found.rows, found.evaluations, Some(found.state))
    } else {
        drop(reader);
        let loaded = input.load()?;
        let data = loaded.dataset()?;
        let evaluations = evaluate_in_memory(&data, &models, &measures)?;
        let last = models.last().map(|(_, model)| *model);
        let state = args
            .state_out
            .as_ref()
            .map(|_| state_of(&data, last, &measures.options));
        let state = state.transpose().map_err(|e| at(input.path(), e))?;
        (data.rows(), evaluations, state)
    };
    if let (Some(path), Some(state)) = (&args.state_out, state) {
        write_atomically(path, &state.to_bytes())?;
    }

    let is_missing = |metric: &&Metric| !evaluations[0].values.contains_key(metric);
    let missing: Vec<&str> = shown.iter().filter(is_missing).map(|m| m.key()).collect();
    if missing.len() == shown.len() {
        anyhow::bail!(
            "{}: {} of {n} rows of {classes} classes does not fit in memory",
            input.path().display(),
            missing.join(", ")
        );
    }
    let mut result = json!({
        "n": n,
        "classes": classes,
        "rows": evaluations.iter().map(|e| e.to_json(&shown)).collect::<Vec<_>>(),
    });
    if !missing.is_empty() {
        result["left_out"] = json!(missing);
    }
    printer.json(&result);
    let shown: Vec<Metric> = shown.into_iter().filter(|m| !is_missing(&m)).collect();
    printer.remark(format_args!("{n} rows of {classes} classes"));
    printer.result(tables(&evaluations, &shown));
    if evaluations.iter().any(|e| !e.bounds.is_empty()) {
        printer.remark(
            "(rows were streamed: ± is a bound on the error; ≈ marks a value below its error bound)",
        );
    }
    if !missing.is_empty() {
        printer.remark(format_args!(
            "({} left out: for {classes} classes it does not fit in memory)",
            missing.join(", ")
        ));
    }
    explain(&evaluations, printer);
    let last = &evaluations[evaluations.len() - 1];
    Ok(check(&limits, &last.values, printer))
}

/// The metrics to show, the thresholds, and all that has to be computed for them and the verdict.
fn settings(args: &EvaluateArgs, common: &Common) -> Result<(Vec<Metric>, Limits, Measures)> {
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
    // The verdict gives the ECE with its interval.
    metrics.push(Metric::Ece);
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
    let measures = Measures {
        metrics,
        options,
        bootstrap,
        intervals: true,
        keep_resamples: false,
    };
    Ok((shown, limits, measures))
}

fn explain(evaluations: &[Evaluation], printer: Printer) {
    let interval = |e: &Evaluation| e.intervals.get(&Metric::Ece).copied();
    let [before, models @ ..] = evaluations else {
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

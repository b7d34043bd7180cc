//! `ordercal evaluate`: metrics before and after calibration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use ordercal::Model;
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions};
use ordercal_io::write_atomically;
use serde_json::json;

use crate::args::{Common, EvaluateArgs};
use crate::exit::Exit;
use crate::fail_if::{FailIf, metric};
use crate::input::{Source, at};
use crate::measure::{Measured, Plan, measure_whole, state_of, tables};
use crate::printer::Printer;
use crate::verdict;
use ordercal_io::SavedModel;

/// Thresholds, each with the text it was read from.
type Limits = Vec<(String, FailIf)>;

/// Runs the command.
pub fn run(args: &EvaluateArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let (shown, limits, plan) = plan(args, common)?;
    let saved = load_models(&args.model)?;
    let source = Source::resolve(&args.data, "test")?;
    let loaded = source.load()?;
    let data = loaded.dataset()?;
    for (path, model) in args.model.iter().zip(&saved) {
        if model.1.model.classes() != data.classes() {
            bail!(
                "{}: the model is for {} classes, but {} has {}",
                path.display(),
                model.1.model.classes(),
                source.path().display(),
                data.classes()
            );
        }
    }
    let models: Vec<(String, &Model)> = saved
        .iter()
        .map(|(name, saved)| (name.clone(), &saved.model))
        .collect();
    let rows = measure_whole(&data, &models, &plan)?;
    if let Some(path) = &args.state_out {
        let last = models.last().map(|(_, model)| *model);
        let state = state_of(&data, last, &plan.options).map_err(|e| at(source.path(), e))?;
        write_atomically(path, &state.to_bytes())?;
    }

    printer.json(&json!({
        "n": data.rows(),
        "classes": data.classes(),
        "rows": rows.iter().map(|r| r.to_json(&shown)).collect::<Vec<_>>(),
    }));
    printer.remark(format_args!(
        "{} rows of {} classes",
        data.rows(),
        data.classes()
    ));
    printer.result(tables(&rows, &shown));
    explain(&rows, printer);
    Ok(check(&limits, &rows[rows.len() - 1].values, printer))
}

/// What to show, what may fail, and all that has to be computed for the two.
fn plan(args: &EvaluateArgs, common: &Common) -> Result<(Vec<Metric>, Limits, Plan)> {
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
    let plan = Plan {
        metrics,
        options,
        bootstrap,
    };
    Ok((shown, limits, plan))
}

/// Models by the names of their files, or by their whole paths where those are the same.
fn load_models(paths: &[PathBuf]) -> Result<Vec<(String, SavedModel)>> {
    let stem = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        stem.to_string_lossy().into_owned()
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        *count.entry(stem(path)).or_default() += 1;
    }
    let named = paths.iter().map(|path| {
        let name = match stem(path) {
            name if count[&name] > 1 => path.display().to_string(),
            name => name,
        };
        Ok((name, SavedModel::load(path)?))
    });
    named.collect()
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

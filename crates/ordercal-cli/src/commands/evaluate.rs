//! `ordercal evaluate`: metrics before and after calibration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use ordercal::Error::SoftLabels;
use ordercal::compare::Measures;
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, MetricState};
use ordercal::words::count;
use ordercal_io::{LoadedData, write_atomically};
use serde_json::json;

use crate::args::{Common, EvaluateArgs};
use crate::exit::Exit;
use crate::fail_if::{FailIf, metric};
use crate::input::{DataInput, at};
use crate::measure::{
    Evaluation, Part, evaluate_in_memory, evaluate_parts, group_table, state_of, tables,
};
use crate::models::{Applied, Columns, columns_of, load_models, open_labelled};
use crate::output::check_distinct;
use crate::printer::{self, Printer};
use crate::stream::{evaluate_stream, is_large};
use crate::verdict;

/// The metrics of groups in a table, unless others are asked for.
const GROUP_METRICS: [Metric; 3] = [Metric::Accuracy, Metric::Nll, Metric::Ece];

/// Thresholds, each with the text it was parsed from.
type Limits = Vec<(String, FailIf)>;

pub fn run(args: &EvaluateArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let (mut shown, limits, mut measures) = settings(args, common)?;
    let printer = match &args.state_out {
        Some(path) => printer.beside(path)?,
        None => printer,
    };
    let saved = load_models(&args.model)?;
    let lists = saved.iter().map(|saved| saved.model.by());
    let columns = columns_of(lists.chain([&args.by[..]]));
    let input = DataInput::resolve(&args.data, "test")?
        .with_labels(&args.labels)
        .with_ids(&columns);
    input.check_format(None)?;
    if let Some(path) = &args.state_out {
        let models = args.model.iter().map(PathBuf::as_path);
        check_distinct(path, input.paths().into_iter().chain(models))?;
    }
    let models = saved.iter();
    let models = models.map(|saved| (saved.name.clone(), saved.model.applied()));
    let models: Vec<(String, Applied<'_>)> = models.collect();
    let (mut reader, mut checks, others) = open_labelled(&input, &saved)?;
    let classes = reader.classes();
    if args.metrics.is_none() {
        shown.retain(|metric| metric.check_classes(classes).is_ok());
        let wanted = |metric: &Metric| limits.iter().any(|(_, limit)| limit.metric == *metric);
        let defined = |metric: &Metric| metric.check_classes(classes).is_ok() || wanted(metric);
        measures.metrics.retain(defined);
    }
    for metric in &measures.metrics {
        metric
            .check_classes(classes)
            .map_err(|e| at(input.path(), e))?;
    }
    let rows = reader.count_rows()?;
    let empty = match args.state_out {
        Some(_) => Some(empty_state(args, classes, &measures.options)?),
        None => None,
    };
    let mut warnings;
    // The bootstrap needs all rows in memory.
    let (all, groups, state) = if is_large(rows, classes) && measures.bootstrap.is_none() {
        let bar = printer.progress(rows as u64, "rows");
        let found = evaluate_stream(reader, &models, &args.by, &measures, empty, checks, &bar)?;
        bar.finish_and_clear();
        warnings = found.checks.evaluation();
        (found.all, found.groups, found.state)
    } else {
        let loaded = LoadedData::collect(reader)?;
        let data = loaded.dataset()?;
        if data.has_soft_labels() {
            if args.state_out.is_some() {
                return Err(at(input.path(), SoftLabels { what: "a state" }));
            }
            if !columns.is_empty() {
                let what = "an evaluation by groups";
                return Err(at(input.path(), SoftLabels { what }));
            }
            let asked = |metric: &Metric| {
                let shown = args.metrics.is_some() && shown.contains(metric);
                shown || limits.iter().any(|(_, limit)| limit.metric == *metric)
            };
            let defined = |metric: &Metric| metric.takes_soft_labels() || asked(metric);
            measures.metrics.retain(defined);
            shown.retain(|metric| measures.metrics.contains(metric));
        }
        checks.add(&data);
        warnings = checks.evaluation();
        let (names, values) = (&columns[..], loaded.ids());
        let columns = Columns { names, values };
        let wrong = |e| at(input.path(), e);
        let all = Part {
            rows: data.examples(),
            evaluations: evaluate_in_memory(&data, columns, &models, &measures).map_err(wrong)?,
        };
        let groups = evaluate_parts(&data, columns, &args.by, &models, &measures);
        let last = models.last().map(|(_, model)| *model);
        let state = empty.map(|empty| state_of(&data, columns, last, empty));
        (
            all,
            groups.map_err(wrong)?,
            state.transpose().map_err(wrong)?,
        )
    };
    let Part {
        rows: n,
        evaluations,
    } = all;
    warnings.extend(others);
    printer.warn(input.path(), &warnings)?;
    let is_missing = |metric: &Metric| !evaluations[0].values.contains_key(metric);
    let missing: Vec<Metric> = shown.iter().copied().filter(is_missing).collect();
    let needed = limits.iter().map(|(_, limit)| limit.metric);
    let mut needed = needed.filter(is_missing);
    if let Some(metric) = needed
        .next()
        .or((missing.len() == shown.len()).then(|| missing[0]))
    {
        let rows = count(n, "row", "rows");
        let problem = format!("{metric} of {rows} of {classes} classes does not fit in memory");
        return Err(at(input.path(), problem));
    }
    if let (Some(path), Some(state)) = (&args.state_out, state) {
        write_atomically(path, &state.to_bytes())?;
    }

    let last = &evaluations[evaluations.len() - 1];
    let failed = failures(&limits, &last.values);
    let mut result = json!({
        "n": n,
        "classes": classes,
        "rows": evaluations.iter().map(|e| e.to_json(&shown)).collect::<Vec<_>>(),
    });
    if !args.by.is_empty() {
        let groups = groups.iter().map(|(key, part)| {
            let rows = part.evaluations.iter().map(|e| e.to_json(&shown));
            json!({"key": key, "n": part.rows, "rows": rows.collect::<Vec<_>>()})
        });
        result["by"] = json!(args.by);
        result["groups"] = groups.collect();
    }
    if !missing.is_empty() {
        result["left_out"] = json!(missing);
    }
    if !limits.is_empty() {
        let failed = failed.iter().map(|(condition, metric, value)| {
            json!({"condition": condition, "metric": metric, "value": value})
        });
        result["failed"] = failed.collect();
    }
    printer.json(&result);
    let shown: Vec<Metric> = shown.into_iter().filter(|m| !is_missing(m)).collect();
    printer.remark(format_args!(
        "{} of {classes} classes",
        count(n, "row", "rows")
    ));
    printer.result(tables(&evaluations, &shown));
    if !groups.is_empty() {
        let metrics = match &args.metrics {
            Some(_) => &shown[..],
            None => &GROUP_METRICS,
        };
        for place in 0..evaluations.len() {
            printer.result(group_table(&groups, place, metrics));
        }
        printer.left_out(groups.len());
    }
    if evaluations.iter().any(|e| !e.bounds.is_empty()) {
        printer.remark("(too large for memory: ≈ marks estimates, ± a guaranteed bound)");
    }
    if !missing.is_empty() {
        printer.remark(format_args!(
            "({} left out: what is kept of each of {classes} classes for it would not fit in memory)",
            missing
                .iter()
                .map(|m| m.key())
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    explain(&evaluations, printer);
    for (condition, metric, value) in &failed {
        printer::failure(format_args!("failed: {condition} ({metric} is {value:.6})"));
    }
    Ok(if failed.is_empty() {
        Exit::Done
    } else {
        Exit::ThresholdFailed
    })
}

/// The state to write, without rows. The sums of `marginal_ce` take much room, so they are kept only if it is asked for
/// by name.
fn empty_state(
    args: &EvaluateArgs,
    classes: usize,
    options: &MetricOptions,
) -> Result<MetricState> {
    let state = MetricState::new(classes, options.clone())?;
    let asked = args.metrics.iter().flatten();
    let mut asked = asked.filter_map(|key| key.trim().parse::<Metric>().ok());
    Ok(if asked.any(|metric| metric.reads_class_bins(classes)) {
        state.with_marginal()?
    } else {
        state
    })
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

/// The conditions that hold, each with its metric and the metric's value.
fn failures<'a>(
    limits: &'a [(String, FailIf)],
    values: &BTreeMap<Metric, f64>,
) -> Vec<(&'a str, Metric, f64)> {
    let failed = limits.iter().filter(|(_, limit)| limit.fails(values));
    let value = |metric| values.get(&metric).copied().unwrap_or(f64::NAN);
    failed
        .map(|(text, limit)| (text.as_str(), limit.metric, value(limit.metric)))
        .collect()
}

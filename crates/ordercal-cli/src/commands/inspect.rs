//! `ordercal inspect`: describes a model or data.

use std::path::Path;

use anyhow::Result;
use ordercal::diagnose::{self, RowChecks, Warning};
use ordercal::words::count;
use ordercal_io::{DataRef, Format, LoadedData, ReadOptions, SetInfo, inspect};
use serde_json::{Value, json};

use super::fit_groups::explain;
use crate::args::InspectArgs;
use crate::exit::Exit;
use crate::input::{at, ignored};
use crate::printer::Printer;
use ordercal_io::{SavedGroups, SavedModel};

pub fn run(args: &InspectArgs, printer: Printer) -> Result<Exit> {
    let data = DataRef::parse(&args.target);
    let path = data.path();
    let options = args.source.options();
    let format = match args.source.read.format {
        Some(format) if !Format::is_told_by(path) => format,
        _ => Format::of(path)?,
    };
    if format == Format::Safetensors && SavedGroups::is_file(path) {
        if let Some(group) = data.split() {
            let problem = format!("all groups are described at once; leave out #{group}");
            return Err(at(path, problem));
        }
        describe_groups(path, &SavedGroups::load(path)?, printer)?;
        return Ok(Exit::Done);
    }
    if data.split().is_none() && format == Format::Safetensors {
        match SavedModel::load(path) {
            Ok(saved) => {
                describe_model(path, &saved, printer)?;
                return Ok(Exit::Done);
            }
            // Scores can be in the same format.
            Err(error) => match inspect(path, &options) {
                Ok(contents) if !contents.sets.is_empty() => {}
                _ => return Err(error.into()),
            },
        }
    }
    describe_data(&data, &options, printer)?;
    Ok(Exit::Done)
}

fn describe_model(path: &Path, saved: &SavedModel, printer: Printer) -> Result<()> {
    let order = saved.model.order_preserving();
    let report = &saved.report;
    let warnings = diagnose::check_model(&saved.model, report);
    printer.refuse(path, &warnings)?;
    let warnings = texts(&warnings);
    printer.json(&json!({
        "file": path.to_string_lossy(),
        "what": "model",
        "method": saved.method,
        "order_preserving": order,
        "classes": saved.model.classes(),
        "class_names": saved.class_names,
        "report": report,
        "warnings": warnings,
    }));
    printer.result(format_args!(
        "{}: a model of the method {} for {} classes",
        path.display(),
        saved.method.key(),
        saved.model.classes()
    ));
    printer.result(describe_order(order));
    printer.result(format_args!(
        "on its calibration data: NLL {:.4} before, {:.4} after, {} iterations",
        report.nll_before, report.nll_after, report.iterations
    ));
    for note in &report.notes {
        printer.result(note);
    }
    if let Ok(method) = serde_json::to_string(&saved.method) {
        printer.result(format_args!("hyperparameters: {method}"));
    }
    if let Some(names) = &saved.class_names {
        printer.result(format_args!("classes: {}", names.join(", ")));
    }
    warn(&warnings, printer);
    Ok(())
}

fn describe_groups(path: &Path, saved: &SavedGroups, printer: Printer) -> Result<()> {
    let order = saved.model.order_preserving();
    let report = &saved.report;
    printer.json(&json!({
        "file": path.to_string_lossy(),
        "what": "models of groups",
        "method": saved.pooled.method,
        "group_method": saved.group_method,
        "by": saved.by,
        "order_preserving": order,
        "classes": saved.model.classes(),
        "class_names": saved.pooled.class_names,
        "report": report,
    }));
    printer.result(format_args!(
        "{}: models of groups by {} for {} classes: {} for all rows, {} for each group",
        path.display(),
        saved.by.join(", "),
        saved.model.classes(),
        saved.pooled.method.key(),
        saved.group_method.key()
    ));
    printer.result(describe_order(order));
    explain(saved, printer);
    if let Some(names) = &saved.pooled.class_names {
        printer.result(format_args!("classes: {}", names.join(", ")));
    }
    Ok(())
}

fn describe_order(kept: bool) -> &'static str {
    if kept {
        "it keeps the ranking of every row, so no prediction changes"
    } else {
        "it does not promise to keep the ranking of a row"
    }
}

fn describe_data(data: &DataRef, options: &ReadOptions, printer: Printer) -> Result<()> {
    let contents = inspect(data.path(), options)?;
    let wanted = |set: &&SetInfo| data.split().is_none() || set.split.as_deref() == data.split();
    let sets: Vec<&SetInfo> = contents.sets.iter().filter(wanted).collect();
    if sets.is_empty() {
        // Reading gives the error that names what is missing.
        LoadedData::read(data, options.clone())?;
    }
    printer.result(format_args!(
        "{}: {} file with {} set(s) of scores",
        data.path().display(),
        contents.format,
        contents.sets.len()
    ));
    for array in &contents.arrays {
        printer.result(format_args!("  array {array}"));
    }
    let mut described = Vec::new();
    for set in sets {
        described.push(describe_set(data.path(), set, options, printer)?);
    }
    printer.json(&json!({
        "file": data.path().to_string_lossy(),
        "what": "data",
        "format": contents.format.to_string(),
        "arrays": contents.arrays,
        "sets": described,
    }));
    Ok(())
}

fn describe_set(
    path: &Path,
    set: &SetInfo,
    options: &ReadOptions,
    printer: Printer,
) -> Result<Value> {
    let mut data = DataRef::new(path);
    if let Some(split) = &set.split {
        data = data.with_split(split.clone());
    }
    let loaded = LoadedData::read(&data, options.clone())?;
    let scores = loaded.scores()?;
    let mut found = if loaded.has_labels() {
        RowChecks::of(&loaded.dataset()?).all()
    } else {
        diagnose::check_scores(&scores)
    };
    found.extend(ignored(loaded.ignored()));
    printer.refuse(path, &found)?;
    let mut warnings = texts(&found);
    if !loaded.has_labels() {
        warnings.push("there are no labels: enough for apply, not for fit or evaluate".to_owned());
    }
    let name = set.split.as_deref().unwrap_or("the only set");
    printer.result(format_args!(
        "{name}: {} of {} and {} classes, {}, {}",
        loaded.kind(),
        count(loaded.rows(), "row", "rows"),
        loaded.classes(),
        loaded.matrix().dtype(),
        if set.labels {
            "with labels"
        } else {
            "no labels"
        }
    ));
    warn(&warnings, printer);
    Ok(json!({
        "split": set.split,
        "kind": loaded.kind(),
        "n": loaded.rows(),
        "classes": loaded.classes(),
        "dtype": loaded.matrix().dtype(),
        "labels": set.labels,
        "class_names": loaded.class_names(),
        "warnings": warnings,
    }))
}

fn texts(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(Warning::to_string).collect()
}

fn warn(warnings: &[String], printer: Printer) {
    for warning in warnings {
        printer.result(format_args!("  warning: {warning}"));
    }
}

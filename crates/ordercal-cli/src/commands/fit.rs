//! `ordercal fit`: fits a model.

use std::time::Instant;

use anyhow::{Result, bail};
use ordercal::Method;
use ordercal::compare::Measures;
use ordercal::diagnose::{RowChecks, check_report};
use ordercal::metrics::MetricOptions;
use ordercal::select::{Effort, Ranked, search};
use ordercal::words::count;
use serde_json::{Map, Value, json};

use crate::args::{Common, FitArgs};
use crate::config;
use crate::exit::Exit;
use crate::input::{DataInput, at, ignored};
use crate::measure::evaluate_in_memory;
use crate::models::{Applied, Columns};
use crate::output::{check_distinct, check_ending};
use crate::printer::Printer;
use crate::verdict;
use ordercal_io::SavedModel;
use ordercal_report::UNCALIBRATED;

/// Before a fit of so many seconds, people are told how long it will take.
const WORTH_A_WORD: f64 = 5.0;

pub fn run(args: &FitArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let method = config::method(args, common)?;
    let how = config::search(args, common);
    check_ending(&args.output, "a model", ".safetensors")?;
    let printer = printer.beside(&args.output)?;
    let input = DataInput::resolve(&args.data, "calib")?
        .with_labels(&args.labels)
        .with_groups(args.groups.as_ref())
        .with_ids(&args.by);
    input.check_format(None)?;
    let has_folds = method.has_own_folds() || args.folds.is_some() || !args.by.is_empty();
    if args.groups.is_some() && !has_folds && how.effort == Effort::None {
        bail!(
            "--groups is about folds, and {} is fitted to all rows at once; leave it out, or ask for --folds or \
             --search",
            method.key()
        );
    }
    let config = args.config.as_deref();
    check_distinct(&args.output, input.paths().into_iter().chain(config))?;
    if !args.by.is_empty() {
        return super::fit_groups::run(args, common, &method, &input, printer);
    }
    let loaded = input.load()?;
    let data = loaded.dataset()?;
    let mut warnings = RowChecks::of(&data)
        .of_classes(loaded.class_names())
        .before_fit();
    warnings.extend(ignored(loaded.ignored()));
    printer.warn(input.path(), &warnings)?;
    let estimate = method.estimate(data.rows(), data.classes());
    if let Some(estimate) = estimate.filter(|estimate| estimate.seconds >= WORTH_A_WORD) {
        printer.remark(format_args!(
            "{} will take about {:.0} s and {:.1} GB beyond the data{}",
            method.key(),
            estimate.seconds,
            estimate.bytes / 1e9,
            if args.effort.is_none() {
                "; --effort quick takes a seventh of the time"
            } else {
                ""
            }
        ));
    }
    let start = Instant::now();
    let found = printer.watched(method.key(), |watch| search(&method, &data, &how, watch));
    let found = found.map_err(|e| at(input.path(), e))?;
    let seconds = start.elapsed().as_secs_f64();
    let (ranking, saved) = (found.ranking, SavedModel::new(found.method, found.fitted));
    let saved = saved
        .with_class_names(loaded.class_names().map(<[String]>::to_vec))
        .with_kind(loaded.kind())
        .with_data(data.fingerprint());
    if saved.method.key() != UNCALIBRATED {
        printer.warn(input.path(), &check_report(&saved.report))?;
    }
    saved.save(&args.output)?;

    let report = &saved.report;
    let mut result = json!({
        "method": saved.method.key(),
        "order_preserving": saved.model.order_preserving(),
        "n": data.examples(),
        "classes": data.classes(),
        "nll_before": report.nll_before,
        "nll_after": report.nll_after,
        "seconds": seconds,
        "report": report,
        "model": args.output.to_string_lossy(),
    });
    if let Some(estimate) = estimate {
        result["estimate"] = json!(estimate);
    }
    if !ranking.is_empty() {
        result["ranking"] = json!(ranking);
    }
    printer.json(&result);
    printer.remark(format_args!(
        "{} on {} of {} classes in {seconds:.2} s: NLL {:.4} before, {:.4} after",
        saved.method.key(),
        count(data.examples(), "row", "rows"),
        data.classes(),
        report.nll_before,
        report.nll_after
    ));
    for note in &report.notes {
        printer.remark(note);
    }
    if let Some(best) = ranking.first() {
        printer.remark(format_args!(
            "hyperparameters by held-out NLL:{}",
            candidates(&method, &ranking, &best.method)
        ));
    }
    // Nobody would see it otherwise.
    if printer.remarks() {
        let models = [(saved.method.key().to_owned(), Applied::One(&saved.model))];
        let measures = Measures {
            metrics: Vec::new(),
            options: MetricOptions::default(),
            bootstrap: None,
            intervals: true,
            keep_resamples: false,
        };
        let evaluations = evaluate_in_memory(&data, Columns::default(), &models, &measures)?;
        let (before, after) = (&evaluations[0], &evaluations[1]);
        let sentence = verdict::compared(before.gap, after.gap, None, after.changed, after.rows);
        printer.remark(format_args!("on these rows, {sentence}"));
    }
    printer.remark("(for an unbiased number, evaluate on rows that were not used for the fit)");
    printer.remark(format_args!("model written to {}", args.output.display()));
    Ok(Exit::Done)
}

/// A line for each candidate: its NLL and its settings. Of all settings the best shows those in which the
/// candidates and the method as given differ, and the others those in which they differ from the best.
fn candidates(given: &Method, ranking: &[Ranked], best: &Method) -> String {
    let settings = |method: &Method| match serde_json::to_value(method) {
        Ok(Value::Object(settings)) => settings,
        _ => Map::new(),
    };
    let (given, best_settings) = (settings(given), settings(best));
    let all: Vec<Map<String, Value>> = ranking.iter().map(|r| settings(&r.method)).collect();
    let searched = |name: &String| all.iter().any(|s| s.get(name) != given.get(name));
    let mut text = String::new();
    for (candidate, own) in ranking.iter().zip(&all) {
        let shown = own.iter().filter(|(name, value)| {
            searched(name)
                && (candidate.method == *best || best_settings.get(*name) != Some(*value))
        });
        let words: Vec<String> = shown
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        text.push_str(&format!(
            "\n   {}: {}, held-out NLL {:.4}",
            if candidate.method == *best {
                "chosen"
            } else {
                "next best"
            },
            words.join(", "),
            candidate.nll
        ));
    }
    text
}

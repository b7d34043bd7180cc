//! `ordercal fit`: learns a model and says what changed.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use ordercal::select::{Found, Search, search};
use ordercal::{Dataset, Method, Progress};
use serde_json::{Value, json};

use crate::args::{Common, FitArgs};
use crate::config;
use crate::exit::Exit;
use crate::input::{Source, at};
use crate::measure::{headline, measure_whole};
use crate::printer::Printer;
use crate::verdict;
use ordercal_io::SavedModel;

/// Runs the command.
pub fn run(args: &FitArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let method = config::method(args, common)?;
    let source = Source::resolve(&args.data, "calib")?;
    let loaded = source.load()?;
    let data = loaded.dataset()?;
    let start = Instant::now();
    let how = config::search(args, common);
    let found = fit(&method, &data, &how, printer).map_err(|e| at(source.path(), e))?;
    let seconds = start.elapsed().as_secs_f64();
    let (ranking, saved) = (found.ranking, SavedModel::new(found.method, found.fitted));
    let saved = saved.with_class_names(loaded.class_names().map(<[String]>::to_vec));
    saved.save(&args.output)?;

    let report = &saved.report;
    let mut result = json!({
        "method": saved.method.key(),
        "order_preserving": saved.model.order_preserving(),
        "n": data.rows(),
        "classes": data.classes(),
        "nll_before": report.nll_before,
        "nll_after": report.nll_after,
        "seconds": seconds,
        "report": report,
        "model": args.output.to_string_lossy(),
    });
    if !ranking.is_empty() {
        result["ranking"] = json!(ranking);
    }
    printer.json(&result);
    printer.remark(format_args!(
        "{} on {} rows of {} classes in {seconds:.2} s: NLL {:.4} before, {:.4} after",
        saved.method.key(),
        data.rows(),
        data.classes(),
        report.nll_before,
        report.nll_after
    ));
    for note in &report.notes {
        printer.remark(note);
    }
    if let [best, rest @ ..] = &ranking[..] {
        printer.remark(format_args!(
            "chosen, with a held-out NLL of {:.4}:",
            best.nll
        ));
        printer.remark(format_args!("   {}", settings(&best.method, &best.method)));
        for other in rest {
            let settings = settings(&other.method, &best.method);
            printer.remark(format_args!("   {:.4} with {settings}", other.nll));
        }
    }
    let models = [(saved.method.key().to_owned(), &saved.model)];
    let rows = measure_whole(&data, &models, &headline())?;
    let sentence = verdict::compared(
        rows[0].gap,
        rows[1].gap,
        None,
        rows[1].changed,
        rows[1].rows,
    );
    printer.remark(format_args!("on these rows, {sentence}"));
    printer.remark("(for an honest number, evaluate on rows that the fit has not seen)");
    printer.remark(format_args!("model written to {}", args.output.display()));
    Ok(Exit::Done)
}

/// The hyperparameters that a search chooses: those that `--search` can change.
fn settings(method: &Method, like: &Method) -> String {
    let table = |method: &Method| match serde_json::to_value(method) {
        Ok(Value::Object(table)) => table,
        _ => serde_json::Map::new(),
    };
    let (ours, best) = (table(method), table(like));
    let searched = ["hidden", "lambda", "mu", "smoothness"];
    let shown = ours.iter().filter(|(name, value)| {
        searched.contains(&name.as_str()) && (method == like || best.get(*name) != Some(value))
    });
    let words: Vec<String> = shown
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    words.join(", ")
}

/// Fits behind a progress bar.
pub fn fit(
    method: &Method,
    data: &Dataset<'_>,
    how: &Search,
    printer: Printer,
) -> ordercal::Result<Found> {
    let bar = printer.progress(0, method.key());
    let watch = |progress: &Progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.iteration as u64);
        bar.set_message(format!("loss {:.4}", progress.loss));
        ControlFlow::Continue(())
    };
    let found = search(method, data, how, &watch);
    bar.finish_and_clear();
    found
}

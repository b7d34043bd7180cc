//! `ordercal fit`: learns a model and says what changed.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use ordercal::{Dataset, Fitted, Method, Progress};
use serde_json::json;

use crate::args::{Common, FitArgs};
use crate::config;
use crate::exit::Exit;
use crate::input::{Source, at};
use crate::measure::{Plan, measure_whole};
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
    let fitted = fit(&method, &data, printer).map_err(|e| at(source.path(), e))?;
    let seconds = start.elapsed().as_secs_f64();
    let saved = SavedModel::new(method, fitted)
        .with_class_names(loaded.class_names().map(<[String]>::to_vec));
    saved.save(&args.output)?;

    let report = &saved.report;
    printer.json(&json!({
        "method": saved.method.key(),
        "order_preserving": saved.model.order_preserving(),
        "n": data.rows(),
        "classes": data.classes(),
        "nll_before": report.nll_before,
        "nll_after": report.nll_after,
        "seconds": seconds,
        "report": report,
        "model": args.output.to_string_lossy(),
    }));
    printer.remark(format_args!(
        "{} on {} rows of {} classes in {seconds:.2} s: NLL {:.4} before, {:.4} after",
        saved.method.key(),
        data.rows(),
        data.classes(),
        report.nll_before,
        report.nll_after
    ));
    let models = [(saved.method.key().to_owned(), &saved.model)];
    let rows = measure_whole(&data, &models, &Plan::headline())?;
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

/// Fits behind a progress bar.
pub fn fit(method: &Method, data: &Dataset<'_>, printer: Printer) -> ordercal::Result<Fitted> {
    let bar = printer.progress(0, method.key());
    let watch = |progress: &Progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.iteration as u64);
        bar.set_message(format!("loss {:.4}", progress.loss));
        ControlFlow::Continue(())
    };
    let fitted = method.fit_watched(data, &watch);
    bar.finish_and_clear();
    fitted
}

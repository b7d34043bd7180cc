//! `ordercal compare`: methods on datasets, as tables, figures and a report.

pub mod bundle;
pub mod figures;
pub mod fit;
pub mod outputs;
pub mod settings;
pub mod stored;

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ordercal_report::{Comparison, DatasetResult, summary, to_json};
use serde_json::Value;

use crate::args::{Common, CompareArgs};
use crate::exit::Exit;
use crate::printer::Printer;
use bundle::{Bundle, Splits};
use settings::ComparisonSettings;
use stored::{ResultStore, StoredResult};

pub fn run(args: &CompareArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let settings = ComparisonSettings::new(args, common)?;
    for bundle in &settings.bundles {
        bundle.warn(printer)?;
    }
    let mut store = match &args.compared.out {
        Some(folder) => Some(ResultStore::open(folder, args.resume)?),
        None => None,
    };
    let mut datasets = Vec::new();
    let mut results = Vec::new();
    let bar = printer.progress(
        (settings.bundles.len() * settings.methods.len()) as u64,
        "compare",
    );
    for bundle in &settings.bundles {
        let done = compare_on(&settings, bundle, store.as_mut(), &bar)?;
        datasets.push(dataset_of(bundle, &done));
        results.push(done);
    }
    bar.finish_and_clear();
    let comparison = Comparison::new(settings.metrics.clone(), datasets)?;
    if let (Some(folder), Some(store)) = (&args.compared.out, &store) {
        let about = settings.about();
        let drawings = figures::drawings(&store.models(), &about, &results)?;
        let before_after = figures::before_after(&comparison, &results)?;
        outputs::write(folder, &about, &comparison, before_after, &drawings)?;
    }
    show(&comparison, args.compared.out.as_deref(), printer);
    Ok(Exit::Done)
}

/// Fits and measures every method on a bundle, or takes its stored result.
fn compare_on(
    settings: &ComparisonSettings,
    bundle: &Bundle,
    mut store: Option<&mut ResultStore>,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<StoredResult>> {
    let mut results = Vec::new();
    // Read on first use: a resumed run with nothing left to do reads no rows.
    let mut splits: Option<Splits> = None;
    for method in &settings.methods {
        bar.set_message(format!("{} {}", bundle.name, method.key()));
        let key = settings.result_key(bundle, method)?;
        let stored = match &store {
            Some(store) => store.find(&bundle.file_name, method.key(), &key)?,
            None => None,
        };
        let result = match stored {
            Some(result) => result,
            None => {
                let splits = match &mut splits {
                    Some(splits) => splits,
                    empty => empty.insert(bundle.read()?),
                };
                let start = Instant::now();
                let found = fit::fit(&settings.search, &splits.calib, method, bar)?;
                let seconds = start.elapsed().as_secs_f64();
                let measured = fit::measure(&found, &splits.test, &settings.measures)?;
                let mut result = StoredResult::new(key, &found, &measured);
                if let Some(store) = store.as_deref_mut() {
                    let model = fit::saved(&found, &splits.calib, bundle.rows);
                    store.keep(&bundle.file_name, &result, model.as_ref(), seconds)?;
                }
                result.seconds = Some(seconds);
                result
            }
        };
        results.push(result);
        bar.inc(1);
    }
    Ok(results)
}

fn dataset_of(bundle: &Bundle, results: &[StoredResult]) -> DatasetResult {
    DatasetResult {
        name: bundle.name.clone(),
        n_calib: bundle.n_calib,
        n_test: bundle.n_test,
        classes: bundle.classes,
        methods: results.iter().map(StoredResult::result).collect(),
    }
}

/// Prints the tables and the verdict, or the JSON object.
fn show(comparison: &Comparison, folder: Option<&Path>, printer: Printer) {
    let value: Value = to_json(comparison);
    printer.json(&value);
    printer.result(summary(comparison));
    if let Some(folder) = folder {
        let report = folder.join("report.html");
        printer.remark(format_args!("report: {}", report.display()));
    }
}

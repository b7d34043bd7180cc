//! `ordercal compare`: bundles × methods, as tables, figures and a report.

pub mod bundle;
pub mod figures;
pub mod fit;
pub mod outputs;
pub mod part;
pub mod plan;

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ordercal_report::{Comparison, DatasetResult, summary, to_json};
use serde_json::Value;

use crate::args::{Common, CompareArgs};
use crate::exit::Exit;
use crate::printer::Printer;
use bundle::{Bundle, Splits};
use part::{Part, Store};
use plan::Plan;

/// Runs the command.
pub fn run(args: &CompareArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let plan = Plan::new(args, common)?;
    let mut store = match &args.out {
        Some(folder) => Some(Store::open(folder, args.resume)?),
        None => None,
    };
    let mut datasets = Vec::new();
    let mut parts = Vec::new();
    let bar = printer.progress((plan.bundles.len() * plan.methods.len()) as u64, "compare");
    for bundle in &plan.bundles {
        let done = measure_bundle(&plan, bundle, store.as_mut(), &bar)?;
        datasets.push(dataset_of(bundle, &done));
        parts.push(done);
    }
    bar.finish_and_clear();
    let comparison = Comparison::new(plan.metrics.clone(), datasets)?;
    if let (Some(folder), Some(store)) = (&args.out, &store) {
        let drawings = figures::drawings(&store.models(), &plan.about(), &parts)?;
        outputs::write(folder, &plan.about(), &comparison, &drawings)?;
    }
    show(&comparison, args.out.as_deref(), printer);
    Ok(Exit::Done)
}

fn measure_bundle(
    plan: &Plan,
    bundle: &Bundle,
    mut store: Option<&mut Store>,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    // Read when something is missing; a run that has nothing left to do reads no rows.
    let mut splits: Option<Splits> = None;
    for method in &plan.methods {
        bar.set_message(format!("{} {}", bundle.name, method.key()));
        let key = plan.part_key(bundle, method)?;
        let stored = match &store {
            Some(store) => store.find(&bundle.file_name, method.key(), &key)?,
            None => None,
        };
        let part = match stored {
            Some(part) => part,
            None => {
                let splits = match &mut splits {
                    Some(splits) => splits,
                    empty => empty.insert(bundle.read()?),
                };
                let start = Instant::now();
                let found = fit::fit(plan, &splits.calib, method, bar)?;
                let seconds = start.elapsed().as_secs_f64();
                let mut part = part::measure(&plan.measured, &splits.test, &found, key)?;
                if let Some(store) = store.as_deref_mut() {
                    let model = fit::saved(&found, &splits.calib);
                    store.keep(&bundle.file_name, &part, model.as_ref(), seconds)?;
                }
                part.seconds = Some(seconds);
                part
            }
        };
        parts.push(part);
        bar.inc(1);
    }
    Ok(parts)
}

fn dataset_of(bundle: &Bundle, parts: &[Part]) -> DatasetResult {
    DatasetResult {
        name: bundle.name.clone(),
        n_calib: bundle.n_calib,
        n_test: bundle.n_test,
        classes: bundle.classes,
        methods: parts.iter().map(Part::result).collect(),
    }
}

/// Prints the verdict and the tables, or the JSON object.
fn show(comparison: &Comparison, folder: Option<&Path>, printer: Printer) {
    let value: Value = to_json(comparison);
    printer.json(&value);
    printer.result(summary(comparison));
    if let Some(folder) = folder {
        let report = folder.join("report.html");
        printer.remark(format_args!("the report is {}", report.display()));
    }
}

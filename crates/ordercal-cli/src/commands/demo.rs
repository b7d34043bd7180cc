//! `ordercal demo`: calibrates, compares and reports on scores that come with this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::Result;
use ordercal::Method;
use ordercal::compare::Measures;
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions};
use ordercal::select::{Search, search};
use ordercal_io::{DataRef, load, write_atomically};
use ordercal_report::{Comparison, DataSource, DatasetResult, UNCALIBRATED};
use serde_json::{Value, json};

use super::compare::bundle::sha256;
use super::compare::figures::{before_after, drawings};
use super::compare::fit::{measure, saved};
use super::compare::outputs::{self, About};
use super::compare::stored::{StoredResult, model_path};
use crate::args::{Common, DemoArgs};
use crate::config::with_seed;
use crate::exit::Exit;
use crate::input::at;
use crate::measure::{Evaluation, tables};
use crate::printer::Printer;
use crate::verdict;

/// A bundle with the splits `calib` and `test`.
struct DemoBundle {
    name: &'static str,
    about: &'static str,
    bytes: &'static [u8],
}

const BUNDLES: [DemoBundle; 2] = [
    DemoBundle {
        name: "fashion_mnist",
        about: "Fashion-MNIST, 10 kinds of clothes",
        bytes: include_bytes!("../../demo/fashion_mnist.npz"),
    },
    DemoBundle {
        name: "letters",
        about: "letter recognition, 26 letters",
        bytes: include_bytes!("../../demo/letters.npz"),
    },
];

/// Methods that keep every prediction.
const METHODS: [&str; 5] = ["ts", "diag", "oi", "op", "auto"];

/// The number of bootstrap resamples.
const RESAMPLES: usize = 200;

/// The metrics of the tables.
const SHOWN: [Metric; 5] = [
    Metric::Accuracy,
    Metric::Nll,
    Metric::Brier,
    Metric::Ece,
    Metric::ClasswiseEce,
];

pub fn run(args: &DemoArgs, common: &Common, printer: Printer) -> Result<Exit> {
    match &args.out {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
            show(folder, common, printer)?;
            printer.remark(format_args!(
                "\ndata, models, results.json and report.html are in {}",
                folder.display()
            ));
        }
        None => {
            let folder = std::env::temp_dir().join(format!("ordercal-demo-{}", std::process::id()));
            fs::create_dir_all(&folder).map_err(|e| at(&folder, e))?;
            *TEMPORARY.lock().unwrap_or_else(|e| e.into_inner()) = Some(folder.clone());
            let shown = show(&folder, common, printer);
            remove_temporary_folder();
            shown?;
        }
    }
    Ok(Exit::Done)
}

/// The folder to remove if Ctrl-C ends the process.
static TEMPORARY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes the temporary folder of a running demo.
pub fn remove_temporary_folder() {
    let folder = TEMPORARY.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some(folder) = folder {
        let _ = fs::remove_dir_all(folder);
    }
}

fn show(folder: &Path, common: &Common, printer: Printer) -> Result<()> {
    let mut values = Vec::new();
    let mut evaluations = Vec::new();
    let mut compared = Vec::new();
    for bundle in &BUNDLES {
        let done = calibrate(bundle, folder, common, printer)?;
        values.push(done.value);
        evaluations.push(done.evaluations);
        compared.push((done.dataset, done.results));
    }
    write_report(folder, common, compared)?;
    let results = json!({ "datasets": values });
    let text = serde_json::to_string_pretty(&results)?;
    write_atomically(&folder.join("results.json"), text.as_bytes())?;
    printer.json(&results);
    explain(&evaluations, printer);
    Ok(())
}

/// The results on one bundle, in the forms that the JSON, the text and the report need.
struct Calibrated {
    value: Value,
    evaluations: Vec<Evaluation>,
    dataset: DatasetResult,
    results: Vec<StoredResult>,
}

/// Fits every method on the calibration rows of a bundle and measures it on the test rows.
fn calibrate(
    bundle: &DemoBundle,
    folder: &Path,
    common: &Common,
    printer: Printer,
) -> Result<Calibrated> {
    let path = folder.join(format!("{}.npz", bundle.name));
    write_atomically(&path, bundle.bytes)?;
    let calib = load(&DataRef::new(&path).with_split("calib"), None)?;
    let test = load(&DataRef::new(&path).with_split("test"), None)?;
    let calib_data = calib.dataset()?;
    let measures = Measures {
        metrics: SHOWN.to_vec(),
        options: MetricOptions::default(),
        bootstrap: Some(BootstrapOptions::default().with_resamples(RESAMPLES)),
        intervals: true,
        keep_resamples: true,
    };
    let (mut evaluations, mut results, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for key in std::iter::once(UNCALIBRATED).chain(METHODS) {
        let method = with_seed(Method::from_key(key)?, common)?;
        let start = Instant::now();
        let found = printer.watched(key, |watch| {
            search(&method, &calib_data, &Search::default(), watch)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let measured = measure(&found, &test, &measures)?;
        let evaluation = Evaluation::new(key, test.rows(), &measured);
        let mut row = evaluation.to_json(&SHOWN);
        if let Some(saved) = saved(&found, &calib, calib_data.fingerprint()) {
            saved.save(&model_path(folder, bundle.name, key))?;
            row["order_preserving"] = json!(saved.model.order_preserving());
            row["fit_seconds"] = json!(seconds);
        }
        rows.push(row);
        evaluations.push(evaluation);
        results.push(StoredResult::new(Value::Null, &found, &measured));
    }
    printer.result(format_args!(
        "\n{}: {}\nfitted on {} rows, measured on {} others",
        bundle.name,
        bundle.about,
        calib.rows(),
        test.rows()
    ));
    let without_intervals = |evaluation: &Evaluation| Evaluation {
        intervals: Default::default(),
        ..evaluation.clone()
    };
    let plain: Vec<Evaluation> = evaluations.iter().map(without_intervals).collect();
    printer.result(tables(&plain, &SHOWN));
    let dataset = DatasetResult {
        name: bundle.name.to_owned(),
        n_calib: calib.rows(),
        n_test: test.rows(),
        classes: test.classes(),
        methods: results.iter().map(StoredResult::result).collect(),
    };
    let value = json!({
        "name": dataset.name,
        "n_calib": dataset.n_calib,
        "n_test": dataset.n_test,
        "classes": dataset.classes,
        "rows": rows,
    });
    Ok(Calibrated {
        value,
        evaluations,
        dataset,
        results,
    })
}

/// The report of both bundles.
fn write_report(
    folder: &Path,
    common: &Common,
    compared: Vec<(DatasetResult, Vec<StoredResult>)>,
) -> Result<()> {
    let seed = common.seed.unwrap_or(BootstrapOptions::default().seed);
    let source = |bundle: &DemoBundle| -> Result<DataSource> {
        Ok(DataSource {
            name: bundle.name.to_owned(),
            file: format!("{}.npz, part of the program: {}", bundle.name, bundle.about),
            sha256: sha256(bundle.bytes)?,
        })
    };
    let run = [
        ("command", format!("ordercal demo --seed {seed}")),
        ("version", format!("ordercal {}", env!("CARGO_PKG_VERSION"))),
        ("resamples", RESAMPLES.to_string()),
    ];
    let about = About {
        title: "The ordercal demo: two classifiers, calibrated".to_owned(),
        sources: BUNDLES.iter().map(source).collect::<Result<_>>()?,
        file_names: BUNDLES.iter().map(|b| b.name.to_owned()).collect(),
        class_names: BUNDLES.iter().map(|_| None).collect(),
        run: run.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    let (datasets, results): (Vec<_>, Vec<_>) = compared.into_iter().unzip();
    let comparison = Comparison::new(SHOWN.to_vec(), datasets)?;
    let drawings = drawings(folder, &about, &results)?;
    let before_after = before_after(&comparison, &results)?;
    outputs::write_report(folder, &about, &comparison, before_after, &drawings)
}

/// Five lines about the results.
fn explain(datasets: &[Vec<Evaluation>], printer: Printer) {
    printer.remark("\nWhat the tables show:");
    for (place, (bundle, rows)) in BUNDLES.iter().zip(datasets).enumerate() {
        let by_nll = |a: &&Evaluation, b: &&Evaluation| {
            a.values[&Metric::Nll].total_cmp(&b.values[&Metric::Nll])
        };
        let Some(best) = rows[1..].iter().min_by(by_nll) else {
            continue;
        };
        let interval = best.intervals.get(&Metric::Ece).copied();
        let sentence = verdict::compared(rows[0].gap, best.gap, interval, best.changed, best.rows);
        printer.remark(format_args!(
            "{}. {}, by {}: {sentence}.",
            place + 1,
            bundle.name,
            best.name
        ));
    }
    printer.remark("3. Accuracy is the same in every column: the ranking of each row is kept.");
    printer.remark("4. NLL and Brier score fall, too: the probabilities carry more information.");
    printer.remark("5. All numbers are from rows that were not used for any fit.");
}

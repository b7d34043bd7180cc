//! `ordercal demo`: the whole job on scores that are inside this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use ordercal::compare::Measures;
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions};
use ordercal::select::Search;
use ordercal::{Method, Model};
use ordercal_io::{DataRef, load, write_atomically};
use ordercal_report::{Comparison, DataSource, DatasetResult, UNCALIBRATED};
use serde_json::{Value, json};

use super::compare::bundle::sha256;
use super::compare::figures::drawings;
use super::compare::fit::saved;
use super::compare::outputs::{self, About};
use super::compare::part::{self, Part};
use super::fit::fit;
use crate::args::{Common, DemoArgs};
use crate::config::with_seed;
use crate::exit::Exit;
use crate::input::at;
use crate::measure::{Measured, measure_whole, tables};
use crate::printer::Printer;
use crate::verdict;

/// A bundle with the splits `calib` and `test`.
struct Bundle {
    name: &'static str,
    about: &'static str,
    bytes: &'static [u8],
}

const BUNDLES: [Bundle; 2] = [
    Bundle {
        name: "fashion_mnist",
        about: "Fashion-MNIST, 10 kinds of clothes",
        bytes: include_bytes!("../../demo/fashion_mnist.npz"),
    },
    Bundle {
        name: "letters",
        about: "letter recognition, 26 letters",
        bytes: include_bytes!("../../demo/letters.npz"),
    },
];

/// Those whose models keep every prediction.
const METHODS: [&str; 5] = ["ts", "diag", "oi", "op", "auto"];

const SHOWN: [Metric; 5] = [
    Metric::Accuracy,
    Metric::Nll,
    Metric::Brier,
    Metric::Ece,
    Metric::ClasswiseEce,
];

/// Runs the command.
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
            let folder = Scratch::new()?;
            show(&folder.0, common, printer)?;
        }
    }
    Ok(Exit::Done)
}

/// A folder of our own that goes when we do.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let name = format!("ordercal-demo-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).map_err(|e| at(&folder, e))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn show(folder: &Path, common: &Common, printer: Printer) -> Result<()> {
    let mut datasets = Vec::new();
    let mut best = Vec::new();
    let mut calibrated = Vec::new();
    for bundle in &BUNDLES {
        let done = calibrate(bundle, folder, common, printer)?;
        datasets.push(done.value);
        best.push(done.rows);
        calibrated.push((done.dataset, done.parts));
    }
    write_report(folder, common, calibrated)?;
    let results = json!({ "datasets": datasets });
    let text = serde_json::to_string_pretty(&results)?;
    write_atomically(&folder.join("results.json"), text.as_bytes())?;
    printer.json(&results);
    explain(&best, printer);
    Ok(())
}

/// What was found on a bundle, as the results, the words and the report want it.
struct Calibrated {
    value: Value,
    rows: Vec<Measured>,
    dataset: DatasetResult,
    parts: Vec<Part>,
}

/// Fits every method on the calibration rows of a bundle and measures all of them on the test rows.
fn calibrate(
    bundle: &Bundle,
    folder: &Path,
    common: &Common,
    printer: Printer,
) -> Result<Calibrated> {
    let path = folder.join(format!("{}.npz", bundle.name));
    write_atomically(&path, bundle.bytes)?;
    let calib = load(&DataRef::new(&path).with_split("calib"), None)?;
    let test = load(&DataRef::new(&path).with_split("test"), None)?;
    let (calib_data, test_data) = (calib.dataset()?, test.dataset()?);
    let plan = Measures {
        metrics: SHOWN.to_vec(),
        options: MetricOptions::default(),
        bootstrap: Some(BootstrapOptions::default().with_resamples(200)),
    };
    let mut models: Vec<(String, Model)> = Vec::new();
    let mut seconds = Vec::new();
    let mut parts = Vec::new();
    for key in std::iter::once(UNCALIBRATED).chain(METHODS) {
        let method = with_seed(Method::from_key(key)?, common)?;
        let start = Instant::now();
        let found = fit(&method, &calib_data, &Search::default(), printer)?;
        let took = start.elapsed().as_secs_f64();
        parts.push(part::measure(&plan, &test, &found, Value::Null)?);
        if let Some(saved) = saved(&found, &calib) {
            saved.save(&part::model_path(folder, bundle.name, key))?;
            models.push((key.to_owned(), saved.model));
            seconds.push(took);
        }
    }
    let borrowed: Vec<(String, &Model)> = models.iter().map(|(k, m)| (k.clone(), m)).collect();
    let rows = measure_whole(&test_data, &borrowed, &plan)?;
    let plain: Vec<Measured> = rows
        .iter()
        .map(|row| Measured {
            intervals: Default::default(),
            ..row.clone()
        })
        .collect();
    printer.result(format_args!(
        "\n{}: {}\nfitted on {} rows, measured on {} others",
        bundle.name,
        bundle.about,
        calib_data.rows(),
        test_data.rows()
    ));
    printer.result(tables(&plain, &SHOWN));
    let methods = rows.iter().enumerate().map(|(place, row)| {
        let mut value = row.to_json(&SHOWN);
        if place > 0 {
            value["order_preserving"] = json!(models[place - 1].1.order_preserving());
            value["fit_seconds"] = json!(seconds[place - 1]);
        }
        value
    });
    let value = json!({
        "name": bundle.name,
        "n_calib": calib_data.rows(),
        "n_test": test_data.rows(),
        "classes": test_data.classes(),
        "rows": methods.collect::<Vec<_>>(),
    });
    let dataset = DatasetResult {
        name: bundle.name.to_owned(),
        n_calib: calib_data.rows(),
        n_test: test_data.rows(),
        classes: test_data.classes(),
        methods: parts.iter().map(Part::result).collect(),
    };
    Ok(Calibrated {
        value,
        rows,
        dataset,
        parts,
    })
}

/// The report of both bundles.
fn write_report(
    folder: &Path,
    common: &Common,
    calibrated: Vec<(DatasetResult, Vec<Part>)>,
) -> Result<()> {
    let seed = common.seed.unwrap_or(BootstrapOptions::default().seed);
    let source = |bundle: &Bundle| -> Result<DataSource> {
        Ok(DataSource {
            name: bundle.name.to_owned(),
            file: format!("{}.npz, inside the program: {}", bundle.name, bundle.about),
            sha256: sha256(bundle.bytes)?,
        })
    };
    let run = [
        ("command", format!("ordercal demo --seed {seed}")),
        ("version", format!("ordercal {}", env!("CARGO_PKG_VERSION"))),
        ("resamples", "200".to_owned()),
    ];
    let about = About {
        title: "The ordercal demo: two classifiers, calibrated".to_owned(),
        sources: BUNDLES.iter().map(source).collect::<Result<_>>()?,
        file_names: BUNDLES.iter().map(|b| b.name.to_owned()).collect(),
        class_names: BUNDLES.iter().map(|_| None).collect(),
        run: run.into_iter().map(|(n, v)| (n.to_owned(), v)).collect(),
    };
    let (datasets, parts): (Vec<_>, Vec<_>) = calibrated.into_iter().unzip();
    let comparison = Comparison::new(SHOWN.to_vec(), datasets)?;
    let drawings = drawings(folder, &about, &parts)?;
    outputs::write_report(folder, &about, &comparison, &drawings)
}

/// Five lines about what was seen.
fn explain(datasets: &[Vec<Measured>], printer: Printer) {
    printer.remark("\nWhat was seen:");
    for (place, (bundle, rows)) in BUNDLES.iter().zip(datasets).enumerate() {
        let by_nll = |a: &&Measured, b: &&Measured| {
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
    printer.remark("4. NLL and Brier fall, too: the probabilities carry more information.");
    printer.remark("5. All numbers are from rows that no fit has seen.");
}

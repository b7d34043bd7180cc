//! `ordercal curve`: what more calibration rows, or a stronger penalty, do to a method.

mod output;

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use ordercal::compare::predictions;
use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::{Dataset, Method, Rng, ScoreKind};
use serde_json::json;

use super::compare::bundle::Bundle;
use super::compare::plan::{methods_of, metrics_of};
use crate::args::{Common, CurveArgs, Over};
use crate::exit::Exit;
use crate::input::at;
use crate::printer::Printer;

/// The shares of the calibration rows, in tenths.
const TENTHS: std::ops::RangeInclusive<usize> = 1..=10;
/// The penalties: on both sides as far as anything changes.
const LAMBDAS: [f64; 13] = [
    1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8,
];
const SWEPT_BY_SIZE: [&str; 6] = ["ts", "diag", "oi", "op", "ms-odir", "dir-odir"];
const SWEPT_BY_LAMBDA: [&str; 2] = ["ms-odir", "dir-odir"];
const SEEDS: u64 = 3;
const SEED: u64 = 1357;

/// One fit.
pub struct Point {
    /// The method's key.
    pub method: String,
    /// Along the sweep: the share of the rows, or the penalty.
    pub x: f64,
    /// Calibration rows.
    pub rows: usize,
    /// What drew them, if anything did.
    pub seed: Option<u64>,
    /// The metrics on the test rows.
    pub metrics: BTreeMap<Metric, f64>,
}

/// All fits of a sweep.
pub struct Sweep {
    /// What the bundle is called.
    pub name: String,
    /// What was swept.
    pub over: Over,
    /// All calibration rows.
    pub n_calib: usize,
    /// Test rows.
    pub n_test: usize,
    /// K.
    pub classes: usize,
    /// The metrics, in order.
    pub metrics: Vec<Metric>,
    /// The fits; those of a method are together and in order.
    pub points: Vec<Point>,
}

/// Runs the command.
pub fn run(args: &CurveArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let metrics = metrics_of(Some(&args.metrics))?;
    let keys: Vec<String> = match (&args.methods, args.over) {
        (Some(keys), _) => keys.clone(),
        (None, Over::CalibSize) => SWEPT_BY_SIZE.map(str::to_owned).to_vec(),
        (None, Over::OdirLambda) => SWEPT_BY_LAMBDA.map(str::to_owned).to_vec(),
    };
    let methods = methods_of(Some(&keys), common)?;
    if args.over == Over::OdirLambda {
        if args.seeds.is_some() {
            bail!("--seeds does not apply to odir-lambda: nothing in it is drawn");
        }
        for key in &keys {
            if !SWEPT_BY_LAMBDA.contains(&key.trim()) {
                bail!(
                    "--methods: {key} has no such penalty; odir-lambda is about ms-odir and dir-odir"
                );
            }
        }
    }
    let bundle = Bundle::check_one(&args.bundle, args.kind.map(ScoreKind::from))?;
    let mut sweep = Sweep {
        name: bundle.name.clone(),
        over: args.over,
        n_calib: bundle.n_calib,
        n_test: bundle.n_test,
        classes: bundle.classes,
        metrics,
        points: Vec::new(),
    };
    let splits = bundle.read()?;
    let (calib, test) = (splits.calib.dataset()?, splits.test.dataset()?);
    let bar = printer.progress(0, "curve");
    let swept = match args.over {
        Over::CalibSize => {
            let first = common.seed.unwrap_or(SEED);
            let count = args.seeds.map_or(SEEDS, |n| n.get());
            let seeds: Vec<u64> = (0..count).map(|i| first.wrapping_add(i)).collect();
            by_size(&mut sweep, &methods, &seeds, (&calib, &test), &bar)
        }
        Over::OdirLambda => by_lambda(&mut sweep, &methods, (&calib, &test), &bar),
    };
    bar.finish_and_clear();
    swept.map_err(|e| at(splits.calib.path(), e))?;
    if let Some(folder) = &args.out {
        output::write(folder, &sweep)?;
    }
    printer.json(&output::json(&sweep));
    printer.result(output::tables(&sweep));
    if let Some(folder) = &args.out {
        printer.remark(format_args!("data and figure are in {}", folder.display()));
    }
    Ok(Exit::Done)
}

/// Every method on growing parts of the rows. A seed's parts lie inside each other, so that what is seen
/// along a curve is more rows and not other rows.
fn by_size(
    sweep: &mut Sweep,
    methods: &[Method],
    seeds: &[u64],
    (calib, test): (&Dataset<'_>, &Dataset<'_>),
    bar: &ProgressBar,
) -> Result<()> {
    bar.set_length((methods.len() * TENTHS.count() * seeds.len()) as u64);
    let orders: Vec<Vec<usize>> = seeds
        .iter()
        .map(|&seed| {
            let mut order: Vec<usize> = (0..calib.rows()).collect();
            Rng::new(seed).shuffle(&mut order);
            order
        })
        .collect();
    for method in methods {
        for tenth in TENTHS {
            for (&seed, order) in seeds.iter().zip(&orders) {
                bar.set_message(format!("{} {}%", method.key(), 10 * tenth));
                let rows = (calib.rows() * tenth).div_ceil(10);
                let part = calib.select(&order[..rows]);
                let metrics = fit_and_measure(method, &part, test, &sweep.metrics)?;
                sweep.points.push(Point {
                    method: method.key().to_owned(),
                    x: tenth as f64 / 10.0,
                    rows,
                    seed: Some(seed),
                    metrics,
                });
                bar.inc(1);
            }
        }
    }
    Ok(())
}

fn by_lambda(
    sweep: &mut Sweep,
    methods: &[Method],
    (calib, test): (&Dataset<'_>, &Dataset<'_>),
    bar: &ProgressBar,
) -> Result<()> {
    bar.set_length((methods.len() * LAMBDAS.len()) as u64);
    for method in methods {
        for lambda in LAMBDAS {
            bar.set_message(format!("{} {lambda:e}", method.key()));
            let method = with_lambda(method, lambda)?;
            let metrics = fit_and_measure(&method, calib, test, &sweep.metrics)?;
            sweep.points.push(Point {
                method: method.key().to_owned(),
                x: lambda,
                rows: calib.rows(),
                seed: None,
                metrics,
            });
            bar.inc(1);
        }
    }
    Ok(())
}

/// The method with another penalty; what is not calibrated has none and stays a level line.
fn with_lambda(method: &Method, lambda: f64) -> Result<Method> {
    let mut table = serde_json::to_value(method)?;
    if table.get("lambda").is_some() {
        table["lambda"] = json!(lambda);
    }
    Ok(serde_json::from_value(table)?)
}

fn fit_and_measure(
    method: &Method,
    calib: &Dataset<'_>,
    test: &Dataset<'_>,
    metrics: &[Metric],
) -> Result<BTreeMap<Metric, f64>> {
    let options = MetricOptions::default();
    if matches!(method, Method::Uncalibrated(_)) {
        return Ok(evaluate(&Predictions::from(test), metrics, &options)?);
    }
    let named = |e| anyhow!("{}: {e}", method.key());
    let fitted = method.fit(calib).map_err(named)?;
    let probs = fitted
        .model
        .apply::<f64>(test.scores(), ScoreKind::Probs)
        .map_err(named)?;
    Ok(evaluate(
        &predictions(probs.view(), test)?,
        metrics,
        &options,
    )?)
}

//! `ordercal curve`: metrics against the number of calibration rows, or against a penalty.

mod output;

use anyhow::{Result, bail};
use ordercal::Unwatched;
use ordercal::curve::{CurveAxis, CurvePoint, plan};
use ordercal::metrics::Metric;

use super::compare::bundle::Bundle;
use super::compare::settings::{methods_of, metrics_of};
use crate::args::{Common, CurveArgs};
use crate::exit::Exit;
use crate::input::at;
use crate::printer::Printer;

/// The number of seeds of `calib-size`, and the first of them.
const SEEDS: u64 = 3;
const FIRST_SEED: u64 = 1357;

/// The metrics, unless others are asked for.
pub const METRICS: [Metric; 3] = [Metric::Accuracy, Metric::Nll, Metric::Ece];

/// Each of them is ten fits of each method.
const MOST_SEEDS: u64 = 10_000;

/// All points of a curve, with what they are about.
pub struct CurveResult {
    /// The name of the bundle.
    pub name: String,
    /// What varies.
    pub axis: CurveAxis,
    /// The number of calibration rows.
    pub n_calib: usize,
    /// The number of test rows.
    pub n_test: usize,
    pub classes: usize,
    /// The metrics, in order.
    pub metrics: Vec<Metric>,
    /// The points; those of a method are consecutive and in order.
    pub points: Vec<CurvePoint>,
}

pub fn run(args: &CurveArgs, common: &Common, printer: Printer) -> Result<Exit> {
    let axis = args.over;
    let metrics = metrics_of(&args.compared, &METRICS)?;
    let methods = methods_of(&args.compared, axis.default_methods(), common)?;
    if axis == CurveAxis::OdirLambda && args.seeds.is_some() {
        bail!("--seeds does not apply to odir-lambda: it uses all rows");
    }
    let first = common.seed.unwrap_or(FIRST_SEED);
    let count = args.seeds.map_or(SEEDS, |n| n.get());
    if count > MOST_SEEDS {
        bail!("--seeds {count} would take too long: at most {MOST_SEEDS} are drawn");
    }
    let seeds: Vec<u64> = (0..count).map(|i| first.wrapping_add(i)).collect();
    // Planned before the files are read, so that a wrong method is refused at once.
    plan(axis, &methods, 0, &seeds)?;
    let files = std::slice::from_ref(&args.bundle);
    let bundle = Bundle::check_all(files, &args.compared.source)?.remove(0);
    bundle.warn(printer)?;
    let fits = plan(axis, &methods, bundle.n_calib, &seeds)?;
    let splits = bundle.read()?;
    let (calib, test) = (splits.calib.dataset()?, splits.test.dataset()?);
    let bar = printer.progress(fits.len() as u64, "curve");
    let mut points = Vec::new();
    for fit in fits {
        let key = fit.method.key();
        bar.set_message(match axis {
            CurveAxis::OdirLambda => format!("{key} {:e}", fit.x),
            CurveAxis::CalibSize => format!("{key} {:.0}%", 100.0 * fit.x),
        });
        let point = fit.run(&calib, &test, &metrics, &Unwatched);
        points.push(point.map_err(|e| at(splits.calib.path(), format_args!("{key}: {e}")))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let result = CurveResult {
        name: bundle.name.clone(),
        axis,
        n_calib: bundle.n_calib,
        n_test: bundle.n_test,
        classes: bundle.classes,
        metrics,
        points,
    };
    if let Some(folder) = &args.compared.out {
        output::write(folder, &result)?;
    }
    printer.json(&output::json(&result));
    printer.result(output::tables(&result));
    if let Some(folder) = &args.compared.out {
        printer.remark(format_args!("data and figure are in {}", folder.display()));
    }
    Ok(Exit::Done)
}

//! One method on one dataset: fit, measure, save.

use std::ops::ControlFlow;

use anyhow::Result;
use indicatif::ProgressBar;
use ordercal::compare::{self, Measured, Measures};
use ordercal::select::{Found, Search, search};
use ordercal::{Fingerprint, Method, Progress};
use ordercal_io::{LoadedData, SavedModel};
use ordercal_report::UNCALIBRATED;

use crate::input::at;

/// The model to save; `None` for `uncalibrated`. `rows` are those of `calib`.
pub fn saved(found: &Found, calib: &LoadedData, rows: Fingerprint) -> Option<SavedModel> {
    (found.method.key() != UNCALIBRATED).then(|| {
        let names = calib.class_names().map(<[String]>::to_vec);
        SavedModel::new(found.method.clone(), found.fitted.clone())
            .with_class_names(names)
            .with_kind(calib.kind())
            .with_data(rows)
    })
}

/// Fits a method and reports the progress in the bar's message.
pub fn fit(how: &Search, calib: &LoadedData, method: &Method, bar: &ProgressBar) -> Result<Found> {
    let data = calib.dataset()?;
    let name = calib.path().file_stem().unwrap_or_default();
    let name = name.to_string_lossy();
    let watch = |progress: &Progress| {
        bar.set_message(format!(
            "{name} {}: step {} of {}, loss {:.4}",
            method.key(),
            progress.iteration,
            progress.of,
            progress.loss
        ));
        ControlFlow::Continue(())
    };
    let found = search(method, &data, how, &watch);
    found.map_err(|e| at(calib.path(), format_args!("{}: {e}", method.key())))
}

/// Measures a fitted model on the test rows.
pub fn measure(found: &Found, test: &LoadedData, measures: &Measures) -> Result<Measured> {
    let measured = compare::measure(&found.fitted.model, &test.dataset()?, measures);
    measured.map_err(|e| at(test.path(), format_args!("{}: {e}", found.method.key())))
}

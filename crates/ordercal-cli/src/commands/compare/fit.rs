//! One method on one dataset: from hyperparameters to a model.

use std::ops::ControlFlow;

use anyhow::Result;
use indicatif::ProgressBar;
use ordercal::select::{Found, search};
use ordercal::{Method, Progress};
use ordercal_io::{LoadedData, SavedModel};
use ordercal_report::UNCALIBRATED;

use super::plan::Plan;
use crate::input::at;

/// A model as it goes into a file; there is nothing to keep of what was not calibrated.
pub fn saved(found: &Found, calib: &LoadedData) -> Option<SavedModel> {
    (found.method.key() != UNCALIBRATED).then(|| {
        let names = calib.class_names().map(<[String]>::to_vec);
        SavedModel::new(found.method.clone(), found.fitted.clone()).with_class_names(names)
    })
}

/// Fits, telling the bar how it goes.
pub fn fit(plan: &Plan, calib: &LoadedData, method: &Method, bar: &ProgressBar) -> Result<Found> {
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
    let found = search(method, &data, &plan.search, &watch);
    found.map_err(|e| at(calib.path(), format_args!("{}: {e}", method.key())))
}

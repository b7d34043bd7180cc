//! One method on one dataset: from hyperparameters to a model.

use std::ops::ControlFlow;

use anyhow::Result;
use indicatif::ProgressBar;
use ordercal::select::{Found, search};
use ordercal::{Method, Progress};
use ordercal_io::{LoadedData, SavedModel};
use ordercal_report::UNCALIBRATED;
use serde_json::{Value, json};

use super::plan::Plan;
use crate::input::at;

/// A model as it goes into a file; there is nothing to keep of what was not calibrated.
pub fn saved(found: &Found, calib: &LoadedData) -> Option<SavedModel> {
    (found.method.key() != UNCALIBRATED).then(|| {
        let names = calib.class_names().map(<[String]>::to_vec);
        SavedModel::new(found.method.clone(), found.fitted.clone()).with_class_names(names)
    })
}

/// What was chosen: the hyperparameters and, where there was a choice, who came after them; and what the fit
/// has to say about itself.
pub fn chosen(found: &Found) -> serde_json::Result<Value> {
    let mut chosen = serde_json::to_value(&found.method)?;
    if let [best, rest @ ..] = &found.ranking[..] {
        chosen["held_out_nll"] = json!(best.nll);
        chosen["runners_up"] = serde_json::to_value(rest)?;
    }
    if !found.fitted.report.notes.is_empty() {
        chosen["notes"] = json!(found.fitted.report.notes);
    }
    Ok(chosen)
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

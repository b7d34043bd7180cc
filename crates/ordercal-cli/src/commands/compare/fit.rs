//! One method on one dataset: from hyperparameters to a model.

use std::ops::ControlFlow;

use anyhow::Result;
use indicatif::ProgressBar;
use ordercal::{Fitted, Method, Progress};
use ordercal_io::{LoadedData, SavedModel};
use ordercal_report::UNCALIBRATED;

use super::plan::{Bundle, Plan};
use crate::args::SearchName;
use crate::input::at;

/// A model with the hyperparameters that it was fitted with.
pub struct Chosen {
    /// The hyperparameters.
    pub method: Method,
    /// The model.
    pub fitted: Fitted,
}

impl Chosen {
    /// As it goes into a file; there is nothing to keep of what was not calibrated.
    pub fn saved(&self, calib: &LoadedData) -> Option<SavedModel> {
        (self.method.key() != UNCALIBRATED).then(|| {
            let names = calib.class_names().map(<[String]>::to_vec);
            SavedModel::new(self.method.clone(), self.fitted.clone()).with_class_names(names)
        })
    }
}

/// Fits, telling the bar how it goes.
pub fn fit(plan: &Plan, bundle: &Bundle, method: &Method, bar: &ProgressBar) -> Result<Chosen> {
    let data = bundle.calib.dataset()?;
    let watch = |progress: &Progress| {
        bar.set_message(format!(
            "{} {}: step {} of {}, loss {:.4}",
            bundle.name,
            method.key(),
            progress.iteration,
            progress.of,
            progress.loss
        ));
        ControlFlow::Continue(())
    };
    let problem = |e| at(bundle.calib.path(), format_args!("{}: {e}", method.key()));
    match plan.search {
        SearchName::None => Ok(Chosen {
            method: method.clone(),
            fitted: method.fit_watched(&data, &watch).map_err(problem)?,
        }),
    }
}

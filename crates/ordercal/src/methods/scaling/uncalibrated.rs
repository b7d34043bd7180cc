//! The uncalibrated scores: the baseline of every comparison.

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::likelihood::plain_nll;
use crate::methods::{Calibrator, Describe, FitReport, Fitted};
use crate::models::UncalibratedModel;
use crate::optim::StopReason;
use crate::watch::Watch;

/// No calibration: the probabilities are softmax(x). It is the baseline of every comparison. Order-preserving.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Uncalibrated {}

impl Describe for Uncalibrated {
    const BRIEF: &'static str = "nothing: the scores as they are, to compare with";
    const PYTHON_CLASS: &'static str = "Uncalibrated";
}

impl Calibrator for Uncalibrated {
    fn fit(&self, data: &Dataset<'_>, _: &dyn Watch) -> Result<Fitted> {
        let nll = plain_nll(data);
        let report = FitReport::new(nll, nll, StopReason::Nothing);
        let model = UncalibratedModel::new(data.classes())?.into();
        Ok(Fitted { model, report })
    }
}

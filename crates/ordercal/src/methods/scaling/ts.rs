//! Temperature scaling: f(x) = βx with one positive inverse temperature β = 1/T (Guo et al., 2017).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::TsModel;
use crate::watch::Watch;

/// Temperature scaling: softmax(βx) with one inverse temperature β > 0 that minimises the mean NLL. Order-preserving.
///
/// The NLL is convex in β. Newton's method in ln β, safeguarded by a bracket, finds the minimum to 1e-7 in a few passes over
/// the data; on large data it starts at the minimum for a sample of the rows. If there is no minimum at a positive finite
/// β, the fit ends at a bound ([`SPREAD_BOUNDS`](crate::methods::SPREAD_BOUNDS)).
///
/// C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger: *On Calibration of Modern Neural Networks*, ICML 2017.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ts {}

impl Describe for Ts {
    const BRIEF: &'static str = "one temperature";
    const PYTHON_CLASS: &'static str = "TemperatureScaling";
    const READS_LOGARITHMS: bool = true;
}

impl Calibrator for Ts {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let (beta, report) = fit_beta(data, watch)?;
        let model = TsModel::new(data.classes(), beta)?.into();
        Ok(Fitted { model, report })
    }
}

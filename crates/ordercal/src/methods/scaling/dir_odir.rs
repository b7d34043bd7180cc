//! Dirichlet calibration with off-diagonal and intercept regularisation (Kull et al., 2019).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::linear::{check_weight, odir};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::watch::Watch;

/// Dirichlet calibration: softmax(W ln p + b) on the log-probabilities ln p = ln softmax(x), with ODIR.
/// Predictions may change.
///
/// The same objective as [`MsOdir`](crate::MsOdir). If the scores of each class are Dirichlet distributed, this is the
/// form of the true map. A row's shift does not matter, since ln p does not change with it.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, DirOdir, Method, ScoreKind, Scores};
///
/// let probs = array![[0.9_f32, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 1, 0])?;
/// let fitted = Method::from(DirOdir::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DirOdir {
    /// λ: the weight of the mean square of the weights off the diagonal.
    pub lambda: f64,
    /// μ: the weight of the mean square of the biases.
    pub mu: f64,
    /// The optimiser's settings.
    pub optimizer: Lbfgs,
}

impl Default for DirOdir {
    fn default() -> Self {
        Self {
            lambda: odir::LAMBDA,
            mu: odir::MU,
            optimizer: odir::optimizer(),
        }
    }
}

odir::odir_method!(
    DirOdir,
    "a matrix and biases on log-probabilities, with ODIR penalties",
    "Dirichlet"
);

impl Calibrator for DirOdir {
    fn validate(&self) -> Result<()> {
        check_weight("lambda", self.lambda)?;
        check_weight("mu", self.mu)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let weights = (self.lambda, self.mu);
        odir::fit_odir(data, InputKind::LogSoftmax, weights, &self.optimizer, watch)
    }
}

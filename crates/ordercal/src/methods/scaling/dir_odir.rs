//! Dirichlet calibration with off-diagonal and intercept regularisation (Kull et al., 2019).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::linear::odir;
use crate::methods::{Calibrator, Describe, Fitted, check_non_negative};
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::watch::Watch;

/// Dirichlet calibration: softmax(W ln p + b) with p = softmax(x), a K×K matrix W and K biases b, regularised by ODIR.
/// Predictions may change.
///
/// W and b minimise the objective of [`MsOdir`](crate::MsOdir) with ln p in place of x. If the probabilities p have a
/// Dirichlet distribution given the class, the true map has this form.
///
/// M. Kull et al.: *Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
/// Dirichlet calibration*, NeurIPS 2019.
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
    /// λ ≥ 0, the weight of the mean square of the off-diagonal weights.
    pub lambda: f64,
    /// μ ≥ 0, the weight of the mean square of the biases.
    pub mu: f64,
    /// The settings of the optimiser.
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
        check_non_negative("lambda", self.lambda)?;
        check_non_negative("mu", self.mu)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let weights = (self.lambda, self.mu);
        odir::fit_odir(data, InputKind::LogSoftmax, weights, &self.optimizer, watch)
    }
}

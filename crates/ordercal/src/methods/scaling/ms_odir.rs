//! Matrix scaling with off-diagonal and intercept regularisation (Kull et al., 2019).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::linear::odir;
use crate::methods::{Calibrator, Describe, Fitted, check_non_negative};
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::watch::Watch;

/// Matrix scaling: softmax(Wx + b) with a K×K matrix W and K biases b, regularised by ODIR. Predictions may change.
///
/// W and b minimise the mean NLL + λ/(K(K−1)) Σ_{i≠j} W_ij² + μ/K Σ b_i² (off-diagonal and intercept regularisation). The
/// diagonal is not penalised. The penalties are means over weights and biases, which makes λ and μ comparable between
/// numbers of classes; still, the best λ increases with K, because the number of weights grows with K². The fit starts at
/// temperature scaling, W = βI. [`select::choose`](crate::select::choose) chooses λ and μ from [`grid`](Self::grid) by cross
/// validation.
///
/// M. Kull et al.: *Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
/// Dirichlet calibration*, NeurIPS 2019.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, MsOdir, ScoreKind, Scores};
///
/// let logits = array![[2.0_f32, 1.0], [1.5, 1.0], [0.0, 2.0], [1.0, 0.9]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 1, 1, 0])?;
/// let fitted = Method::from(MsOdir::default().with_lambda(1.0).with_mu(1.0)).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MsOdir {
    /// λ ≥ 0, the weight of the mean square of the off-diagonal weights.
    pub lambda: f64,
    /// μ ≥ 0, the weight of the mean square of the biases.
    pub mu: f64,
    /// The shift that is subtracted from a row of scores.
    pub input: InputKind,
    /// The settings of the optimiser.
    pub optimizer: Lbfgs,
}

impl Default for MsOdir {
    fn default() -> Self {
        Self {
            lambda: odir::LAMBDA,
            mu: odir::MU,
            input: InputKind::Raw,
            optimizer: odir::optimizer(),
        }
    }
}

odir::odir_method!(
    MsOdir,
    "a matrix and biases on logits, with ODIR penalties",
    "MatrixScaling"
);

impl MsOdir {
    /// Sets the shift that is subtracted from a row of scores.
    #[must_use]
    pub fn with_input(mut self, input: InputKind) -> Self {
        self.input = input;
        self
    }
}

impl Calibrator for MsOdir {
    fn validate(&self) -> Result<()> {
        check_non_negative("lambda", self.lambda)?;
        check_non_negative("mu", self.mu)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let weights = (self.lambda, self.mu);
        odir::fit_odir(data, self.input, weights, &self.optimizer, watch)
    }
}

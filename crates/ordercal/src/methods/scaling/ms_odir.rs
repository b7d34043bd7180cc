//! Matrix scaling with off-diagonal and intercept regularisation (Kull et al., 2019).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::linear::{check_weight, odir};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::watch::Watch;

/// Matrix scaling: softmax(Wx + b) on the logits x, with ODIR. Predictions may change.
///
/// Minimises mean NLL + λ/(K(K−1)) Σ_{i≠j} W_ij² + μ/K Σ b_i². The penalties are means over weights and
/// biases, not sums, so that λ and μ transfer across numbers of classes; the diagonal is free. (They do not
/// transfer all the way: the number of weights grows with K², and so does what they can overfit. Choose λ
/// for your data.) The fit starts at temperature scaling, W = βI. [`select::choose`](crate::select::choose) picks λ and μ by cross validation among
/// [`grid`](Self::grid).
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
    /// λ: the weight of the mean square of the weights off the diagonal.
    pub lambda: f64,
    /// μ: the weight of the mean square of the biases.
    pub mu: f64,
    /// The shift of a row before it is weighted.
    pub input: InputKind,
    /// The optimiser's settings.
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
    /// Sets the shift of a row before it is weighted.
    #[must_use]
    pub fn with_input(mut self, input: InputKind) -> Self {
        self.input = input;
        self
    }
}

impl Calibrator for MsOdir {
    fn validate(&self) -> Result<()> {
        check_weight("lambda", self.lambda)?;
        check_weight("mu", self.mu)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let weights = (self.lambda, self.mu);
        odir::fit_odir(data, self.input, weights, &self.optimizer, watch)
    }
}

//! Dirichlet calibration with off-diagonal and intercept regularisation (Kull et al., 2019).

use derive_setters::Setters;
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct DirOdir {
    /// λ ≥ 0, the weight of the mean square of the off-diagonal weights.
    pub lambda: f64,
    /// μ ≥ 0, the weight of the mean square of the biases.
    pub mu: f64,
    /// The settings of the optimiser.
    pub optimizer: Lbfgs,
}

odir::odir_method!(
    DirOdir,
    "a matrix and biases on log-probabilities, with ODIR penalties",
    "Dirichlet",
    |settings| InputKind::LogSoftmax
);

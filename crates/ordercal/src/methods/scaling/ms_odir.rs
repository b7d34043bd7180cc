//! Matrix scaling with off-diagonal and intercept regularisation (Kull et al., 2019).

use derive_setters::Setters;
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
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

odir::odir_method!(
    MsOdir,
    "a matrix and biases on logits, with ODIR penalties",
    "MatrixScaling",
    |settings| settings.input,
    input: InputKind::Raw
);

//! Structured scaling: vector and matrix scaling shrunk to temperature scaling (Berta et al., 2025).

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::check::one;
use crate::methods::linear::{LinearFit, Ridge};
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, Fitted, check_non_negative};
use crate::models::{Features, LinearShape};
use crate::optim::Lbfgs;
use crate::watch::{Unwatched, Watch};

/// Structured vector scaling: softmax((1 + v) ⊙ z + b) on the log-probabilities z after temperature scaling, with K weights v
/// and K biases b. Predictions may change.
///
/// The temperature is fitted first, without a penalty. Then z = ln((1 − s)·softmax(βx) + s/K) with s = 1/(n + 1), where n is
/// the total weight of the rows, and v and b minimise the mean NLL + λ K/n (‖v‖² + ‖b‖²). The penalty decreases with the
/// number of rows per class.
///
/// E. Berta, D. Holzmüller, M. I. Jordan, F. Bach: *Structured Matrix Scaling for Multi-Class Calibration*,
/// 2025.
pub type Svs = Structured<false>;

/// Hyperparameters of [`Svs`] and [`Sms`](crate::Sms), which has a full matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Structured<const MATRIX: bool> {
    /// λ ≥ 0, the weight of the penalty.
    #[serde(default = "one")]
    pub lambda: f64,
    /// The settings of the optimiser.
    #[serde(default)]
    pub optimizer: Lbfgs,
}

impl<const MATRIX: bool> Default for Structured<MATRIX> {
    fn default() -> Self {
        Self {
            lambda: one(),
            optimizer: Lbfgs::default(),
        }
    }
}

impl<const MATRIX: bool> Describe for Structured<MATRIX> {
    const BRIEF: &'static str = if MATRIX {
        "structured matrix scaling: penalties shrink it to temperature scaling"
    } else {
        "structured vector scaling: penalties shrink it to temperature scaling"
    };
    const PYTHON_CLASS: &'static str = if MATRIX {
        "StructuredMatrixScaling"
    } else {
        "StructuredVectorScaling"
    };
    const READS_LOGARITHMS: bool = true;
}

impl<const MATRIX: bool> Calibrator for Structured<MATRIX> {
    fn validate(&self) -> Result<()> {
        check_non_negative("lambda", self.lambda)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let (beta, start) = fit_beta(data, &Unwatched)?;
        let (rows, classes) = (data.total_weight(), data.classes() as f64);
        let per_class = self.lambda * classes / rows;
        let fit = LinearFit {
            features: Features::Mixed {
                beta,
                share: 1.0 / (rows + 1.0),
            },
            shape: if MATRIX {
                LinearShape::Matrix
            } else {
                LinearShape::Vector
            },
            ridge: Ridge {
                bias: per_class,
                diagonal: per_class,
                off_diagonal: per_class * (classes - 1.0),
            },
            optimizer: &self.optimizer,
        };
        fit.run(data, &start, watch)
    }
}

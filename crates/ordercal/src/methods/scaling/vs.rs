//! Vector scaling: one weight and one bias per class (Guo et al., 2017).

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::linear::{LinearFit, Ridge, tempered};
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::LinearShape;
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::watch::{Unwatched, Watch};

/// Vector scaling: softmax(a ⊙ x + b) with K weights a and K biases b that minimise the mean NLL. Predictions may change.
///
/// The fit starts at temperature scaling, a = β and b = 0, and is not penalised; see [`Svs`](crate::Svs) for a penalised
/// variant. If temperature scaling separates the data, the gradient vanishes at the bound of β
/// ([`SPREAD_BOUNDS`](crate::methods::SPREAD_BOUNDS)), where the fit ends; if only a and b separate them, it ends at a mean
/// NLL of 1e-6.
///
/// C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger: *On Calibration of Modern Neural Networks*, ICML 2017.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Vs {
    /// The shift that is subtracted from a row of scores.
    pub input: InputKind,
    /// The settings of the optimiser.
    pub optimizer: Lbfgs,
}

impl Default for Vs {
    fn default() -> Self {
        Self {
            input: InputKind::Raw,
            optimizer: Lbfgs::default(),
        }
    }
}

impl Describe for Vs {
    const BRIEF: &'static str = "vector scaling: a weight and a bias per class";
    const PYTHON_CLASS: &'static str = "VectorScaling";
    const READS_LOGARITHMS: bool = true;
}

impl Calibrator for Vs {
    fn validate(&self) -> Result<()> {
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let (beta, start) = fit_beta(data, &Unwatched)?;
        let fit = LinearFit {
            features: tempered(self.input, beta, data),
            shape: LinearShape::Vector,
            ridge: Ridge::default(),
            optimizer: &self.optimizer,
        };
        fit.run(data, &start, watch)
    }
}

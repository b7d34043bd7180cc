//! Optimisers: Adam and L-BFGS for networks, Newton's method for one variable and for mixture weights.

pub(crate) mod adam;
pub(crate) mod lbfgs;
pub(crate) mod scalar;
pub(crate) mod simplex;
mod stop;
pub(crate) mod vector;

use serde::{Deserialize, Serialize};

use crate::error::Result;
pub use adam::{Adam, Schedule};
pub use lbfgs::Lbfgs;
pub use stop::{EarlyStopping, StopReason};

/// How a network is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Optimizer {
    /// By mini-batches: the paper's choice for large problems.
    Adam(Adam),
    /// On all rows at every step: the paper's choice for small problems.
    Lbfgs(Lbfgs),
}

impl Optimizer {
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Self::Adam(adam) => adam.validate(),
            Self::Lbfgs(lbfgs) => lbfgs.validate(),
        }
    }
}

impl From<Adam> for Optimizer {
    fn from(adam: Adam) -> Self {
        Self::Adam(adam)
    }
}

impl From<Lbfgs> for Optimizer {
    fn from(lbfgs: Lbfgs) -> Self {
        Self::Lbfgs(lbfgs)
    }
}

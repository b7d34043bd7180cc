//! Early stopping, and the reasons for which a fit ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Why a fit ended. Reaching a limit is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StopReason {
    /// The gradient is zero within the tolerance.
    Converged,
    /// Further steps change the loss by no more than its rounding error.
    NoiseFloor,
    /// The largest number of iterations or epochs was reached.
    IterationLimit,
    /// The loss on held-out rows stopped improving; the best parameters were kept.
    EarlyStopping,
    /// The loss decreases up to the upper bound of the inverse temperature: the data are separable (every label has the
    /// largest score of its row), so a lower temperature is always better.
    UpperBound,
    /// The loss decreases down to the lower bound of the inverse temperature: the scores carry no information on the
    /// labels, or misleading information.
    LowerBound,
    /// Every part of a combined method was fitted.
    AllFitted,
    /// There was nothing to learn.
    Nothing,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::NoiseFloor => "no further progress beyond rounding",
            Self::IterationLimit => "reached the iteration limit",
            Self::EarlyStopping => "the held-out loss stopped improving",
            Self::UpperBound => {
                "stopped at the upper bound of the inverse temperature (separable data)"
            }
            Self::LowerBound => {
                "stopped at the lower bound of the inverse temperature (uninformative scores)"
            }
            Self::AllFitted => "every part was fitted",
            Self::Nothing => "nothing to learn",
        })
    }
}

/// Stop training when the loss on held-out rows no longer improves, and keep the best parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EarlyStopping {
    /// The share of the rows that is held out, drawn at random with the method's seed.
    pub held_out: f64,
    /// How many epochs or iterations to wait for an improvement.
    pub patience: usize,
}

impl Default for EarlyStopping {
    fn default() -> Self {
        Self {
            held_out: 0.2,
            patience: 5,
        }
    }
}

impl EarlyStopping {
    pub(crate) fn validate(&self) -> Result<()> {
        if !(self.held_out > 0.0 && self.held_out < 1.0) {
            return Err(Error::invalid(
                "held_out",
                self.held_out,
                "a share between 0 and 1",
            ));
        }
        if self.patience == 0 {
            return Err(Error::invalid("patience", self.patience, "at least 1"));
        }
        Ok(())
    }
}

//! When to stop, and why an optimiser stopped, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Why a fit ended. Reaching a limit is a reason like any other, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StopReason {
    /// The gradient vanished to within the tolerance.
    Converged,
    /// Further steps no longer change the loss beyond its rounding noise.
    NoiseFloor,
    /// The iterations or epochs asked for are done.
    IterationLimit,
    /// The loss on the held-out part stopped improving; the best parameters seen were kept.
    EarlyStopping,
    /// The loss falls all the way to the upper bound of the inverse temperature: every label of the data
    /// is the top score of its row (it is separable), and a colder softmax always looks better.
    UpperBound,
    /// The loss falls all the way to the lower bound of the inverse temperature: the scores carry no
    /// information on the labels, or point the wrong way.
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

/// Stop when the loss on a held-out part of the rows has not improved for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EarlyStopping {
    /// The share of the rows held out, drawn at random by the method's seed.
    pub held_out: f64,
    /// How many epochs or iterations without a new best to wait.
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
            return Err(Error::InvalidParameter {
                name: "held_out",
                value: self.held_out.to_string(),
                expected: "a share between 0 and 1",
            });
        }
        if self.patience == 0 {
            return Err(Error::InvalidParameter {
                name: "patience",
                value: self.patience.to_string(),
                expected: "at least 1",
            });
        }
        Ok(())
    }
}

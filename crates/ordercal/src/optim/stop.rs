//! Why an optimiser stopped, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

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
            Self::Nothing => "nothing to learn",
        })
    }
}

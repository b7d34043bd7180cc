//! Platt scaling, one class against the rest.

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use super::beta::regress_increasing;
use crate::data::Dataset;
use crate::error::Result;
use crate::methods::binary::fit_one_vs_rest;
use crate::methods::check::one;
use crate::methods::regression::{Examples, Targets, regress};
use crate::methods::{Calibrator, Describe, Fitted, check_positive};
use crate::models::LogisticModel;
use crate::watch::Watch;

/// Platt scaling: σ(aℓ + c) of each class's log-odds ℓ = ln(p/(1 − p)); then rows are normalised. Predictions may change.
///
/// a and c are learned by logistic regression of the class against the rest, with Platt's targets by default. For two
/// classes there is a single regression, on ℓ = x₂ − x₁. The normalised row is mixed with the uniform distribution of weight
/// `smoothing`/(n + 1) for n rows.
///
/// J. Platt: *Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood
/// Methods*, 1999.
pub type Platt = LogisticRegression<1>;

/// Hyperparameters of [`Platt`], whose curves have one slope, and [`Beta`](crate::Beta), whose have two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct LogisticRegression<const SLOPES: usize> {
    /// The targets of the regression.
    #[serde(default = "targets::<SLOPES>")]
    pub targets: Targets,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
    #[serde(default = "one")]
    pub smoothing: f64,
}

impl<const SLOPES: usize> Default for LogisticRegression<SLOPES> {
    fn default() -> Self {
        Self {
            targets: targets::<SLOPES>(),
            smoothing: one(),
        }
    }
}

/// The default targets.
fn targets<const SLOPES: usize>() -> Targets {
    match SLOPES {
        1 => Targets::Platt,
        _ => Targets::Labels,
    }
}

impl<const SLOPES: usize> Describe for LogisticRegression<SLOPES> {
    const BRIEF: &'static str = match SLOPES {
        1 => "a logistic curve per class, one against the rest",
        _ => "a beta curve per class, one against the rest",
    };
    const PYTHON_CLASS: &'static str = match SLOPES {
        1 => "Platt",
        _ => "Beta",
    };
}

impl<const SLOPES: usize> Calibrator for LogisticRegression<SLOPES> {
    fn validate(&self) -> Result<()> {
        check_positive("smoothing", self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        fit_one_vs_rest(
            data,
            self.smoothing,
            watch,
            |cases| match SLOPES {
                1 => {
                    let examples = Examples::of_log_odds(cases, self.targets);
                    let ([a, _, c], _) = regress(&examples, [true, false]);
                    [a, a, c]
                }
                _ => regress_increasing(&Examples::of_log_probabilities(cases, self.targets)),
            },
            LogisticModel::new,
        )
    }
}

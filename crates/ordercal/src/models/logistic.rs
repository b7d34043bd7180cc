//! Logistic functions of each class's probability: the models of `platt` and `beta`.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::one_vs_rest::{ClassMap, check_share, logistic, map_count, write_logits};
use super::parts::stored_as_parts;
use super::{check, check_classes};
use crate::error::Result;
use crate::math::exp::softplus_f64;

/// Fitted maps g(p) = σ(a ln p − b ln(1 − p) + c) of each class's probability p; rows are then normalised and smoothed:
/// (1 − s)·g_k/Σ_j g_j + s/K, with a weight s of the uniform distribution.
///
/// With a = b this is Platt's σ(aℓ + c) of the log-odds ℓ = ln(p/(1 − p)). For two classes there is one map, that of the
/// second class.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticModel {
    parts: LogisticParts,
}

/// All data of a [`LogisticModel`], to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogisticParts {
    /// K.
    pub classes: usize,
    /// The weight s of the uniform distribution in the result.
    pub share: f64,
    /// a, b and c of each map, map after map. There is one map for two classes, otherwise K.
    #[serde(skip)]
    pub coefficients: Vec<f64>,
}

impl LogisticModel {
    pub(crate) fn new(classes: usize, share: f64, coefficients: Vec<[f64; 3]>) -> Self {
        Self {
            parts: LogisticParts {
                classes,
                share,
                coefficients: coefficients.concat(),
            },
        }
    }

    /// The data of the model.
    pub fn to_parts(&self) -> LogisticParts {
        self.parts.clone()
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that is invalid.
    pub fn from_parts(parts: LogisticParts) -> Result<Self> {
        check_classes(parts.classes)?;
        check_share(parts.share)?;
        let (maps, rest) = parts.coefficients.as_chunks::<3>();
        let good = rest.is_empty() && maps.len() == map_count(parts.classes);
        let expected = "three numbers per map: one map for two classes, else one per class";
        check(good, "coefficients", parts.coefficients.len(), expected)?;
        let good = parts.coefficients.iter().all(|c| c.is_finite());
        check(good, "coefficients", "NaN or infinity", "finite numbers")?;
        Ok(Self { parts })
    }
}

impl ClassMap for LogisticModel {
    fn probability(&self, map: usize, log_odds: f64) -> f64 {
        let [a, b, c] = self.parts.coefficients.as_chunks::<3>().0[map];
        let [log_p, minus_log_rest] = log_probabilities(log_odds);
        logistic(a * log_p + b * minus_log_rest + c)
    }
}

impl Form for LogisticModel {
    fn classes(&self) -> usize {
        self.parts.classes
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        write_logits(self, self.parts.share, block, logits);
    }
}

stored_as_parts!(LogisticModel, LogisticParts, coefficients);

/// ln p and −ln(1 − p) of the probability p with the given log-odds.
pub(crate) fn log_probabilities(log_odds: f64) -> [f64; 2] {
    [-softplus_f64(-log_odds).0, softplus_f64(log_odds).0]
}

//! A logistic function of each class's probability: what `platt` and `beta` learn.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::one_vs_rest::{ClassMap, check_share, logistic, maps, write_logits};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_classes};
use crate::error::Result;
use crate::math::exp::softplus_f64;

/// Fitted maps σ(a ln p − b ln(1 − p) + c), one per class, then normalised and smoothed.
///
/// With a = b this is Platt's σ(aℓ + c) on the log-odds ℓ. Two classes have a single map, the second's.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticModel {
    classes: usize,
    share: f64,
    coefficients: Vec<[f64; 3]>,
}

/// Everything a [`LogisticModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogisticParts {
    /// K.
    pub classes: usize,
    /// The share of the uniform distribution that is mixed in.
    pub share: f64,
    /// a, b and c of the first map, then of the second, and so on; one map for two classes, K for more.
    #[serde(skip)]
    pub coefficients: Vec<f64>,
}

impl LogisticModel {
    pub(crate) fn new(classes: usize, share: f64, coefficients: Vec<[f64; 3]>) -> Self {
        Self {
            classes,
            share,
            coefficients,
        }
    }

    /// Takes a model apart.
    pub fn to_parts(&self) -> LogisticParts {
        LogisticParts {
            classes: self.classes,
            share: self.share,
            coefficients: self.coefficients.concat(),
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that does not fit the others.
    pub fn from_parts(parts: LogisticParts) -> Result<Self> {
        check_classes(parts.classes)?;
        check_share(parts.share)?;
        let (maps, rest) = parts.coefficients.as_chunks::<3>();
        let good = rest.is_empty() && maps.len() == self::maps(parts.classes);
        let expected = "three numbers per map: one map for two classes, else one per class";
        check(good, "coefficients", parts.coefficients.len(), expected)?;
        let good = parts.coefficients.iter().all(|c| c.is_finite());
        check(good, "coefficients", "NaN or infinity", "finite numbers")?;
        Ok(Self {
            classes: parts.classes,
            share: parts.share,
            coefficients: maps.to_vec(),
        })
    }
}

impl ClassMap for LogisticModel {
    fn probability(&self, map: usize, log_odds: f64) -> f64 {
        let [a, b, c] = self.coefficients[map];
        let [log_p, minus_log_rest] = logarithms(log_odds);
        logistic(a * log_p + b * minus_log_rest + c)
    }
}

impl Form for LogisticModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        write_logits(self, self.share, block, logits);
    }
}

impl Stored for LogisticModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let own = self.to_parts();
        parts.set(&own);
        parts.tensor("coefficients", own.coefficients);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let coefficients = parts.tensor("coefficients")?;
        let settings: LogisticParts = parts.settings()?;
        Self::from_parts(LogisticParts {
            coefficients,
            ..settings
        })
    }
}

/// ln p and −ln(1 − p) of log-odds.
pub(crate) fn logarithms(log_odds: f64) -> [f64; 2] {
    [-softplus_f64(-log_odds).0, softplus_f64(log_odds).0]
}

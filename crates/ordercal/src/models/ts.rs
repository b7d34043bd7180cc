//! Temperature scaling: f(x) = βx.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check_beta, check_classes};
use crate::error::Result;
use crate::math::simd::vectorized;
use crate::math::tile::Lanes;
use crate::rank::Elementwise;

/// A fitted temperature T = 1/β: the logits are f(x) = βx.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsModel {
    classes: usize,
    beta: f64,
}

impl TsModel {
    /// A model for K = `classes` with the inverse temperature β > 0.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if β is not positive, or there are fewer than two classes.
    pub fn new(classes: usize, beta: f64) -> Result<Self> {
        check_classes(classes)?;
        check_beta(beta)?;
        Ok(Self { classes, beta })
    }

    /// β, the factor of the logits.
    pub fn inverse_temperature(&self) -> f64 {
        self.beta
    }

    /// T = 1/β, the divisor of the logits.
    pub fn temperature(&self) -> f64 {
        1.0 / self.beta
    }
}

impl Form for TsModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::scaling(self.beta))
    }

    fn tile_logits(&self, scores: &[Lanes<f32>], logits: &mut [Lanes<f64>]) -> bool {
        multiply(scores.as_flattened(), self.beta, logits.as_flattened_mut());
        true
    }

    fn function(&self, score: f64) -> Option<f64> {
        Some(self.beta * score)
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        multiply(block.scores, self.beta, logits);
    }
}

impl Stored for TsModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        parts.set(self);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let Self { classes, beta } = parts.settings()?;
        Self::new(classes, beta)
    }
}

vectorized! {
    /// βx.
    pub(super) fn multiply(scores: &[f32], beta: f64, logits: &mut [f64]) {
        for (logit, &score) in logits.iter_mut().zip(scores) {
            *logit = beta * f64::from(score);
        }
    }
}

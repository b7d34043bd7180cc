//! The identity: the model of `uncalibrated`.

use serde::{Deserialize, Serialize};

use super::check_classes;
use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::ts::multiply;
use crate::error::Result;
use crate::math::tile::Lanes;
use crate::rank::Elementwise;

/// The identity f(x) = x: its probabilities are softmax(x).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncalibratedModel {
    classes: usize,
}

impl UncalibratedModel {
    /// The identity for K = `classes`.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if there are fewer than two classes.
    pub fn new(classes: usize) -> Result<Self> {
        check_classes(classes)?;
        Ok(Self { classes })
    }
}

impl Form for UncalibratedModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::scaling(1.0))
    }

    fn tile_logits(&self, scores: &[Lanes<f32>], logits: &mut [Lanes<f64>]) -> bool {
        multiply(scores.as_flattened(), 1.0, logits.as_flattened_mut());
        true
    }

    fn function(&self, score: f64) -> Option<f64> {
        Some(score)
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        multiply(block.scores, 1.0, logits);
    }
}

impl Stored for UncalibratedModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        parts.set(self);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let Self { classes } = parts.settings()?;
        Self::new(classes)
    }
}

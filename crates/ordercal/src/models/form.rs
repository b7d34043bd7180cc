//! The interface of a form of model: it transforms blocks of rows.

use crate::math::softmax;
use crate::math::tile::Lanes;
use crate::rank::Elementwise;

/// A block of rows of scores, the input of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowBlock<'a> {
    /// The scores in row-major order.
    pub(crate) scores: &'a [f32],
    /// The classes of each row in descending order of their scores; may be empty if [`Form::reads_order`] is `false`.
    pub(crate) order: &'a [u32],
    /// K.
    pub(crate) classes: usize,
}

impl<'a> RowBlock<'a> {
    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.scores.len() / self.classes
    }

    /// One row alone.
    pub(crate) fn only(&self, row: usize) -> Self {
        Self {
            scores: self.row(row),
            order: if self.order.is_empty() {
                &[]
            } else {
                self.row_order(row)
            },
            ..*self
        }
    }

    /// The scores of a row.
    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
        &self.scores[row * self.classes..][..self.classes]
    }

    /// The sorted classes of a row.
    pub(crate) fn row_order(&self, row: usize) -> &'a [u32] {
        &self.order[row * self.classes..][..self.classes]
    }
}

/// The number of classes of a row that are not masked.
pub(crate) fn count_unmasked(scores: &[f32]) -> usize {
    scores.iter().filter(|s| **s > f32::NEG_INFINITY).count()
}

/// A form of model: a fitted map from rows of scores to rows of logits.
///
/// [`super::apply`] converts the logits to the kind and float type of the result, and keeps the order in that type.
pub(crate) trait Form {
    /// K, the number of classes.
    fn classes(&self) -> usize;

    /// Whether the model keeps the ranking of every row.
    fn order_preserving(&self) -> bool;

    /// Whether the model needs the sorted classes of each row.
    fn reads_order(&self) -> bool {
        self.order_preserving() && self.elementwise().is_none()
    }

    /// Bounds on the slope, for a form whose logits are an increasing function of the score, apart from a shift of the
    /// whole row. Such rows keep their order without being sorted.
    fn elementwise(&self) -> Option<Elementwise> {
        None
    }

    /// [`logits`](Self::logits) of 64 rows of an [elementwise](Self::elementwise) form, transposed: an array for each class.
    /// `false` if the form has no code for it.
    fn tile_logits(&self, _scores: &[Lanes<f32>], _logits: &mut [Lanes<f64>]) -> bool {
        false
    }

    /// The value at `score` of the increasing function that is applied to each score, if there is one.
    fn function(&self, _score: f64) -> Option<f64> {
        None
    }

    /// Writes the calibrated logits of a block of rows, in class order, as 64-bit floats.
    ///
    /// The result of a row must not depend on the other rows. Masked classes become `-inf`.
    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]);

    /// Writes the probabilities of a block of rows.
    fn probabilities(&self, block: &RowBlock<'_>, probs: &mut [f64]) {
        self.logits(block, probs);
        softmax::unnormalised_rows(probs, block.classes);
        softmax::normalise_rows(probs, block.classes);
    }
}

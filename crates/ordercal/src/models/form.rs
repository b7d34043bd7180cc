//! What every form of model does: transform blocks of rows.

use crate::math::softmax;
use crate::rank::Elementwise;

/// Rows that a model transforms at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowBlock<'a> {
    /// The scores, row by row.
    pub(crate) scores: &'a [f32],
    /// The classes of each row from the largest score to the smallest. Empty unless the model
    /// [reads it](Form::reads_order).
    pub(crate) order: &'a [u32],
    /// K.
    pub(crate) classes: usize,
}

impl<'a> RowBlock<'a> {
    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.scores.len() / self.classes
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

/// A form of model: a fitted map from rows of scores to rows of logits.
///
/// Rounding to what the caller asked for, and keeping the order there, is done by [`super::apply`].
pub(crate) trait Form {
    /// K, the number of classes it was fitted for.
    fn classes(&self) -> usize;

    /// Whether it promises to keep the ranking of every row.
    fn order_preserving(&self) -> bool;

    /// Whether it needs the sorted classes of each row.
    fn reads_order(&self) -> bool {
        self.order_preserving()
    }

    /// How each logit depends on its score, if on nothing else but what is the same for the whole row. Rows
    /// of such a model need not be sorted to keep their order.
    fn elementwise(&self) -> Option<Elementwise> {
        None
    }

    /// The increasing function that every score goes through, at `score`, for forms that have one.
    fn function(&self, _score: f64) -> Option<f64> {
        None
    }

    /// Writes the calibrated logits of a block of rows, in class order, as 64-bit floats.
    ///
    /// A row's result may depend on nothing but the row; masked classes become `-inf`.
    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]);

    /// Writes the unnormalised probabilities of each row: e^logit up to a factor per row that keeps the
    /// largest far from overflow and underflow.
    ///
    /// A form that has a shorter way to them than through its logits takes it here.
    fn unnormalised(&self, block: &RowBlock<'_>, unnormalised: &mut [f64]) {
        self.logits(block, unnormalised);
        softmax::unnormalised_rows(unnormalised, block.classes);
    }
}

//! Custom models: any map from a row of scores to a row of probabilities.

use std::fmt;
use std::sync::Arc;

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use crate::error::{Error, Result};

/// A map from a row of scores to a row of probabilities. Implement it for a model of your own.
///
/// [`Model::custom`](crate::Model::custom) makes a [`Model`](crate::Model) of it, which can be applied, measured, compared,
/// averaged over folds and projected onto the order of the scores.
///
/// ```
/// use ordercal::models::OrderedModel;
/// use ordercal::{Model, ScoreKind, Transform};
///
/// /// Moves a tenth of the probability to the first class.
/// struct FirstClassBonus;
///
/// impl Transform for FirstClassBonus {
///     fn classes(&self) -> usize {
///         3
///     }
///
///     fn probabilities(&self, scores: &[f32], probs: &mut [f64]) {
///         let sum: f64 = scores.iter().map(|&s| f64::from(s).exp()).sum();
///         for (p, &score) in probs.iter_mut().zip(scores) {
///             *p = 0.9 * f64::from(score).exp() / sum;
///         }
///         probs[0] += 0.1;
///     }
/// }
///
/// let row = [0.0_f32, 0.05, -1.0];
/// let free = Model::custom(FirstClassBonus);
/// let probs: Vec<f64> = free.apply_row(&row, ScoreKind::Probs)?;
/// assert!(probs[0] > probs[1]);
/// // The projection has the same prediction as the scores.
/// let ordered = Model::from(OrderedModel::new(free, 1.0)?);
/// let probs: Vec<f64> = ordered.apply_row(&row, ScoreKind::Probs)?;
/// assert!(probs[1] > probs[0]);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub trait Transform: Send + Sync {
    /// K, the number of classes.
    fn classes(&self) -> usize;

    /// Writes the K probabilities of a row of K scores to `probs`.
    ///
    /// The scores are logits or log-probabilities, `-inf` for a masked class. The result is normalised, and the
    /// probability of a masked class is set to 0.
    fn probabilities(&self, scores: &[f32], probs: &mut [f64]);

    /// Whether the map keeps the ranking of every row. If so, the ranking is also kept when results are rounded.
    fn keeps_order(&self) -> bool {
        false
    }
}

/// A [`Transform`] as a form of model. It cannot be stored in a file.
#[derive(Clone)]
pub struct CustomModel {
    transform: Arc<dyn Transform>,
}

impl CustomModel {
    /// Wraps a transform.
    pub fn new(transform: impl Transform + 'static) -> Self {
        Self {
            transform: Arc::new(transform),
        }
    }
}

impl fmt::Debug for CustomModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomModel for {} classes", self.transform.classes())
    }
}

/// Equality of identity: only clones of a model are equal.
impl PartialEq for CustomModel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.transform, &other.transform)
    }
}

impl Form for CustomModel {
    fn classes(&self) -> usize {
        self.transform.classes()
    }

    fn order_preserving(&self) -> bool {
        self.transform.keeps_order()
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        for (row, logits) in logits.chunks_exact_mut(block.classes).enumerate() {
            let scores = block.row(row);
            self.transform.probabilities(scores, logits);
            for (logit, &score) in logits.iter_mut().zip(scores) {
                *logit = if score > f32::NEG_INFINITY {
                    // 0, NaN and negative numbers become the smallest positive normal number.
                    logit.max(f64::MIN_POSITIVE).ln()
                } else {
                    f64::NEG_INFINITY
                };
            }
        }
    }
}

impl Stored for CustomModel {
    fn write(&self, _: &mut ModelParts) -> Result<()> {
        Err(Error::CannotStore)
    }

    fn read(_: &mut PartsReader<'_>) -> Result<Self> {
        Err(Error::CannotStore)
    }
}

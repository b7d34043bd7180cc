//! One model behind another: g(ln softmax(f(x))).

use super::Model;
use super::apply::Block;
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::rank::{Sorter, narrow_in_order};
use crate::traits::Transform;

/// What is less likely than e to the power of this is as likely as that for the second model: logits of
/// 1e38 would otherwise leave the range of 32-bit floats.
const LOWEST: f64 = -1e30;

/// Brings log-probabilities, which a second model is to read, into the range of 32-bit floats.
pub(crate) fn hold(logs: &mut [f64]) {
    for log in logs {
        if *log < LOWEST && *log > f64::NEG_INFINITY {
            *log = LOWEST;
        }
    }
}

/// A model that calibrates what another model gives: its log-probabilities, as 32-bit floats.
///
/// If both keep the order, so does the chain.
///
/// ```
/// use ordercal::{ChainModel, Model, ScoreKind, TsModel};
///
/// let chain = Model::from(ChainModel::new(TsModel::new(3, 2.0), TsModel::new(3, 0.25))?);
/// let one = Model::from(TsModel::new(3, 0.5));
/// let row = [2.0, -1.0, 0.5];
/// let probs = |model: &Model| model.apply_row::<f64>(&row, ScoreKind::Probs);
/// for (a, b) in probs(&chain)?.into_iter().zip(probs(&one)?) {
///     assert!((a - b).abs() < 1e-6);
/// }
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ChainModel {
    first: Box<Model>,
    then: Box<Model>,
}

impl ChainModel {
    /// Puts `then` behind `first`.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if they are for different numbers of classes.
    pub fn new(first: impl Into<Model>, then: impl Into<Model>) -> Result<Self> {
        let (first, then) = (Box::new(first.into()), Box::new(then.into()));
        if first.classes() != then.classes() {
            return Err(Error::InvalidParameter {
                name: "then",
                value: format!("a model for {} classes", then.classes()),
                expected: "as many classes as the model before it",
            });
        }
        Ok(Self { first, then })
    }

    /// The model that reads the scores.
    pub fn first(&self) -> &Model {
        &self.first
    }

    /// The model that reads what the first gives.
    pub fn then(&self) -> &Model {
        &self.then
    }
}

impl Transform for ChainModel {
    fn classes(&self) -> usize {
        self.first.classes()
    }

    fn order_preserving(&self) -> bool {
        self.first.order_preserving() && self.then.order_preserving()
    }

    fn reads_order(&self) -> bool {
        self.first.reads_order()
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        self.first.logits(block, logits);
        let mut scratch = vec![0.0; classes];
        let mut sorter = Sorter::new(classes);
        let mut scores = vec![0.0_f32; logits.len()];
        let mut order = Vec::new();
        let rows = logits.chunks_exact_mut(classes);
        for (logs, scores) in rows.zip(scores.chunks_exact_mut(classes)) {
            softmax::log_probabilities(logs, &mut scratch);
            hold(logs);
            // As `Scores` does it, which is where the second model's fit had its rows from.
            narrow_in_order(logs, &mut sorter, scores);
            if self.then.reads_order() {
                order.extend_from_slice(sorter.sort(scores));
            }
        }
        let between = Block {
            scores: &scores,
            order: &order,
            classes,
        };
        self.then.logits(&between, logits);
    }
}

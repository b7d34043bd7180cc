//! One model behind another: g(ln softmax(f(x))).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{Model, check};
use crate::error::Result;
use crate::math::softmax;
use crate::rank::{Narrower, Sorter};

/// The smallest log-probability that a second model reads: those of logits around ±1e38 would overflow
/// 32-bit floats.
const LOWEST: f64 = -1e30;

/// Clamps log-probabilities that a second model is to read to the range of 32-bit floats. `-inf` stays.
pub(crate) fn clamp_log_probs(logs: &mut [f64]) {
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
/// use ordercal::models::{ChainModel, TsModel};
/// use ordercal::{Model, ScoreKind};
///
/// let chain = Model::from(ChainModel::new(TsModel::new(3, 2.0)?, TsModel::new(3, 0.25)?)?);
/// let one = Model::from(TsModel::new(3, 0.5)?);
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
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if they are for different numbers of classes.
    pub fn new(first: impl Into<Model>, then: impl Into<Model>) -> Result<Self> {
        let (first, then) = (Box::new(first.into()), Box::new(then.into()));
        let found = format!("a model for {} classes", then.classes());
        let expected = "as many classes as the model before it";
        check(first.classes() == then.classes(), "then", found, expected)?;
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

impl Form for ChainModel {
    fn classes(&self) -> usize {
        self.first.classes()
    }

    fn order_preserving(&self) -> bool {
        self.first.order_preserving() && self.then.order_preserving()
    }

    fn reads_order(&self) -> bool {
        self.first.reads_order()
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        self.first.logits(block, logits);
        let mut scratch = vec![0.0; classes];
        let (mut narrower, mut sorter) = (Narrower::new(classes), Sorter::new(classes));
        let mut scores = vec![0.0_f32; logits.len()];
        let mut order = Vec::new();
        let rows = logits.chunks_exact_mut(classes);
        for (logs, scores) in rows.zip(scores.chunks_exact_mut(classes)) {
            softmax::log_probabilities(logs, &mut scratch);
            clamp_log_probs(logs);
            // As `Scores` does it, which is where the second model's fit had its rows from.
            narrower.narrow(logs, scores);
            if self.then.reads_order() {
                order.extend_from_slice(sorter.sort(scores));
            }
        }
        let between = RowBlock {
            scores: &scores,
            order: &order,
            classes,
        };
        self.then.logits(&between, logits);
    }
}

impl Stored for ChainModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let first = parts.child("first.", &self.first)?;
        let then = parts.child("then.", &self.then)?;
        parts.set(&ChainSettings { first, then });
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let ChainSettings { first, then } = parts.settings()?;
        let first = parts.child("first.", first)?;
        Self::new(first, parts.child("then.", then)?)
    }
}

/// What a file says of the model.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainSettings {
    first: Value,
    then: Value,
}

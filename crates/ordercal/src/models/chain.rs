//! The composition of two models: g(ln softmax(f(x))).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{Model, check};
use crate::error::Result;
use crate::math::softmax;
use crate::rank::{Narrower, Sorter};
use crate::real::Real;

/// The smallest log-probability passed to the second model. Logits around ±1e38 have log-probabilities that overflow 32-bit
/// floats.
const LOWEST: f64 = -1e30;

/// Clamps log-probabilities to the range of the second model's 32-bit input. `-inf` stays.
pub(crate) fn clamp_log_probs(logs: &mut [f64]) {
    for log in logs {
        if *log < LOWEST && *log > f64::NEG_INFINITY {
            *log = LOWEST;
        }
    }
}

/// The same for a single number that has been rounded already.
pub(crate) fn clamp_log_prob_f32(log: f32) -> f32 {
    if log > f32::NEG_INFINITY {
        log.max(LOWEST as f32)
    } else {
        log
    }
}

/// The composition g(ln softmax(f(x))) of two models for K classes: the second, g, reads the log-probabilities of the
/// first, f, as 32-bit floats (a temperature reads them in 64 bits).
///
/// The composition of order-preserving models is order-preserving.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainModel {
    first: Box<Model>,
    then: Box<Model>,
}

impl ChainModel {
    /// The composition `then` ∘ `first`.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if their numbers of classes differ.
    pub fn new(first: impl Into<Model>, then: impl Into<Model>) -> Result<Self> {
        let (first, then) = (Box::new(first.into()), Box::new(then.into()));
        let found = format!("a model for {} classes", then.classes());
        let expected = "as many classes as `first` has";
        check(first.classes() == then.classes(), "then", found, expected)?;
        Ok(Self { first, then })
    }

    /// The model f, which reads the scores.
    pub fn first(&self) -> &Model {
        &self.first
    }

    /// Whether the second is a temperature, to which nothing is passed on.
    pub(super) fn only_tempers(&self) -> bool {
        matches!(*self.then, Model::Ts(_))
    }

    /// Whether both pass the same numbers on.
    pub(super) fn passes_on_as(&self, other: &Self) -> bool {
        !self.only_tempers()
            && !other.only_tempers()
            && self.then.order_preserving() == other.then.order_preserving()
            && self.first == other.first
    }

    /// The model g, which reads the log-probabilities of the first.
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
        if let Model::Ts(ts) = &*self.then {
            // A temperature needs neither logarithms of probabilities nor their rounding: a shift of a row cancels.
            self.first.logits(block, logits);
            let beta = ts.inverse_temperature();
            logits.iter_mut().for_each(|logit| *logit *= beta);
            return;
        }
        let mut first = self.pass_on(block);
        let between = first.block(&self.then, block.classes);
        self.then.logits(&between, logits);
    }
}

/// What the first model of a chain passes on to the second, as 32-bit log-probabilities.
pub(super) struct PassedOn {
    scores: Vec<f32>,
    /// Empty until a model asks for it.
    order: Vec<u32>,
}

impl ChainModel {
    /// The scores that the second model reads.
    pub(super) fn pass_on(&self, block: &RowBlock<'_>) -> PassedOn {
        let classes = block.classes;
        let mut logs = vec![0.0; block.scores.len()];
        self.first.logits(block, &mut logs);
        softmax::log_probabilities(&mut logs, classes, &mut Vec::new());
        clamp_log_probs(&mut logs);
        let mut scores = vec![0.0_f32; logs.len()];
        if self.then.order_preserving() {
            let mut narrower = Narrower::new(classes);
            let rows = logs.chunks_exact(classes);
            for (logs, scores) in rows.zip(scores.chunks_exact_mut(classes)) {
                narrower.narrow(logs, logs, scores);
            }
        } else {
            // Classes that rounding makes equal need not be kept apart.
            f32::round_all(&logs, None, &mut scores);
        }
        PassedOn {
            scores,
            order: Vec::new(),
        }
    }
}

impl PassedOn {
    /// The rows that a model reads, sorted if it asks for that.
    pub(super) fn block(&mut self, then: &Model, classes: usize) -> RowBlock<'_> {
        let Self { scores, order } = self;
        if then.reads_order() && order.is_empty() {
            let mut sorter = Sorter::new(classes);
            for row in scores.chunks_exact(classes) {
                order.extend_from_slice(sorter.sort(row));
            }
        }
        RowBlock {
            scores,
            order,
            classes,
        }
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

/// The settings in a model file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainSettings {
    first: Value,
    then: Value,
}

//! Models whose probabilities are projected onto the order of the scores.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::projection::Projector;
use super::{Model, check_beta};
use crate::error::Result;
use crate::math::exp::{exp_f64, ln_f64};
use crate::math::simd::vectorized;
use crate::math::softmax;

/// The weight of softmax(βx) in a projection: a small share, so that classes with different scores are never tied.
pub const SLIVER: f64 = 1e-6;

/// A fitted model whose probabilities q are projected onto the order of the scores x.
///
/// The result is (1 − s)·p + s·softmax(βx), where p minimises KL(q‖p) among the distributions that rank the classes as the
/// scores do ([`Projector`]) and s = [`SLIVER`] makes the order strict.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedModel {
    inner: Box<Model>,
    beta: f64,
}

impl OrderedModel {
    /// Projects a fitted model; β > 0 is the inverse temperature of the distribution that is mixed in. A model that is
    /// already order-preserving changes only by the weight [`SLIVER`].
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if β is not positive.
    pub fn new(inner: Model, beta: f64) -> Result<Self> {
        check_beta(beta)?;
        Ok(Self {
            inner: Box::new(inner),
            beta,
        })
    }

    /// The model that is projected.
    pub fn inner(&self) -> &Model {
        &self.inner
    }

    /// β, the inverse temperature of the distribution that is mixed in.
    pub fn inverse_temperature(&self) -> f64 {
        self.beta
    }
}

impl Form for OrderedModel {
    fn classes(&self) -> usize {
        self.inner.classes()
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        self.inner.probabilities(block, logits);
        let mut projection = OrderProjection::new(classes, self.beta);
        let mut wide = Vec::new();
        for (row, probs) in logits.chunks_exact_mut(classes).enumerate() {
            let (scores, order) = (block.row(row), block.row_order(row));
            projection.projector.project(scores, order, probs);
            if self.beta * spread(scores, order) > WIDEST {
                projection.log_domain(scores, probs);
                wide.push((row, probs.to_vec()));
            }
        }
        let scores = block.scores.iter();
        let mut tempered: Vec<f64> = scores.map(|&x| self.beta * f64::from(x)).collect();
        softmax::unnormalised_rows(&mut tempered, classes);
        softmax::normalise_rows(&mut tempered, classes);
        mix_in(&tempered, block.scores, logits);
        for (row, logs) in wide {
            logits[row * classes..][..classes].copy_from_slice(&logs);
        }
    }
}

/// Tempered scores that differ by at most this have probabilities that 64 bits can represent.
const WIDEST: f64 = 600.0;

/// The difference between the largest and the smallest score that is not masked.
fn spread(scores: &[f32], order: &[u32]) -> f64 {
    let mut descending = order.iter().map(|&class| f64::from(scores[class as usize]));
    let top = descending.next().unwrap_or(0.0);
    let lowest = descending.rfind(|&score| score > f64::NEG_INFINITY);
    lowest.map_or(0.0, |lowest| top - lowest)
}

impl Stored for OrderedModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let inner = parts.child("", &self.inner)?;
        parts.set(&OrderedSettings {
            beta: self.beta,
            inner,
        });
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let OrderedSettings { beta, inner } = parts.settings()?;
        Self::new(parts.child("", inner)?, beta)
    }
}

/// The settings in a model file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderedSettings {
    beta: f64,
    inner: Value,
}

/// Projects rows of probabilities onto the order of their scores, without allocating per row.
pub(crate) struct OrderProjection {
    beta: f64,
    projector: Projector,
    tempered: Vec<f64>,
    scratch: Vec<f64>,
}

impl OrderProjection {
    /// A projection for rows of K = `classes` that mixes in softmax(βx).
    pub(crate) fn new(classes: usize, beta: f64) -> Self {
        Self {
            beta,
            projector: Projector::default(),
            tempered: vec![0.0; classes],
            scratch: Vec::new(),
        }
    }

    /// Replaces a row's probabilities by the logarithms of their projection; `-inf` for masked classes.
    pub(crate) fn log_probabilities(&mut self, scores: &[f32], order: &[u32], probs: &mut [f64]) {
        self.projector.project(scores, order, probs);
        self.log_domain(scores, probs);
    }

    /// Mixes softmax(βx) in, and takes logarithms, where its probabilities may vanish.
    fn log_domain(&mut self, scores: &[f32], probs: &mut [f64]) {
        for (tempered, &score) in self.tempered.iter_mut().zip(scores) {
            *tempered = self.beta * f64::from(score);
        }
        softmax::log_probabilities(&mut self.tempered, scores.len(), &mut self.scratch);
        mix_in_logs(&self.tempered, scores, probs);
    }
}

vectorized! {
    /// ln((1 − s)p + st) for the probability p and the tempered probability t of every class, s being the sliver.
    fn mix_in(tempered: &[f64], scores: &[f32], probs: &mut [f64]) {
        for ((p, &tempered), &score) in probs.iter_mut().zip(tempered).zip(scores) {
            let log = ln_f64((1.0 - SLIVER) * *p + SLIVER * tempered);
            *p = if score > f32::NEG_INFINITY { log } else { f64::NEG_INFINITY };
        }
    }
}

vectorized! {
    /// The same with the logarithm of the tempered probability.
    fn mix_in_logs(tempered: &[f64], scores: &[f32], probs: &mut [f64]) {
        let (most, sliver) = ((-SLIVER).ln_1p(), SLIVER.ln());
        for ((p, &tempered), &score) in probs.iter_mut().zip(tempered).zip(scores) {
            let own = if *p >= f64::MIN_POSITIVE { most + ln_f64(*p) } else { f64::NEG_INFINITY };
            let mixed = sliver + tempered;
            let (top, below) = if own > mixed { (own, mixed) } else { (mixed, own) };
            let log = top + ln_f64(1.0 + exp_f64(below - top));
            *p = if score > f32::NEG_INFINITY { log } else { f64::NEG_INFINITY };
        }
    }
}

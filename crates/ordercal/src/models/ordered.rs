//! `KEY+order`: any free method, with its probabilities projected back onto the input's order.

use super::apply::{self, Block};
use super::ets::log_sum;
use super::projection::Projector;
use super::{Method, Model, ts};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::traits::{Calibrator, FitReport, Transform, Unwatched, Watch};

/// A free method made order-preserving: its models' probabilities are projected onto the input's order.
///
/// Each row q of the inner model's probabilities becomes the closest distribution in KL(q‖p) that ranks
/// the classes as the input row does ([`Projector`]). Pooled classes would be tied, so a sliver
/// ([`SLIVER`]) of the tempered input distribution softmax(βx) is mixed in: strict steps stay strict.
///
/// Its key is the inner method's with `+order` behind it, and as JSON it is the inner method under that key:
/// `{"method": "sms+order", "lambda": 2.0}`.
///
/// ```
/// use ordercal::{Error, Method, Ordered, Sms, Ts};
///
/// let ordered = Ordered::new(Sms::default())?;
/// assert_eq!(Method::from(ordered), Method::from_key("sms+order")?);
/// // What keeps the order already has nothing to project.
/// assert!(matches!(Ordered::new(Ts::default()), Err(Error::AlreadyOrdered { key: "ts" })));
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered {
    inner: Box<Method>,
}

/// The share of the tempered input distribution in the result.
pub const SLIVER: f64 = 1e-6;

/// The keys of the free methods, and of their projections.
const KEYS: [(&str, &str); 12] = [
    ("vs", "vs+order"),
    ("ms-odir", "ms-odir+order"),
    ("dir-odir", "dir-odir+order"),
    ("svs", "svs+order"),
    ("sms", "sms+order"),
    ("platt", "platt+order"),
    ("beta", "beta+order"),
    ("isotonic", "isotonic+order"),
    ("histogram", "histogram+order"),
    ("bbq", "bbq+order"),
    ("unconstrained", "unconstrained+order"),
    ("auto-free", "auto-free+order"),
];

impl Ordered {
    /// Projects a free method.
    ///
    /// # Errors
    /// [`Error::AlreadyOrdered`] for a method that keeps the order without it.
    pub fn new(inner: impl Into<Method>) -> Result<Self> {
        let inner = inner.into();
        if inner.promises_order() {
            return Err(Error::AlreadyOrdered { key: inner.key() });
        }
        Ok(Self {
            inner: Box::new(inner),
        })
    }

    /// The method that is projected.
    pub fn inner(&self) -> &Method {
        &self.inner
    }
}

/// A fitted free model with the projection behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedModel {
    inner: Box<Model>,
    beta: f64,
}

impl OrderedModel {
    /// Projects a fitted model; β > 0 tempers the input distribution that keeps strict steps strict. A model
    /// that keeps the order already (what `auto-free` falls back to) hardly changes.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if β is not positive.
    pub fn new(inner: Model, beta: f64) -> Result<Self> {
        if !(beta > 0.0 && beta.is_finite()) {
            return Err(Error::InvalidParameter {
                name: "beta",
                value: beta.to_string(),
                expected: "a positive number",
            });
        }
        Ok(Self {
            inner: Box::new(inner),
            beta,
        })
    }

    /// The model that is projected.
    pub fn inner(&self) -> &Model {
        &self.inner
    }

    /// β.
    pub fn inverse_temperature(&self) -> f64 {
        self.beta
    }
}

impl Transform for OrderedModel {
    fn classes(&self) -> usize {
        self.inner.classes()
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        self.inner.logits(block, logits);
        let mut projector = Projector::default();
        let mut tempered = vec![0.0; classes];
        let mut scratch = vec![0.0; classes];
        let (most, sliver) = ((-SLIVER).ln_1p(), SLIVER.ln());
        for (row, probs) in logits.chunks_exact_mut(classes).enumerate() {
            let scores = block.row(row);
            softmax::probabilities(probs);
            projector.project(scores, block.row_order(row), probs);
            for (tempered, &score) in tempered.iter_mut().zip(scores) {
                *tempered = self.beta * f64::from(score);
            }
            softmax::log_probabilities(&mut tempered, &mut scratch);
            for ((p, &tempered), &score) in probs.iter_mut().zip(&tempered).zip(scores) {
                *p = if score > f32::NEG_INFINITY {
                    log_sum(&[most + p.ln(), sliver + tempered])
                } else {
                    f64::NEG_INFINITY
                };
            }
        }
    }
}

impl Calibrator for Ordered {
    type Model = OrderedModel;

    fn key(&self) -> &'static str {
        let inner = self.inner.key();
        let found = KEYS.iter().find(|(plain, _)| *plain == inner);
        found.expect("every free method has a key of its own").1
    }

    fn validate(&self) -> Result<()> {
        self.inner.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(OrderedModel, FitReport)> {
        let fitted = self.inner.fit_watched(data, watch)?;
        let (beta, _) = ts::fit_beta(data, &Unwatched)?;
        let model = OrderedModel {
            inner: Box::new(fitted.model),
            beta,
        };
        let mut report = fitted.report;
        report.nll_after = apply::mean_nll(&model, data);
        report.evaluations += 1;
        Ok((model, report))
    }
}

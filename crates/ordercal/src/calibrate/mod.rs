//! The calibrators: [`Method`] holds hyperparameters and fits, [`Model`] is what was fitted and applies.

mod apply;
mod diag;
mod network;
mod oi;
mod op;
mod ts;
mod uncalibrated;
mod unconstrained;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::real::Real;
use crate::traits::{Calibrator, FitReport, Transform, Unwatched, Watch};

pub use apply::Block;
pub use diag::{Diag, DiagModel};
pub use network::{Family, Network, NetworkModel, NetworkParts, Wiring};
pub use oi::{Oi, OrderInvariant};
pub use op::{Op, OrderPreserving};
pub use ts::{SPREAD_BOUNDS, Ts, TsModel};
pub use uncalibrated::{Uncalibrated, UncalibratedModel};
pub use unconstrained::{NoConstraint, Unconstrained};

/// A calibration method with its hyperparameters.
///
/// As JSON or TOML it is a table with the key `method` beside the hyperparameters, each of which may be
/// left out: `{"method": "oi", "hidden": [100, 100]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// The scores as they are.
    Uncalibrated(Uncalibrated),
    /// Temperature scaling.
    Ts(Ts),
    /// One increasing function for all classes.
    Diag(Diag),
    /// Order-preserving and order-invariant.
    Oi(Oi),
    /// Order-preserving.
    Op(Op),
    /// A plain network; may change predictions.
    Unconstrained(Unconstrained),
}

/// A model with the report of its fit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// The fitted model.
    pub model: Model,
    /// How the fit went.
    pub report: FitReport,
}

/// Runs `$body` with the content of whichever variant it is.
macro_rules! each {
    ($value:expr, $enum:ident { $($variant:ident),* }, $inner:ident => $body:expr) => {
        match $value { $($enum::$variant($inner) => $body,)* }
    };
}

macro_rules! each_method {
    ($value:expr, $inner:ident => $body:expr) => {
        each!($value, Method { Uncalibrated, Ts, Diag, Oi, Op, Unconstrained }, $inner => $body)
    };
}

macro_rules! each_model {
    ($value:expr, $inner:ident => $body:expr) => {
        each!($value, Model { Uncalibrated, Ts, Diag, Network }, $inner => $body)
    };
}

macro_rules! from_variants {
    ($enum:ident { $($variant:ident($content:ty)),* $(,)? }) => {
        $(impl From<$content> for $enum {
            fn from(content: $content) -> Self {
                Self::$variant(content)
            }
        })*
    };
}

from_variants!(Method {
    Uncalibrated(Uncalibrated),
    Ts(Ts),
    Diag(Diag),
    Oi(Oi),
    Op(Op),
    Unconstrained(Unconstrained),
});

from_variants!(Model {
    Uncalibrated(UncalibratedModel),
    Ts(TsModel),
    Diag(DiagModel),
    Network(NetworkModel),
});

impl Method {
    /// Every method with its default hyperparameters, in the order of the tables.
    pub fn all() -> Vec<Self> {
        vec![
            Uncalibrated::default().into(),
            Ts::default().into(),
            Diag::default().into(),
            Oi::default().into(),
            Op::default().into(),
            Unconstrained::default().into(),
        ]
    }

    /// The method with the given key and default hyperparameters.
    ///
    /// # Errors
    /// [`Error::UnknownMethod`] lists the keys there are.
    pub fn from_key(key: &str) -> Result<Self> {
        let all = Self::all();
        let known = all.iter().map(Self::key).collect::<Vec<_>>().join(" ");
        all.into_iter()
            .find(|method| method.key() == key)
            .ok_or_else(|| Error::UnknownMethod {
                key: key.to_owned(),
                known,
            })
    }

    /// The method's key, as on the command line.
    pub fn key(&self) -> &'static str {
        each_method!(self, method => method.key())
    }

    /// Whether its models promise to keep the ranking of every row.
    pub fn promises_order(&self) -> bool {
        !matches!(self, Self::Unconstrained(_))
    }

    /// Checks every hyperparameter.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first that is out of range.
    pub fn validate(&self) -> Result<()> {
        each_method!(self, method => method.validate())
    }

    /// Learns a model from data.
    ///
    /// # Errors
    /// If a hyperparameter is out of range.
    pub fn fit(&self, data: &Dataset<'_>) -> Result<Fitted> {
        self.fit_watched(data, &Unwatched)
    }

    /// Learns a model from data, telling `watch` how it goes; `watch` can cancel the fit.
    ///
    /// # Errors
    /// If a hyperparameter is out of range, or [`Error::Cancelled`].
    pub fn fit_watched(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        each_method!(self, method => {
            let (model, report) = method.fit(data, watch)?;
            let model = model.into();
            Ok(Fitted { model, report })
        })
    }
}

/// A fitted calibrator.
///
/// Rows come out in the float type and as the kind of score that the caller asks for; an order-preserving
/// model keeps the ranking of every row in *that* type (see [`crate::rank`]).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Model {
    /// The identity.
    Uncalibrated(UncalibratedModel),
    /// A temperature.
    Ts(TsModel),
    /// One increasing function for all classes.
    Diag(DiagModel),
    /// One of the network families.
    Network(NetworkModel),
}

impl Model {
    /// K, the number of classes it was fitted for.
    pub fn classes(&self) -> usize {
        each_model!(self, model => model.classes())
    }

    /// Whether it promises to keep the ranking of every row.
    pub fn order_preserving(&self) -> bool {
        each_model!(self, model => model.order_preserving())
    }

    /// Calibrates every row: N×K logits, log-probabilities or probabilities.
    ///
    /// # Errors
    /// If the scores are of another number of classes.
    pub fn apply<T: Real>(&self, scores: &Scores<'_>, kind: ScoreKind) -> Result<Array2<T>> {
        let mut output = Array2::default((scores.rows(), self.classes()));
        self.apply_into(scores, kind, output.view_mut())?;
        Ok(output)
    }

    /// The same into a matrix that is there already.
    ///
    /// # Errors
    /// If the scores are of another number of classes, or the matrix of another shape.
    pub fn apply_into<T: Real>(
        &self,
        scores: &Scores<'_>,
        kind: ScoreKind,
        output: ArrayViewMut2<'_, T>,
    ) -> Result<()> {
        each_model!(self, model => apply::apply_into(model, scores, kind, output))
    }

    /// Calibrates a single row of logits, with the same result as in a matrix.
    ///
    /// # Errors
    /// If a score is not valid, or the row is of another width.
    pub fn apply_row<T: Real>(&self, logits: &[f32], kind: ScoreKind) -> Result<Vec<T>> {
        let row =
            ArrayView2::from_shape((1, logits.len()), logits).expect("one row of that length");
        let scores = Scores::new(ScoreKind::Logits, row)?;
        let output = self.apply(&scores, kind)?;
        Ok(output.into_raw_vec_and_offset().0)
    }
}

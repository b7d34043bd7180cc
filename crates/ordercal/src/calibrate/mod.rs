//! The calibrators: [`Method`] holds hyperparameters and fits, [`Model`] is what was fitted and applies.

pub(crate) mod apply;
mod auto;
mod bbq;
mod beta;
mod chain;
mod curves;
pub(crate) mod diag;
mod ets;
mod histogram;
mod isotonic;
mod linear;
mod logistic;
mod mixture;
mod network;
mod odir;
mod oi;
mod one_vs_rest;
mod op;
mod order;
mod parts;
mod platt;
mod projection;
mod sms;
mod svs;
mod tagged;
pub(crate) mod ts;
mod uncalibrated;
mod unconstrained;
mod vs;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::rank::Elementwise;
use crate::real::Real;
use crate::traits::{Calibrator, FitReport, Transform, Unwatched, Watch};

pub use apply::Block;
pub use auto::{Auto, AutoFree, Automatic, Kept, NotKept, Promise};
pub use bbq::Bbq;
pub use beta::Beta;
pub use chain::ChainModel;
pub use curves::{CurveKind, CurvesModel, CurvesParts};
pub use diag::{Diag, DiagModel};
pub use ets::{Ets, EtsModel, EtsParts};
pub use histogram::{BinLayout, Histogram};
pub use isotonic::{BlockLines, Isotonic};
pub use linear::{Features, LinearModel, LinearParts};
pub use logistic::{LogisticModel, LogisticParts, Targets};
pub use mixture::MixtureModel;
pub use network::{Family, Network, NetworkModel, NetworkParts, Wiring};
pub use odir::{DirOdir, MsOdir};
pub use oi::{Oi, OrderInvariant};
pub use op::{Op, OrderPreserving};
pub use order::{Ordered, OrderedModel, SLIVER};
pub use parts::{ModelParts, TensorValues};
pub use platt::Platt;
pub use projection::Projector;
pub use sms::Sms;
pub use svs::Svs;
pub use ts::{SPREAD_BOUNDS, Ts, TsModel};
pub use uncalibrated::{Uncalibrated, UncalibratedModel};
pub use unconstrained::{NoConstraint, Unconstrained};
pub use vs::Vs;

/// A calibration method with its hyperparameters.
///
/// As JSON or TOML it is a table with the key `method` beside the hyperparameters, each of which may be
/// left out: `{"method": "oi", "hidden": [100, 100]}`. A free method with its key followed by `+order` is
/// that method with its probabilities projected onto the input's order, see [`Ordered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "tagged::Tagged", into = "tagged::Tagged")]
#[non_exhaustive]
pub enum Method {
    /// The scores as they are.
    Uncalibrated(Uncalibrated),
    /// Temperature scaling.
    Ts(Ts),
    /// Ensemble temperature scaling.
    Ets(Ets),
    /// One increasing function for all classes.
    Diag(Diag),
    /// Order-preserving and order-invariant.
    Oi(Oi),
    /// Order-preserving.
    Op(Op),
    /// Vector scaling; may change predictions.
    Vs(Vs),
    /// Matrix scaling with ODIR; may change predictions.
    MsOdir(MsOdir),
    /// Dirichlet calibration with ODIR; may change predictions.
    DirOdir(DirOdir),
    /// Structured vector scaling; may change predictions.
    Svs(Svs),
    /// Structured matrix scaling; may change predictions.
    Sms(Sms),
    /// Platt scaling of each class; may change predictions.
    Platt(Platt),
    /// Beta calibration of each class; may change predictions.
    Beta(Beta),
    /// Isotonic regression of each class; may change predictions.
    Isotonic(Isotonic),
    /// Histogram binning of each class; may change predictions.
    Histogram(Histogram),
    /// Bayesian binning into quantiles of each class; may change predictions.
    Bbq(Bbq),
    /// A plain network; may change predictions.
    Unconstrained(Unconstrained),
    /// A mixture of order-preserving methods.
    Auto(Auto),
    /// A mixture of methods; may change predictions.
    AutoFree(AutoFree),
    /// Any of those that may change predictions, projected onto the input's order.
    Ordered(Ordered),
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
        each!($value, Method {
            Uncalibrated, Ts, Ets, Diag, Oi, Op, Vs, MsOdir, DirOdir, Svs, Sms, Platt, Beta,
            Isotonic, Histogram, Bbq, Unconstrained, Auto, AutoFree, Ordered
        }, $inner => $body)
    };
}

macro_rules! each_model {
    ($value:expr, $inner:ident => $body:expr) => {
        each!($value, Model {
            Uncalibrated, Ts, Ets, Diag, Network, Linear, Logistic, Curves, Ordered, Mixture, Chain
        }, $inner => $body)
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
    Ets(Ets),
    Diag(Diag),
    Oi(Oi),
    Op(Op),
    Vs(Vs),
    MsOdir(MsOdir),
    DirOdir(DirOdir),
    Svs(Svs),
    Sms(Sms),
    Platt(Platt),
    Beta(Beta),
    Isotonic(Isotonic),
    Histogram(Histogram),
    Bbq(Bbq),
    Unconstrained(Unconstrained),
    Auto(Auto),
    AutoFree(AutoFree),
    Ordered(Ordered),
});

from_variants!(Model {
    Uncalibrated(UncalibratedModel),
    Ts(TsModel),
    Ets(EtsModel),
    Diag(DiagModel),
    Network(NetworkModel),
    Linear(LinearModel),
    Logistic(LogisticModel),
    Curves(CurvesModel),
    Ordered(OrderedModel),
    Mixture(MixtureModel),
    Chain(ChainModel),
});

impl Method {
    /// Every method with its default hyperparameters, in the order of the tables. The free ones come once
    /// more as `KEY+order`, which are not listed.
    pub fn all() -> Vec<Self> {
        vec![
            Uncalibrated::default().into(),
            Ts::default().into(),
            Ets::default().into(),
            Diag::default().into(),
            Oi::default().into(),
            Op::default().into(),
            Vs::default().into(),
            MsOdir::default().into(),
            DirOdir::default().into(),
            Svs::default().into(),
            Sms::default().into(),
            Platt::default().into(),
            Beta::default().into(),
            Isotonic::default().into(),
            Histogram::default().into(),
            Bbq::default().into(),
            Unconstrained::default().into(),
            Auto::default().into(),
            AutoFree::default().into(),
        ]
    }

    /// The method with the given key, or `KEY+order`, and default hyperparameters.
    ///
    /// # Errors
    /// [`Error::UnknownMethod`] lists the keys there are; [`Error::AlreadyOrdered`] for `+order` behind a
    /// method that keeps the order by itself.
    pub fn from_key(key: &str) -> Result<Self> {
        if let Some(inner) = key.strip_suffix("+order") {
            return Ok(Ordered::new(Self::from_key(inner)?)?.into());
        }
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
        !matches!(
            self,
            Self::Vs(_)
                | Self::MsOdir(_)
                | Self::DirOdir(_)
                | Self::Svs(_)
                | Self::Sms(_)
                | Self::Platt(_)
                | Self::Beta(_)
                | Self::Isotonic(_)
                | Self::Histogram(_)
                | Self::Bbq(_)
                | Self::Unconstrained(_)
                | Self::AutoFree(_)
        )
    }

    /// The same method if it promises to keep the order, or else its projection onto the order.
    #[must_use]
    pub fn keep_order(self) -> Self {
        match Ordered::new(self.clone()) {
            Ok(ordered) => ordered.into(),
            Err(_) => self,
        }
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
            // Of `auto`, whose models are of any kind, it is one already.
            #[allow(clippy::useless_conversion)]
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
    /// A mixture of the tempered, the original and the uniform distribution.
    Ets(EtsModel),
    /// One increasing function for all classes.
    Diag(DiagModel),
    /// One of the network families.
    Network(NetworkModel),
    /// A linear map of logits or log-probabilities.
    Linear(LinearModel),
    /// A logistic function of each class's probability.
    Logistic(LogisticModel),
    /// A curve for each class's probability.
    Curves(CurvesModel),
    /// A free model projected onto the input's order.
    Ordered(OrderedModel),
    /// An average of models.
    Mixture(MixtureModel),
    /// A model behind another.
    Chain(ChainModel),
}

impl Transform for Model {
    fn classes(&self) -> usize {
        each_model!(self, model => model.classes())
    }

    fn order_preserving(&self) -> bool {
        each_model!(self, model => model.order_preserving())
    }

    fn reads_order(&self) -> bool {
        each_model!(self, model => model.reads_order())
    }

    fn elementwise(&self) -> Option<Elementwise> {
        each_model!(self, model => model.elementwise())
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        each_model!(self, model => model.logits(block, logits))
    }

    fn unnormalised(&self, block: &Block<'_>, unnormalised: &mut [f64]) {
        each_model!(self, model => model.unnormalised(block, unnormalised))
    }
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

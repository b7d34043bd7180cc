//! What was fitted: [`Model`], and one file per form that a model can have.

pub(crate) mod apply;
mod chain;
mod curves;
mod custom;
mod diag;
mod ets;
mod features;
mod form;
mod linear;
mod logistic;
mod mixture;
mod network;
pub(crate) mod one_vs_rest;
mod ordered;
mod parts;
mod projection;
mod ts;
mod uncalibrated;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use crate::data::{ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::rank::Elementwise;
use crate::real::Real;

pub use chain::ChainModel;
pub(crate) use chain::clamp_log_probs;
pub(crate) use curves::Curve;
pub use curves::{CurveKind, CurvesModel, CurvesParts};
pub use custom::{CustomModel, Transform};
pub use diag::DiagModel;
pub use ets::{EtsModel, EtsParts};
pub use features::Features;
pub(crate) use form::{Form, RowBlock};
pub(crate) use linear::{LARGEST_WEIGHT, LinearShape};
pub use linear::{LinearModel, LinearParts};
pub(crate) use logistic::logarithms;
pub use logistic::{LogisticModel, LogisticParts};
pub use mixture::MixtureModel;
pub(crate) use network::check_hidden;
pub use network::{NetworkModel, NetworkParts, Wiring};
pub(crate) use ordered::OrderProjection;
pub use ordered::{OrderedModel, SLIVER};
pub use parts::{ModelParts, TensorValues};
use parts::{PartsReader, Stored};
pub use projection::Projector;
pub use ts::TsModel;
pub use uncalibrated::UncalibratedModel;

/// Calls the macro `$use` with every form of model: its variant of [`Model`], its type, and its name in files.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_form {
    ($use:ident) => {
        $use! {
            /// The identity.
            Uncalibrated(UncalibratedModel) "uncalibrated",
            /// A temperature.
            Ts(TsModel) "ts",
            /// A mixture of the tempered, the original and the uniform distribution.
            Ets(EtsModel) "ets",
            /// One increasing function for all classes.
            Diag(DiagModel) "diag",
            /// One of the network families.
            Network(NetworkModel) "network",
            /// A linear map of logits or log-probabilities.
            Linear(LinearModel) "linear",
            /// A logistic function of each class's probability.
            Logistic(LogisticModel) "logistic",
            /// A curve for each class's probability.
            Curves(CurvesModel) "curves",
            /// A free model projected onto the input's order.
            Ordered(OrderedModel) "ordered",
            /// An average of models.
            Mixture(MixtureModel) "mixture",
            /// A model behind another.
            Chain(ChainModel) "chain",
            /// A model of your own.
            Custom(CustomModel) "custom",
        }
    };
}

macro_rules! define_model {
    ($($(#[$doc:meta])* $variant:ident($form:ident) $name:literal,)*) => {
        /// A fitted calibrator.
        ///
        /// Rows come out in the float type and as the kind of score that the caller asks for; an
        /// order-preserving model keeps the ranking of every row in *that* type (see [`crate::rank`]).
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Model {
            $($(#[$doc])* $variant($form),)*
        }

        $(impl From<$form> for Model {
            fn from(form: $form) -> Self {
                Self::$variant(form)
            }
        })*

        /// Runs `$body` with the form that a model has.
        macro_rules! each_form {
            ($model:expr, $inner:ident => $body:expr) => {
                match $model { $(Model::$variant($inner) => $body,)* }
            };
        }

        impl Model {
            /// The name of its form, as in a model file.
            pub fn form(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            fn read_form(form: &str, parts: &mut PartsReader<'_>) -> Result<Self> {
                match form {
                    $($name => $form::read(parts).map(Self::from),)*
                    other => Err(Error::InvalidPart {
                        part: "form".into(),
                        found: format!("`{other}`"),
                        expected: concat!("one of" $(, " ", $name)*),
                    }),
                }
            }
        }
    };
}

for_each_form!(define_model);

impl Form for Model {
    fn classes(&self) -> usize {
        each_form!(self, form => form.classes())
    }

    fn order_preserving(&self) -> bool {
        each_form!(self, form => form.order_preserving())
    }

    fn reads_order(&self) -> bool {
        each_form!(self, form => form.reads_order())
    }

    fn elementwise(&self) -> Option<Elementwise> {
        each_form!(self, form => form.elementwise())
    }

    fn function(&self, score: f64) -> Option<f64> {
        each_form!(self, form => Form::function(form, score))
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        each_form!(self, form => form.logits(block, logits))
    }

    fn unnormalised(&self, block: &RowBlock<'_>, unnormalised: &mut [f64]) {
        each_form!(self, form => form.unnormalised(block, unnormalised))
    }
}

impl Model {
    /// A model of your own: any map from a row of scores to a row of probabilities.
    pub fn custom(transform: impl Transform + 'static) -> Self {
        CustomModel::new(transform).into()
    }

    /// K, the number of classes it was fitted for.
    pub fn classes(&self) -> usize {
        Form::classes(self)
    }

    /// Whether it promises to keep the ranking of every row.
    pub fn order_preserving(&self) -> bool {
        Form::order_preserving(self)
    }

    /// The increasing function that every score goes through, at `score`, for models that have one: those of
    /// `uncalibrated`, `ts` and `diag`.
    pub fn function(&self, score: f64) -> Option<f64> {
        Form::function(self, score)
    }

    /// Takes the model apart.
    ///
    /// # Errors
    /// [`Error::CannotStore`] if there is a [custom](Self::custom) model in it.
    pub fn to_parts(&self) -> Result<ModelParts> {
        let mut parts = ModelParts::of_form(self.form());
        each_form!(self, form => form.write(&mut parts))?;
        Ok(parts)
    }

    /// Builds a model from its parts, and checks all of them.
    ///
    /// # Errors
    /// [`Error::InvalidPart`] names the first part that is missing, out of range or does not fit the others.
    pub fn from_parts(parts: ModelParts) -> Result<Self> {
        PartsReader::read_all(parts)
    }

    /// Calibrates every row: N×K scores of the kind `output`.
    ///
    /// # Errors
    /// If the scores are of another number of classes.
    pub fn apply<T: Real>(&self, scores: &Scores<'_>, output: ScoreKind) -> Result<Array2<T>> {
        let mut results = Array2::default((scores.rows(), self.classes()));
        self.apply_into(scores, output, results.view_mut())?;
        Ok(results)
    }

    /// The same into a matrix that is there already.
    ///
    /// # Errors
    /// If the scores are of another number of classes, or the matrix of another shape.
    pub fn apply_into<T: Real>(
        &self,
        scores: &Scores<'_>,
        output: ScoreKind,
        results: ArrayViewMut2<'_, T>,
    ) -> Result<()> {
        each_form!(self, form => apply::apply_into(form, scores, output, results))
    }

    /// Calibrates a single row of logits, with the same result as in a matrix.
    ///
    /// # Errors
    /// If a score is not valid, or the row is of another width.
    pub fn apply_row<T: Real>(&self, logits: &[f32], output: ScoreKind) -> Result<Vec<T>> {
        let row =
            ArrayView2::from_shape((1, logits.len()), logits).expect("one row of that length");
        let scores = Scores::new(ScoreKind::Logits, row)?;
        let results = self.apply(&scores, output)?;
        Ok(results.into_raw_vec_and_offset().0)
    }
}

/// Checks a number of classes that was stored.
fn check_classes(classes: usize) -> Result<()> {
    check(classes >= 2, "classes", classes, "at least 2")
}

/// Checks an inverse temperature that was stored.
fn check_beta(beta: f64) -> Result<()> {
    let good = beta > 0.0 && beta.is_finite();
    check(good, "beta", beta, "a positive number")
}

/// Refuses a part of a model that is not as it should be.
fn check(
    good: bool,
    part: &'static str,
    found: impl ToString,
    expected: &'static str,
) -> Result<()> {
    if good {
        return Ok(());
    }
    Err(Error::InvalidPart {
        part: part.into(),
        found: found.to_string(),
        expected,
    })
}

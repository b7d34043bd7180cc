//! Fitted models: [`Model`], and one file per form of model.

pub(crate) mod apply;
mod chain;
mod curves;
mod custom;
mod diag;
mod ets;
mod features;
mod form;
pub(crate) mod kernel;
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
use crate::math::tile::Lanes;
use crate::rank::Elementwise;
use crate::real::{Real, zeros};

pub use chain::ChainModel;
pub(crate) use chain::clamp_log_prob_f32;
pub(crate) use curves::Curve;
pub use curves::{CurveKind, CurvesModel, CurvesParts};
pub use custom::{CustomModel, Transform};
pub use diag::DiagModel;
pub use ets::{EtsModel, EtsParts};
pub use features::Features;
pub(crate) use form::{Form, RowBlock, count_unmasked};
pub use kernel::{KernelModel, KernelParts};
pub(crate) use linear::{LARGEST_WEIGHT, LinearShape};
pub use linear::{LinearModel, LinearParts};
#[cfg(test)]
pub(crate) use logistic::log_probabilities;
pub use logistic::{LogisticModel, LogisticParts};
pub use mixture::MixtureModel;
pub(crate) use network::{InputReader, check_hidden};
pub use network::{NetworkModel, NetworkParts, Wiring};
pub(crate) use ordered::OrderProjection;
pub use ordered::{OrderedModel, SLIVER};
pub use parts::{ModelParts, TensorValues};
use parts::{PartsReader, Stored};
pub use projection::Projector;
pub use ts::TsModel;
pub use uncalibrated::UncalibratedModel;

/// Calls the macro `$use` with the table of forms: variant of [`Model`], type, and name in model files.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_form {
    ($use:ident) => {
        $use! {
            /// The identity.
            Uncalibrated(UncalibratedModel) "uncalibrated",
            /// Temperature scaling.
            Ts(TsModel) "ts",
            /// A mixture of the tempered, the original and the uniform distribution.
            Ets(EtsModel) "ets",
            /// One increasing function for all classes.
            Diag(DiagModel) "diag",
            /// A network with one of the three wirings.
            Network(NetworkModel) "network",
            /// A linear map of logits or log-probabilities.
            Linear(LinearModel) "linear",
            /// A logistic function of each class's probability.
            Logistic(LogisticModel) "logistic",
            /// A piecewise linear or constant function of each class's probability.
            Curves(CurvesModel) "curves",
            /// A kernel model of the probabilities.
            Kernel(KernelModel) "kernel",
            /// A model whose probabilities are projected onto the order of the scores.
            Ordered(OrderedModel) "ordered",
            /// A weighted average of models.
            Mixture(MixtureModel) "mixture",
            /// The composition of two models.
            Chain(ChainModel) "chain",
            /// A user's own model.
            Custom(CustomModel) "custom",
        }
    };
}

macro_rules! define_model {
    ($($(#[$doc:meta])* $variant:ident($form:ident) $name:literal,)*) => {
        /// A fitted calibration map: a function from a row of K scores to a row of K calibrated scores.
        ///
        /// The caller chooses the float type and the kind of the result (logits, log-probabilities or probabilities). An
        /// order-preserving model keeps the ranking of every row in that type, after rounding (see [`crate::rank`]).
        ///
        /// ```
        /// use ordercal::models::TsModel;
        /// use ordercal::{Model, ScoreKind};
        ///
        /// let model = Model::from(TsModel::new(2, 0.5)?);
        /// let probs: Vec<f64> = model.apply_row(&[2.0, 0.0], ScoreKind::Probs)?;
        /// assert!((probs[0] - 1.0 / (1.0 + (-1_f64).exp())).abs() < 1e-12);
        /// # Ok::<(), ordercal::Error>(())
        /// ```
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

        /// Evaluates `$body` with `$inner` bound to the model's form.
        macro_rules! each_form {
            ($model:expr, $inner:ident => $body:expr) => {
                match $model { $(Model::$variant($inner) => $body,)* }
            };
        }

        impl Model {
            /// The name of the model's form, as in a model file.
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

    fn tile_logits(&self, scores: &[Lanes<f32>], logits: &mut [Lanes<f64>]) -> bool {
        each_form!(self, form => form.tile_logits(scores, logits))
    }

    fn function(&self, score: f64) -> Option<f64> {
        each_form!(self, form => Form::function(form, score))
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        each_form!(self, form => form.logits(block, logits))
    }

    fn probabilities(&self, block: &RowBlock<'_>, probs: &mut [f64]) {
        each_form!(self, form => form.probabilities(block, probs))
    }
}

impl Model {
    /// A model of your own: any map from a row of scores to a row of probabilities.
    pub fn custom(transform: impl Transform + 'static) -> Self {
        CustomModel::new(transform).into()
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        Form::classes(self)
    }

    /// Whether the model keeps the ranking of every row.
    pub fn order_preserving(&self) -> bool {
        Form::order_preserving(self)
    }

    /// The value at `score` of the increasing function that the model applies to each score, if there is such a function:
    /// for the forms `uncalibrated`, `ts` and `diag`.
    pub fn function(&self, score: f64) -> Option<f64> {
        Form::function(self, score)
    }

    /// The model as plain data, to be stored.
    ///
    /// # Errors
    /// [`Error::CannotStore`] if the model is or contains a [custom](Self::custom) one.
    pub fn to_parts(&self) -> Result<ModelParts> {
        let mut parts = ModelParts::of_form(self.form());
        each_form!(self, form => form.write(&mut parts))?;
        Ok(parts)
    }

    /// Builds a model from its parts and validates them.
    ///
    /// # Errors
    /// [`Error::InvalidPart`] names the first part that is missing, out of range or inconsistent with the others.
    pub fn from_parts(parts: ModelParts) -> Result<Self> {
        PartsReader::read_all(parts)
    }

    /// Calibrates N×K scores; the result is N×K, of the kind `output`.
    ///
    /// # Errors
    /// [`Error::WrongClasses`] if the scores have another number of classes.
    ///
    /// ```
    /// use ndarray::array;
    /// use ordercal::{Model, ScoreKind, Scores, models::TsModel};
    ///
    /// let scores = Scores::new(ScoreKind::Logits, array![[2.0_f32, 0.0], [1.0, 1.0]])?;
    /// let logits = Model::from(TsModel::new(2, 0.5)?).apply::<f32>(&scores, ScoreKind::Logits)?;
    /// assert_eq!(logits, array![[1.0, 0.0], [0.5, 0.5]]);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn apply<T: Real>(&self, scores: &Scores<'_>, output: ScoreKind) -> Result<Array2<T>> {
        let mut results = zeros((scores.rows(), self.classes()));
        self.apply_into(scores, output, results.view_mut())?;
        Ok(results)
    }

    /// [`apply`](Self::apply) into an existing N×K matrix.
    ///
    /// # Errors
    /// [`Error::WrongClasses`] or [`Error::WrongShape`] if the number of classes or the shape differs.
    pub fn apply_into<T: Real>(
        &self,
        scores: &Scores<'_>,
        output: ScoreKind,
        results: ArrayViewMut2<'_, T>,
    ) -> Result<()> {
        each_form!(self, form => apply::apply_into(form, scores, output, results))
    }

    /// Calibrates one row of K logits. The result has the same bits as in a larger matrix.
    ///
    /// # Errors
    /// If a score is invalid, or the row does not have K scores.
    pub fn apply_row<T: Real>(&self, logits: &[f32], output: ScoreKind) -> Result<Vec<T>> {
        let row = ArrayView2::from_shape((1, logits.len()), logits)
            .expect("the slice has the length of the row");
        let scores = Scores::new(ScoreKind::Logits, row)?;
        let results = self.apply(&scores, output)?;
        Ok(results.into_raw_vec_and_offset().0)
    }
}

/// Validates a stored number of classes.
fn check_classes(classes: usize) -> Result<()> {
    check(classes >= 2, "classes", classes, "at least 2")
}

/// Validates a stored inverse temperature.
fn check_beta(beta: f64) -> Result<()> {
    let good = beta > 0.0 && beta.is_finite();
    check(good, "beta", beta, "a positive number")
}

/// An [`Error::InvalidPart`] unless `good`.
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

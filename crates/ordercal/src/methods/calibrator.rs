//! What a method is: hyperparameters that know how to fit, and what they say about themselves.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::models::{Model, UncalibratedModel, apply};
use crate::optim::StopReason;
use crate::watch::Watch;

/// Hyperparameters that know how to fit a [`Model`] to data: what you implement to bring a method of your own.
///
/// With [`Method::custom`](crate::Method::custom) it can be compared with the others, searched over folds and
/// projected onto the order of the scores.
///
/// ```
/// use ndarray::array;
/// use ordercal::prelude::*;
///
/// /// Predicts how often each class occurred, whatever the scores.
/// struct ClassFrequencies;
/// struct Frequencies(Vec<f64>);
///
/// impl Calibrator for ClassFrequencies {
///     fn fit(&self, data: &Dataset<'_>, _: &dyn Watch) -> Result<Fitted, Error> {
///         let mut counts = vec![1.0; data.classes()];
///         for &label in data.labels() {
///             counts[label as usize] += 1.0;
///         }
///         Ok(Fitted::measured(Model::custom(Frequencies(counts)), data))
///     }
/// }
///
/// impl Transform for Frequencies {
///     fn classes(&self) -> usize {
///         self.0.len()
///     }
///
///     fn probabilities(&self, _: &[f32], probs: &mut [f64]) {
///         probs.copy_from_slice(&self.0);
///     }
/// }
///
/// let logits = array![[2.0_f32, 1.0], [1.5, 1.0], [0.0, 2.0], [1.0, 0.9]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &[0, 0, 1, 0])?;
/// let method = Method::custom("frequencies", ClassFrequencies);
/// let free = method.fit(&data)?.model;
/// let probs: Vec<f64> = free.apply_row(&[0.0, 3.0], ScoreKind::Probs)?;
/// assert!(probs[0] > probs[1]);
/// // Projected, it predicts what the scores predict.
/// let kept = method.keep_order().fit(&data)?.model;
/// let probs: Vec<f64> = kept.apply_row(&[0.0, 3.0], ScoreKind::Probs)?;
/// assert!(probs[1] > probs[0]);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub trait Calibrator: Send + Sync {
    /// Learns a model from data, and tells `watch` how it goes
    /// ([`report_progress`](crate::report_progress)).
    ///
    /// # Errors
    /// If a hyperparameter is out of range, or `watch` asked to stop.
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted>;

    /// Checks every hyperparameter.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) names the first that is out of range.
    fn validate(&self) -> Result<()> {
        Ok(())
    }
}

/// What a method in the table says about itself, beside its line there.
pub(crate) trait Describe:
    Calibrator + Default + Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned
{
    /// What it learns, in a few words, for help texts and tables.
    const BRIEF: &'static str;
    /// The name of its class in Python.
    const PYTHON_CLASS: &'static str;
    /// Whether every step of the fit sees all rows, so that their order cannot matter and a weight of 2 is
    /// the same as a repeated row.
    const FULL_BATCH: bool = true;
    /// Whether it divides the rows into folds by itself, so that a search has none to add.
    const OWN_FOLDS: bool = false;

    /// Whether it reads scores as logarithms of probabilities, so that a probability of zero needs a floor
    /// ([`zeros`](super::zeros)).
    const READS_LOGARITHMS: bool = false;

    /// The settings that a search tries; the method as it is if there is nothing to choose.
    fn space(&self, _classes: usize) -> Vec<Self> {
        vec![self.clone()]
    }

    /// The same with a tenth of the work or less, to see which settings are hopeless.
    fn cheaper(&self) -> Self {
        self.clone()
    }
}

/// A model with the report of its fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The fitted model.
    pub model: Model,
    /// How the fit went.
    pub report: FitReport,
}

impl Fitted {
    /// A model with a report that says no more than its NLL on `data` before and after.
    pub fn measured(model: Model, data: &Dataset<'_>) -> Self {
        let nll_after = apply::mean_nll(&model, data);
        let report = FitReport {
            iterations: 0,
            evaluations: 1,
            loss: nll_after,
            nll_before: uncalibrated_nll(data),
            nll_after,
            stop: StopReason::Nothing,
            notes: Vec::new(),
        };
        Self { model, report }
    }
}

/// The mean NLL of the scores as they are.
pub(crate) fn uncalibrated_nll(data: &Dataset<'_>) -> f64 {
    let identity = UncalibratedModel::new(data.classes()).expect("data has two classes or more");
    apply::mean_nll(&identity, data)
}

/// What a fit did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FitReport {
    /// Steps of the optimiser; epochs for mini-batch training; fits for methods that combine others.
    pub iterations: usize,
    /// Passes over the calibration data, or the equivalent in mini-batches.
    pub evaluations: usize,
    /// What was minimised, at the end: mean NLL plus penalties.
    pub loss: f64,
    /// Mean NLL on the calibration data before.
    pub nll_before: f64,
    /// Mean NLL on the calibration data after.
    pub nll_after: f64,
    /// Why the fit ended.
    pub stop: StopReason,
    /// What the method has to say about its model, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl<C: Calibrator + ?Sized> Calibrator for &C {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        (**self).fit(data, watch)
    }

    fn validate(&self) -> Result<()> {
        (**self).validate()
    }
}

impl<C: Calibrator + ?Sized> Calibrator for Box<C> {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        (**self).fit(data, watch)
    }

    fn validate(&self) -> Result<()> {
        (**self).validate()
    }
}

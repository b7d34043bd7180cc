//! The traits of a method: [`Calibrator`] fits a model, `Describe` holds what the registry needs to know.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::models::{Model, UncalibratedModel, apply};
use crate::optim::StopReason;
use crate::watch::Watch;

/// A calibration method: hyperparameters that can fit a [`Model`] to data. Implement it for a method of your own.
///
/// [`Method::custom`](crate::Method::custom) makes a [`Method`](crate::Method) of it, which can be compared with the others,
/// averaged over folds and projected onto the order of the scores.
///
/// ```
/// use ndarray::array;
/// use ordercal::prelude::*;
///
/// /// Predicts the class frequencies, independently of the scores.
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
/// // The projection has the same prediction as the scores.
/// let kept = method.keep_order().fit(&data)?.model;
/// let probs: Vec<f64> = kept.apply_row(&[0.0, 3.0], ScoreKind::Probs)?;
/// assert!(probs[1] > probs[0]);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub trait Calibrator: Send + Sync {
    /// Fits a model to data and reports the progress to `watch` ([`report_progress`](crate::report_progress)).
    ///
    /// # Errors
    /// If a hyperparameter is out of range, or `watch` cancels the fit.
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted>;

    /// Checks every hyperparameter.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) names the first that is out of range.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// What a fit to so many rows and classes is going to take; `None` where it is a matter of seconds or not known.
    fn estimate(&self, _rows: usize, _classes: usize) -> Option<Estimate> {
        None
    }
}

/// What a fit is going to take, to a factor of two: it depends on the machine and on the data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Seconds on the threads of the current pool, all of them idle.
    pub seconds: f64,
    /// Memory beyond the data, in bytes.
    pub bytes: f64,
}

/// The properties of a built-in method that are not in the table.
pub(crate) trait Describe:
    Calibrator + Default + Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned
{
    /// What the method learns, in a few words, for help texts and tables.
    const BRIEF: &'static str;
    /// The name of the method's class in Python.
    const PYTHON_CLASS: &'static str;
    /// Whether every iteration of the fit uses all rows. Then the order of the rows does not matter, and a weight of 2 is
    /// equivalent to a repeated row.
    const FULL_BATCH: bool = true;
    /// Whether the fit itself divides the rows into folds, so that a search does not.
    const OWN_FOLDS: bool = false;

    /// Whether it reads scores as logarithms of probabilities, so that a probability of zero needs a floor
    /// ([`zeros`](super::zeros)).
    const READS_LOGARITHMS: bool = false;

    /// The candidates of a hyperparameter search; only the method itself if there is nothing to choose.
    fn space(&self, _classes: usize) -> Vec<Self> {
        vec![self.clone()]
    }

    /// The same method with at most a tenth of the work, for the first round of successive halving.
    fn cheaper(&self) -> Self {
        self.clone()
    }
}

/// A model with the report of its fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The fitted model.
    pub model: Model,
    /// The report of the fit.
    pub report: FitReport,
}

impl Fitted {
    /// A model with a report that holds its mean NLL on `data` before and after, and no other information on the fit.
    pub fn measured(model: Model, data: &Dataset<'_>) -> Self {
        let nll_after = apply::mean_nll(&model, data);
        let report = FitReport::new(uncalibrated_nll(data), nll_after, StopReason::Nothing);
        Self { model, report }
    }
}

/// The mean NLL of the uncalibrated scores.
fn uncalibrated_nll(data: &Dataset<'_>) -> f64 {
    let identity = UncalibratedModel::new(data.classes()).expect("data have at least two classes");
    apply::mean_nll(&identity, data)
}

/// The report of a fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FitReport {
    /// Iterations of the optimiser; epochs of mini-batch training; fits for methods that combine others.
    pub iterations: usize,
    /// Passes over the calibration data, or the equivalent in mini-batches.
    pub evaluations: usize,
    /// The final value of the objective: mean NLL plus penalties.
    pub loss: f64,
    /// The mean NLL of the uncalibrated scores on the calibration data.
    pub nll_before: f64,
    /// The mean NLL of the model on the calibration data.
    pub nll_after: f64,
    /// The reason for which the fit ended.
    pub stop: StopReason,
    /// The NLL that keeping every prediction costs: that of the model on held-out rows, minus what it would be if
    /// predictions might change. Only `auto` measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_of_order: Option<f64>,
    /// Remarks on the model for the user, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl FitReport {
    /// The report of a fit whose only loss is the NLL, with one pass over the data.
    pub(crate) fn new(nll_before: f64, nll_after: f64, stop: StopReason) -> Self {
        Self {
            iterations: 0,
            evaluations: 1,
            loss: nll_after,
            nll_before,
            nll_after,
            stop,
            notes: Vec::new(),
            price_of_order: None,
        }
    }
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

//! The vocabulary: what a method does, what a model does, and how a fit is watched.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::calibrate::Block;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::optim::StopReason;
use crate::rank::Elementwise;

/// Hyperparameters that know how to fit a [`Transform`] to data.
pub trait Calibrator {
    /// What a fit gives.
    type Model: Transform;

    /// The method's key, as on the command line.
    fn key(&self) -> &'static str;

    /// Checks every hyperparameter.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first that is out of range.
    fn validate(&self) -> Result<()>;

    /// Learns a model from data, telling `watch` how it goes.
    ///
    /// # Errors
    /// If a hyperparameter is out of range, or `watch` asked to stop.
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(Self::Model, FitReport)>;
}

/// A fitted map from a row of scores to a row of logits.
pub trait Transform {
    /// K, the number of classes it was fitted for.
    fn classes(&self) -> usize;

    /// Whether it promises to keep the ranking of every row.
    fn order_preserving(&self) -> bool;

    /// Whether it needs the sorted classes of each row.
    fn reads_order(&self) -> bool {
        self.order_preserving()
    }

    /// How each logit depends on its score, if on nothing else but what is the same for the whole row. Rows
    /// of such a model need not be sorted to keep their order.
    fn elementwise(&self) -> Option<Elementwise> {
        None
    }

    /// Writes the calibrated logits of a block of rows, in class order, as 64-bit floats.
    ///
    /// A row's result may depend on nothing but the row; masked classes become `-inf`. Rounding to what
    /// the caller asked for, and keeping the order there, is done behind this.
    fn logits(&self, block: &Block<'_>, logits: &mut [f64]);

    /// Writes numbers in proportion to the probabilities of each row, the largest of which is far from either end of
    /// what 64 bits can hold.
    ///
    /// They are e^logit up to a factor; a model that knows a shorter way to them than through its logits takes it
    /// here. As with [`logits`](Self::logits), a row's result depends on nothing but the row.
    fn unnormalised(&self, block: &Block<'_>, unnormalised: &mut [f64]) {
        self.logits(block, unnormalised);
        softmax::unnormalised_rows(unnormalised, block.classes);
    }
}

/// What a fit did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FitReport {
    /// Steps of the optimiser; epochs for mini-batch training.
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

/// Where a fit is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps or epochs done.
    pub iteration: usize,
    /// The most there will be.
    pub of: usize,
    /// The current loss.
    pub loss: f64,
}

/// Watches a fit, and can end it.
///
/// Any `Fn(&Progress) -> ControlFlow<()>` is one; [`Unwatched`] looks away.
pub trait Watch: Sync {
    /// Called once per step or epoch; `Break` makes the fit return [`Error::Cancelled`].
    fn progress(&self, progress: &Progress) -> ControlFlow<()>;
}

impl<F: Fn(&Progress) -> ControlFlow<()> + Sync> Watch for F {
    fn progress(&self, progress: &Progress) -> ControlFlow<()> {
        self(progress)
    }
}

/// For fits that nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Tells `watch`, and turns its wish to stop into an error that `?` carries out.
pub(crate) fn tell(watch: &dyn Watch, iteration: usize, of: usize, loss: f64) -> Result<()> {
    let progress = Progress {
        iteration,
        of,
        loss,
    };
    match watch.progress(&progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    }
}

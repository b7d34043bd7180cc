//! Progress reports and cancellation of fits.

use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::error::{Error, Result};

/// The progress of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Iterations or epochs completed.
    pub iteration: usize,
    /// An upper bound on their number.
    pub of: usize,
    /// The current loss.
    pub loss: f64,
}

/// An observer of a fit, which can cancel it.
///
/// Implemented by every `Fn(&Progress) -> ControlFlow<()> + Sync`. [`Unwatched`] ignores the progress.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Error, Method, Progress, ScoreKind, Scores};
/// use std::ops::ControlFlow;
///
/// let scores = Scores::new(ScoreKind::Logits, array![[2.0_f32, 0.0], [1.0, 0.0]])?;
/// let data = Dataset::new(scores, &[0, 1])?;
/// let cancel = |_: &Progress| ControlFlow::Break(());
/// let result = Method::from_key("ts")?.fit_watched(&data, &cancel);
/// assert_eq!(result, Err(Error::Cancelled));
/// # Ok::<(), ordercal::Error>(())
/// ```
pub trait Watch: Sync {
    /// Called once per iteration or epoch; on `Break` the fit returns [`Error::Cancelled`].
    fn progress(&self, progress: &Progress) -> ControlFlow<()>;
}

impl<F: Fn(&Progress) -> ControlFlow<()> + Sync> Watch for F {
    fn progress(&self, progress: &Progress) -> ControlFlow<()> {
        self(progress)
    }
}

/// An observer that ignores the progress and never cancels.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Reports progress from inside a fit: `iteration` of at most `of` are completed, and the current loss.
///
/// # Errors
/// [`Error::Cancelled`] if `watch` cancels the fit.
pub fn report_progress(watch: &dyn Watch, iteration: usize, of: usize, loss: f64) -> Result<()> {
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

/// The state of a [`FitCounter`].
#[derive(Clone, Copy)]
struct CompletedFits {
    fits: usize,
    /// Passes over the data by all completed fits.
    evaluations: usize,
    /// The loss of the last completed fit.
    loss: f64,
}

/// An observer that reports many fits as one: its iterations are completed fits.
///
/// Each iteration inside a fit repeats the number of completed fits, so that an observer can refresh its display and cancel
/// at any time.
pub(crate) struct FitCounter<'a> {
    done: Mutex<CompletedFits>,
    of: usize,
    watch: &'a dyn Watch,
}

impl<'a> FitCounter<'a> {
    /// A counter for `of` fits.
    pub(crate) fn new(of: usize, watch: &'a dyn Watch) -> Self {
        Self {
            done: Mutex::new(CompletedFits {
                fits: 0,
                evaluations: 0,
                loss: f64::INFINITY,
            }),
            of,
            watch,
        }
    }

    /// Counts a completed fit, which made `evaluations` passes over the data and ended at `loss`.
    pub(crate) fn finish(&self, evaluations: usize, loss: f64) -> Result<()> {
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        done.fits = (done.fits + 1).min(self.of);
        done.evaluations += evaluations;
        done.loss = loss;
        // While the lock is held, so that the reported number never decreases.
        report_progress(self.watch, done.fits, self.of, loss)
    }

    /// Passes over the data by all completed fits.
    pub(crate) fn evaluations(&self) -> usize {
        self.done
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .evaluations
    }
}

impl Watch for FitCounter<'_> {
    fn progress(&self, _: &Progress) -> ControlFlow<()> {
        let done = *self.done.lock().unwrap_or_else(|e| e.into_inner());
        self.watch.progress(&Progress {
            iteration: done.fits,
            of: self.of,
            loss: done.loss,
        })
    }
}

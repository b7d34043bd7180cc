//! Watching a fit: progress, and the wish to stop.

use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::error::{Error, Result};

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
/// Any `Fn(&Progress) -> ControlFlow<()>` is one; [`Unwatched`] ignores everything.
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

/// Reports progress from inside a fit.
///
/// # Errors
/// [`Error::Cancelled`] if `watch` asked to stop.
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

/// What [`FitCounter`] has counted.
#[derive(Clone, Copy)]
struct FitsDone {
    fits: usize,
    /// Passes over the data, of all fits.
    evaluations: usize,
    /// The loss of the latest.
    loss: f64,
}

/// Presents many fits as one: its progress is the number of fits done.
///
/// Every step of a fit repeats that number, so that a progress bar stays alive and a wish to stop is heard
/// in the middle of a fit.
pub(crate) struct FitCounter<'a> {
    done: Mutex<FitsDone>,
    of: usize,
    watch: &'a dyn Watch,
}

impl<'a> FitCounter<'a> {
    /// Starts at 0 of `of` fits.
    pub(crate) fn new(of: usize, watch: &'a dyn Watch) -> Self {
        Self {
            done: Mutex::new(FitsDone {
                fits: 0,
                evaluations: 0,
                loss: f64::INFINITY,
            }),
            of,
            watch,
        }
    }

    /// Counts one more fit, which made `evaluations` passes over the data and came to `loss`.
    pub(crate) fn finish(&self, evaluations: usize, loss: f64) -> Result<()> {
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        done.fits = (done.fits + 1).min(self.of);
        done.evaluations += evaluations;
        done.loss = loss;
        // With the lock held, so that the count only ever goes up.
        report_progress(self.watch, done.fits, self.of, loss)
    }

    /// Passes over the data, of all fits so far.
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

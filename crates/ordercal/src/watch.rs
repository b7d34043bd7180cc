//! The progress of many fits as that of one.

use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::error::Result;
use crate::traits::{Progress, Watch, tell};

/// Counts fits. A fit's own steps are passed on as the whole's progress, so that a bar stays alive and a
/// wish to stop is heard in the middle of a fit.
pub(crate) struct Tally<'a> {
    /// Fits done, and the loss of the latest.
    done: Mutex<(usize, f64)>,
    of: usize,
    watch: &'a dyn Watch,
}

impl<'a> Tally<'a> {
    /// None of `of` fits is done.
    pub(crate) fn new(of: usize, watch: &'a dyn Watch) -> Self {
        Self {
            done: Mutex::new((0, f64::INFINITY)),
            of,
            watch,
        }
    }

    /// One more is.
    pub(crate) fn finish(&self, nll: f64) -> Result<()> {
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        *done = ((done.0 + 1).min(self.of), nll);
        // With the lock held, so that the count only ever goes up.
        tell(self.watch, done.0, self.of, nll)
    }
}

impl Watch for Tally<'_> {
    fn progress(&self, _: &Progress) -> ControlFlow<()> {
        let done = *self.done.lock().unwrap_or_else(|e| e.into_inner());
        self.watch.progress(&Progress {
            iteration: done.0,
            of: self.of,
            loss: done.1,
        })
    }
}

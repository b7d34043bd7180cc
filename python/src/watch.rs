//! Work beside the interpreter: Ctrl-C ends it, and a callback hears how it goes.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ordercal::{Progress, Watch};
use pyo3::prelude::*;

use crate::errors::refuse;
use crate::pool::in_pool;

/// How often signals are looked at.
const POLL: Duration = Duration::from_millis(20);

/// Does work in a thread of its own while the caller's waits for news: only Python's main thread may handle
/// signals, and a fit may report from any thread.
///
/// # Errors
/// What Python raised meanwhile, Ctrl-C above all, which ends the work early; and if threads cannot be started.
pub fn beside<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Watch) -> T + Send,
) -> PyResult<T> {
    let cancelled = AtomicBool::new(false);
    let cancelled = &cancelled;
    let (sender, receiver) = channel();
    let reporter = Reporter {
        sender,
        wanted: progress.is_some(),
        cancelled,
    };
    let (result, outcome) = py.detach(move || {
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || in_pool(move || work(&reporter)));
            let outcome = listen(&receiver, progress.as_ref(), cancelled);
            let result = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (result, outcome)
        })
    });
    outcome?;
    result.map_err(refuse)
}

/// Waits until the work has ended. What Python raises meanwhile ends it early, and is returned.
fn listen(
    receiver: &Receiver<Progress>,
    callback: Option<&Py<PyAny>>,
    cancelled: &AtomicBool,
) -> PyResult<()> {
    let mut outcome = Ok(());
    loop {
        let news = match receiver.recv_timeout(POLL) {
            Ok(progress) => Some(progress),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return outcome,
        };
        if outcome.is_err() {
            continue;
        }
        outcome = Python::attach(|py| {
            py.check_signals()?;
            if let (Some(progress), Some(callback)) = (news, callback) {
                callback.call1(py, (progress.iteration, progress.of, progress.loss))?;
            }
            Ok(())
        });
        if outcome.is_err() {
            cancelled.store(true, Ordering::Relaxed);
        }
    }
}

/// Tells the caller's thread; gone when the work is done.
struct Reporter<'a> {
    sender: Sender<Progress>,
    wanted: bool,
    cancelled: &'a AtomicBool,
}

impl Watch for Reporter<'_> {
    fn progress(&self, progress: &Progress) -> ControlFlow<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if self.wanted {
            // Nobody listens any more only if nothing is to be reported.
            let _ = self.sender.send(*progress);
        }
        ControlFlow::Continue(())
    }
}

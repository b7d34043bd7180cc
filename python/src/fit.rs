//! Fitting beside the interpreter: Ctrl-C ends a fit, and a callback hears how it goes.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use numpy::PyReadonlyArray1;
use ordercal::{Method, Progress, Watch};
use ordercal_io::SavedModel;
use pyo3::prelude::*;

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::refuse;
use crate::model::Model;

/// How often signals are looked at.
const POLL: Duration = Duration::from_millis(20);

/// Learns a model; `method` is JSON with its key under `method`.
///
/// The fit runs in a thread of its own while the caller's waits for news: only Python's main thread may
/// handle signals, and a fit may report from any thread.
#[pyfunction]
#[pyo3(signature = (method, scores, kind_name, labels, weights=None, class_names=None, progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn fit(
    py: Python<'_>,
    method: &str,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: PyReadonlyArray1<'_, i64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    class_names: Option<Vec<String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let kind = kind(kind_name)?;
    let rows = Rows::new(&labels, weights.as_ref());
    let scores = scores.view();
    let cancelled = AtomicBool::new(false);
    let (cancelled, to_fit) = (&cancelled, &method);
    let (sender, receiver) = channel();
    let reporter = Reporter {
        sender,
        wanted: progress.is_some(),
        cancelled,
    };
    let (fitted, outcome) = py.detach(move || {
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let start = Instant::now();
                let data = rows.dataset(kind, scores)?;
                let fitted = to_fit.fit_watched(&data, &reporter)?;
                Ok::<_, ordercal::Error>((fitted, start.elapsed().as_secs_f64()))
            });
            let outcome = listen(&receiver, progress.as_ref(), cancelled);
            let fitted = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (fitted, outcome)
        })
    });
    outcome?;
    let (fitted, seconds) = fitted.map_err(refuse)?;
    let saved = SavedModel::new(method, fitted).with_class_names(class_names);
    Ok(Model::new(saved, seconds))
}

/// Waits until the fit has ended. What Python raises meanwhile ends it early, and is returned.
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

/// Tells the caller's thread; gone when the fit is done.
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

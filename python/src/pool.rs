//! Threads that survive a fork.
//!
//! A forked process inherits the memory of rayon's global pool but none of its threads: work given to it
//! would wait for ever. The process that used the pool first keeps it; every process forked from there gets a
//! pool of its own at its first call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::refuse;

/// The process whose threads rayon's global pool has; 0 before the first call.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The pools of forked processes, a list that only grows: what a parent left behind is never dropped, because
/// dropping a pool waits for its threads.
static FORKED: OnceLock<Box<Forked>> = OnceLock::new();

struct Forked {
    process: u32,
    pool: Result<ThreadPool, String>,
    next: OnceLock<Box<Forked>>,
}

/// Computes without the interpreter, on threads of this process.
///
/// # Errors
/// If a forked process cannot start threads.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| in_pool(work)).map_err(refuse)
}

/// Does work on threads of this process.
///
/// # Errors
/// If a forked process cannot start threads.
pub fn in_pool<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let process = std::process::id();
    let owner = OWNER
        .compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed)
        .map_or_else(|owner| owner, |_| process);
    if owner == process {
        return Ok(work());
    }
    match forked(process) {
        Ok(pool) => Ok(pool.install(work)),
        Err(error) => Err(error.clone()),
    }
}

/// The pool of this forked process.
fn forked(process: u32) -> &'static Result<ThreadPool, String> {
    let start = || {
        let pool = ThreadPoolBuilder::new().build();
        Box::new(Forked {
            process,
            pool: pool.map_err(|e| format!("cannot start threads after a fork: {e}")),
            next: OnceLock::new(),
        })
    };
    let mut found = FORKED.get_or_init(start);
    while found.process != process {
        found = found.next.get_or_init(start);
    }
    &found.pool
}

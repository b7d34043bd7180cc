//! How much memory a large buffer may take.
//!
//! What a computation needs often follows from the numbers of rows and classes, before anything is allocated. It is then
//! compared with a limit, so that what cannot fit is an error instead of the end of the process.
//!
//! ```
//! use ordercal::memory;
//!
//! assert!(memory::check("a small table", 1000).is_ok());
//! let error = memory::check("a table of everything", usize::MAX).unwrap_err();
//! assert!(error.to_string().starts_with("a table of everything would take"), "{error}");
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The limit unless a program sets another: 8 GB.
const DEFAULT: usize = match 8_usize.checked_shl(30) {
    Some(bytes) if bytes > 8 => bytes,
    _ => usize::MAX,
};

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT);

/// The most bytes that a buffer may take.
///
/// ```
/// // 8 GB, unless someone has set another limit.
/// assert_eq!(ordercal::memory::limit(), 8 << 30);
/// ```
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets the most bytes that a buffer may take, for the whole process.
///
/// ```
/// use ordercal::memory;
///
/// memory::set_limit(1 << 20);
/// assert!(memory::check("a buffer", 1 << 21).is_err());
/// ```
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Whether a buffer of so many bytes may be allocated.
///
/// # Errors
/// [`Error::TooLarge`] if not; `what` says what it is for.
///
/// ```
/// use ordercal::memory;
///
/// // 64-bit numbers for each of a million rows and a million classes.
/// let bytes = 8_usize.saturating_mul(1_000_000 * 1_000_000);
/// assert!(memory::check("all probabilities", bytes).is_err());
/// ```
pub fn check(what: impl Into<String>, bytes: usize) -> Result<()> {
    check_with_hint(what, bytes, "")
}

/// The same with what to do instead, after a semicolon.
pub(crate) fn check_with_hint(
    what: impl Into<String>,
    bytes: usize,
    hint: &'static str,
) -> Result<()> {
    let limit = limit();
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::TooLarge {
        what: what.into(),
        bytes,
        limit,
        hint,
    })
}

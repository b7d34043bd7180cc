//! How much memory a large buffer may take.
//!
//! What a computation needs often follows from the numbers of rows and classes, before anything is allocated. It is then
//! compared with a limit, so that what cannot fit is an error instead of the end of the process.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The limit unless a program sets another: 8 GB.
const DEFAULT: usize = match 8_usize.checked_shl(30) {
    Some(bytes) if bytes > 8 => bytes,
    _ => usize::MAX,
};

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT);

/// The most bytes that a buffer may take.
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets the most bytes that a buffer may take, for the whole process.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Whether a buffer of so many bytes may be allocated.
///
/// # Errors
/// [`Error::TooLarge`] if not; `what` says what it is for.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_fit_is_refused() {
        assert_eq!(check("a small table", 1000), Ok(()));
        let refused = check("a table of everything", usize::MAX);
        assert!(matches!(
            refused,
            Err(Error::TooLarge {
                bytes: usize::MAX,
                ..
            })
        ));
    }
}

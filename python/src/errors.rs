//! The library's errors as Python exceptions, with the library's words.

use std::fmt::Display;

use pyo3::PyErr;

pyo3::import_exception!(ordercal._errors, OrdercalError);
pyo3::import_exception!(ordercal._errors, OrdercalTypeError);
pyo3::import_exception!(ordercal._errors, MissingFileError);

/// A `ValueError` with the words of an error.
pub fn refuse(error: impl Display) -> PyErr {
    OrdercalError::new_err(error.to_string())
}

/// A `TypeError`.
pub fn wrong_type(message: String) -> PyErr {
    OrdercalTypeError::new_err(message)
}

/// An error about a file; one that is not there is a `FileNotFoundError` too.
pub fn file(error: ordercal_io::Error) -> PyErr {
    match error {
        ordercal_io::Error::NotFound { .. } => MissingFileError::new_err(error.to_string()),
        _ => refuse(error),
    }
}

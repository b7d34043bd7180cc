//! The library's errors as Python exceptions, with the library's words.

use std::ffi::CString;
use std::fmt::Display;

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use serde::Serialize;

pyo3::import_exception!(ordercal._errors, OrdercalError);
pyo3::import_exception!(ordercal._errors, OrdercalTypeError);
pyo3::import_exception!(ordercal._errors, MissingFileError);

/// A `ValueError` with the words of an error.
pub fn refuse(error: impl Display) -> PyErr {
    OrdercalError::new_err(error.to_string())
}

/// Issues each warning as a `UserWarning` of the line that called the package.
pub fn warn(py: Python<'_>, warnings: &[impl Display]) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    for warning in warnings {
        let text = CString::new(warning.to_string().replace('\0', " ")).expect("no zero bytes");
        PyErr::warn(py, &category, &text, 2)?;
    }
    Ok(())
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

/// Writes a value as JSON.
pub fn to_json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(refuse)
}

//! Checks of hyperparameters.

use crate::error::{Error, Result};

/// A default for serde, whose derive has none for the whole of a type with constant parameters.
pub(crate) fn one() -> f64 {
    1.0
}

/// Checks that a hyperparameter is a finite number above 0.
pub(crate) fn check_positive(name: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::invalid(name, value, "a positive number"))
}

/// Checks that a hyperparameter is a finite number of at least 0.
pub(crate) fn check_non_negative(name: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::invalid(name, value, "a finite number, 0 or more"))
}

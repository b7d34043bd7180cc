//! Anyone's probabilities, projected onto the order of the scores.

use numpy::{IntoPyArray, PyReadonlyArray2};
use ordercal::Scores;
use pyo3::prelude::*;

use crate::arrays::{Matrix, kind};
use crate::errors::refuse;
use crate::pool::detached;

/// The closest probabilities that rank the classes of every row as the scores do; 64-bit results if `wide`.
#[pyfunction]
pub fn keep_order<'py>(
    py: Python<'py>,
    scores: Matrix<'py>,
    kind_name: &str,
    probs: PyReadonlyArray2<'py, f64>,
    beta: f64,
    wide: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let kind = kind(kind_name)?;
    let (scores, probs) = (scores.view(), probs.as_array());
    if wide {
        let project = || ordercal::keep_order::<f64>(&Scores::new(kind, scores)?, probs, beta);
        return Ok(detached(py, project)?.map_err(refuse)?.into_pyarray(py).into_any());
    }
    let project = || ordercal::keep_order::<f32>(&Scores::new(kind, scores)?, probs, beta);
    Ok(detached(py, project)?.map_err(refuse)?.into_pyarray(py).into_any())
}

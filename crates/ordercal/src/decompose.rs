//! Which part of the NLL calibration could remove.

use serde::Serialize;

use crate::data::Dataset;
use crate::error::Result;
use crate::metrics::{Interval, Predictions};
use crate::models::apply;
use crate::registry::Method;
use crate::watch::Watch;

/// The NLL in two parts, each with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Decomposition {
    /// The NLL of the scores: the sum of the other two.
    pub nll: Interval,
    /// The part that calibration removes: the NLL minus that of the calibrated scores. Its interval contains 0 if there
    /// is nothing to remove; below 0 the method did harm.
    pub nll_calibration: Interval,
    /// The part that remains, because the scores do not tell the classes apart better.
    pub nll_refinement: Interval,
}

/// Splits the NLL of scores into calibration and refinement (Bröcker 2009), by cross-fitting a method.
///
/// Every row is calibrated by a model that was fitted on the other folds. The NLL of the rows so calibrated is the
/// *refinement*, the mean over rows of −ln q(y), and what the NLL loses by it the *calibration* part. For rows of a
/// predictor that was calibrated before its scores were distorted by a map that the method can undo, they are the
/// predictor's NLL and the mean Kullback–Leibler divergence from the distorted distribution. A method that learns
/// less than the best map leaves a part of the calibration to the refinement.
///
/// The intervals are normal, from the spread of the rows' terms; the terms of the calibration part are paired.
///
/// # Errors
/// If there are fewer rows than folds, a hyperparameter is out of range, or `watch` cancels the fits.
pub fn decompose(
    data: &Dataset<'_>,
    method: &Method,
    folds: usize,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Decomposition> {
    let folds = data.folds(folds, seed)?;
    let before: Vec<f64> = Predictions::from(data)
        .stats()
        .iter()
        .map(|stat| stat.nll)
        .collect();
    let mut after = vec![0.0; data.rows()];
    for fold in 0..folds.count() {
        let fitted = method.fit_watched(&data.select(&folds.kept(fold)), watch)?;
        let held_out = folds.held_out(fold);
        let nlls = apply::row_nlls(&fitted.model, &data.select(&held_out));
        for (&row, nll) in held_out.iter().zip(nlls) {
            after[row] = nll;
        }
    }
    let removed: Vec<f64> = before.iter().zip(&after).map(|(b, a)| b - a).collect();
    Ok(Decomposition {
        nll: mean(&before, data),
        nll_calibration: mean(&removed, data),
        nll_refinement: mean(&after, data),
    })
}

/// The weighted mean with its normal 95 % interval.
fn mean(values: &[f64], data: &Dataset<'_>) -> Interval {
    let value = apply::mean(values, data);
    let total = data.total_weight();
    let terms = values.iter().enumerate();
    let squares: f64 = terms
        .map(|(row, v)| (data.weight(row) / total * (v - value)).powi(2))
        .sum();
    let reach = 1.96 * squares.sqrt();
    Interval {
        value,
        lower: value - reach,
        upper: value + reach,
    }
}

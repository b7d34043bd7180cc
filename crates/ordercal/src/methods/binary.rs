//! Fitting one class against the rest: what class-by-class methods share.

use rayon::prelude::*;

use super::{FitReport, Fitted};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::models::one_vs_rest::{log_odds, maps};
use crate::models::{Model, apply};
use crate::optim::StopReason;
use crate::watch::{Watch, report_progress};

/// The class that a map is for.
fn class_of(map: usize, classes: usize) -> usize {
    if classes == 2 { 1 } else { map }
}

/// One row of a class's binary problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Case {
    pub log_odds: f64,
    pub weight: f64,
    pub hit: bool,
}

/// Fits a map for every class that needs one.
///
/// A class's cases are the rows that count and in which it is one of several possible classes: where it
/// is masked, or alone, its probability is settled.
pub(crate) fn fit_maps<M: Send>(
    data: &Dataset<'_>,
    nll_before: f64,
    watch: &dyn Watch,
    fit: impl Fn(&[Case]) -> M + Sync,
) -> Result<Vec<M>> {
    let classes = data.classes();
    let mut odds = vec![0.0; data.rows() * classes];
    odds.par_chunks_mut(classes)
        .zip(data.scores().as_slice().par_chunks(classes))
        .for_each(|(odds, scores)| log_odds(scores, odds));
    let alone: Vec<bool> = data
        .scores()
        .as_slice()
        .par_chunks(classes)
        .map(|scores| scores.iter().filter(|s| **s > f32::NEG_INFINITY).count() < 2)
        .collect();
    let cases = |class: usize| -> Vec<Case> {
        let rows = (0..data.rows()).filter(|&row| {
            let possible = odds[row * classes + class] > f64::NEG_INFINITY;
            possible && !alone[row] && data.weight(row) > 0.0
        });
        let case = |row: usize| Case {
            log_odds: odds[row * classes + class],
            weight: data.weight(row),
            hit: data.labels()[row] as usize == class,
        };
        rows.map(case).collect()
    };
    // In groups, so that a fit can be watched and cancelled.
    const GROUP: usize = 32;
    let count = maps(classes);
    let mut fitted = Vec::with_capacity(count);
    while fitted.len() < count {
        report_progress(watch, fitted.len(), count, nll_before)?;
        let group = fitted.len()..count.min(fitted.len() + GROUP);
        let maps: Vec<M> = group
            .into_par_iter()
            .map(|map| fit(&cases(class_of(map, classes))))
            .collect();
        fitted.extend(maps);
    }
    Ok(fitted)
}

/// The share of the uniform distribution after n rows: smoothing/(n + 1), at most all of it.
pub(crate) fn share(smoothing: f64, data: &Dataset<'_>) -> f64 {
    (smoothing / (data.total_weight() + 1.0)).min(1.0)
}

/// A fitted model whose fit had no loss of its own.
pub(crate) fn fitted(model: impl Into<Model>, data: &Dataset<'_>, nll_before: f64) -> Fitted {
    let model = model.into();
    let nll = apply::mean_nll(&model, data);
    let report = FitReport {
        iterations: maps(data.classes()),
        evaluations: 2,
        loss: nll,
        nll_before,
        nll_after: nll,
        stop: StopReason::Converged,
        notes: Vec::new(),
    };
    Fitted { model, report }
}

/// Checks a smoothing: without any, a single label on a probability of 0 has an infinite NLL.
pub(crate) fn check_smoothing(value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::invalid("smoothing", value, "a positive number"))
}

//! One-versus-rest fits: one binary problem per class.

use rayon::prelude::*;

use super::{FitReport, Fitted, check_positive};
use crate::data::Dataset;
use crate::error::Result;
use crate::models::one_vs_rest::{map_count, write_log_odds};
use crate::models::{Model, apply, count_unmasked};
use crate::optim::StopReason;
use crate::watch::{Watch, report_progress};

/// The class of a map.
fn class_of(map: usize, classes: usize) -> usize {
    if classes == 2 { 1 } else { map }
}

/// One row of a class's binary problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BinaryCase {
    pub log_odds: f64,
    pub weight: f64,
    /// Whether the label is the class.
    pub positive: bool,
}

/// Fits one map per class, or a single one for two classes.
///
/// The cases of a class are the rows of positive weight in which it is not masked and not the only unmasked class; otherwise
/// its probability is 0 or 1 and does not depend on the map.
pub(crate) fn fit_maps<M: Send>(
    data: &Dataset<'_>,
    nll_before: f64,
    watch: &dyn Watch,
    fit: impl Fn(&[BinaryCase]) -> M + Sync,
) -> Result<Vec<M>> {
    let classes = data.classes();
    let mut log_odds = vec![0.0; data.rows() * classes];
    log_odds
        .par_chunks_mut(classes)
        .zip(data.scores().as_slice().par_chunks(classes))
        .for_each(|(log_odds, scores)| write_log_odds(scores, log_odds));
    let one_unmasked: Vec<bool> = data
        .scores()
        .as_slice()
        .par_chunks(classes)
        .map(|scores| count_unmasked(scores) < 2)
        .collect();
    // Neighbouring classes at once: they share the cache lines of a row.
    let cases = |maps: &[usize]| -> Vec<Vec<BinaryCase>> {
        let mut cases = vec![Vec::new(); maps.len()];
        for (row, log_odds) in log_odds.chunks_exact(classes).enumerate() {
            let weight = data.weight(row);
            if one_unmasked[row] || weight <= 0.0 {
                continue;
            }
            let label = data.labels()[row] as usize;
            for (cases, &map) in cases.iter_mut().zip(maps) {
                let class = class_of(map, classes);
                if log_odds[class] > f64::NEG_INFINITY {
                    cases.push(BinaryCase {
                        log_odds: log_odds[class],
                        weight,
                        positive: label == class,
                    });
                }
            }
        }
        cases
    };
    // In groups of classes, so that progress is reported and the fit can be cancelled.
    const GROUP: usize = 64;
    const NEIGHBOURS: usize = 8;
    let count = map_count(classes);
    let neighbours = (count / (4 * rayon::current_num_threads())).clamp(1, NEIGHBOURS);
    let mut fitted = Vec::with_capacity(count);
    while fitted.len() < count {
        report_progress(watch, fitted.len(), count, nll_before)?;
        let group: Vec<usize> = (fitted.len()..count.min(fitted.len() + GROUP)).collect();
        let maps: Vec<Vec<M>> = group
            .par_chunks(neighbours)
            .map(|maps| cases(maps).iter().map(|cases| fit(cases)).collect())
            .collect();
        fitted.extend(maps.into_iter().flatten());
    }
    Ok(fitted)
}

/// The weight of the uniform distribution in a model's result: smoothing/(n + 1) for n rows, at most 1.
pub(crate) fn uniform_weight(smoothing: f64, data: &Dataset<'_>) -> f64 {
    (smoothing / (data.total_weight() + 1.0)).min(1.0)
}

/// A fitted model with its report. The classes have no common loss, so the report has the mean NLL in its place.
pub(crate) fn fitted(model: impl Into<Model>, data: &Dataset<'_>, nll_before: f64) -> Fitted {
    let model = model.into();
    let nll = apply::mean_nll(&model, data);
    let report = FitReport {
        iterations: map_count(data.classes()),
        evaluations: 2,
        loss: nll,
        nll_before,
        nll_after: nll,
        stop: StopReason::Converged,
        notes: Vec::new(),
        price_of_order: None,
    };
    Fitted { model, report }
}

/// Checks a smoothing. It must be positive, because a label of probability 0 has an infinite NLL.
pub(crate) fn check_smoothing(value: f64) -> Result<()> {
    check_positive("smoothing", value)
}

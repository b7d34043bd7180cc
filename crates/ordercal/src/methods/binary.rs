//! One-versus-rest fits: one binary problem per class.

use rayon::prelude::*;

use super::likelihood::plain_nll;
use super::{FitReport, Fitted};
use crate::data::Dataset;
use crate::error::Result;
use crate::models::one_vs_rest::{map_count, write_log_odds};
use crate::models::{Curve, CurveKind, CurvesModel, Model, apply, count_unmasked};
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

/// Fits one map per class, or a single one for two classes, and makes a model of K, the weight of the uniform distribution in
/// its results (`smoothing`/(n + 1) for n rows, at most 1) and the maps.
///
/// The cases of a class are the rows of positive weight in which it is not masked and not the only unmasked class; otherwise
/// its probability is 0 or 1 and does not depend on the map.
pub(crate) fn fit_one_vs_rest<M: Send, T: Into<Model>>(
    data: &Dataset<'_>,
    smoothing: f64,
    watch: &dyn Watch,
    fit: impl Fn(&[BinaryCase]) -> M + Sync,
    model: impl FnOnce(usize, f64, Vec<M>) -> T,
) -> Result<Fitted> {
    let classes = data.classes();
    let nll_before = plain_nll(data);
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
    let weight = (smoothing / (data.total_weight() + 1.0)).min(1.0);
    let model = model(classes, weight, fitted).into();
    // The classes have no common loss.
    let nll = apply::mean_nll(&model, data);
    let report = FitReport {
        iterations: count,
        evaluations: 2,
        ..FitReport::new(nll_before, nll, StopReason::Converged)
    };
    Ok(Fitted { model, report })
}

/// Fits one curve per class, or a single one for two classes.
pub(crate) fn fit_curves(
    data: &Dataset<'_>,
    smoothing: f64,
    kind: CurveKind,
    watch: &dyn Watch,
    fit: impl Fn(&[BinaryCase]) -> Curve + Sync,
) -> Result<Fitted> {
    fit_one_vs_rest(data, smoothing, watch, fit, |classes, weight, curves| {
        CurvesModel::new(classes, weight, kind, curves)
    })
}

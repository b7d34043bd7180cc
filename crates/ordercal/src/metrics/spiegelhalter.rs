//! Spiegelhalter's Z: the Brier score of the confidence against its expectation.

use super::row_stats::{RowStat, WeightedRows};

/// A row's difference from the expectation, and its variance.
pub(crate) fn terms(stat: &RowStat) -> (f64, f64) {
    let c = stat.confidence.min(1.0);
    let slope = 1.0 - 2.0 * c;
    let hit = f64::from(u8::from(stat.hit()));
    ((hit - c) * slope, slope * slope * c * (1.0 - c))
}

/// NaN if there is no variance.
pub(crate) fn ratio(difference: f64, variance: f64) -> f64 {
    if variance > 0.0 {
        difference / variance.sqrt()
    } else {
        f64::NAN
    }
}

pub(crate) fn statistic(rows: &WeightedRows<'_>) -> f64 {
    let total = rows
        .weights
        .map_or(rows.stats.len() as f64, |w| w.iter().sum());
    let difference = rows.mean(|stat| terms(stat).0);
    let variance = rows.mean(|stat| terms(stat).1);
    total.sqrt() * ratio(difference, variance)
}

//! The best inverse temperature β: what `ts` learns, and where the other methods start.

use super::FitReport;
use super::likelihood::{Likelihood, spread};
use crate::data::Dataset;
use crate::error::Result;
use crate::optim::StopReason;
use crate::optim::scalar::{self, Curvature, Local};
use crate::watch::{Unwatched, Watch, report_progress};

/// The bounds of β times the data's spread: the median, over the rows that are not flat, of the largest
/// score less the row's mean. β = 1 is always within the bounds, so a fit never does harm.
///
/// On separable data (every label is its row's top score) the likelihood grows for ever with β; the fit
/// stops at the upper bound and reports [`StopReason::UpperBound`]. There an ordinary row is as good as
/// certain, so nothing is lost by not going further. Likewise [`StopReason::LowerBound`] for scores that
/// say nothing about the labels, where the output is as good as uniform.
pub const SPREAD_BOUNDS: (f64, f64) = (1e-3, 1e2);

/// How closely ln β is determined.
const TOLERANCE: f64 = 1e-7;

/// Finds β. Other families start from it.
pub(crate) fn fit_beta(data: &Dataset<'_>, watch: &dyn Watch) -> Result<(f64, FitReport)> {
    let spread = spread(data);
    let likelihood = Likelihood::new(data);
    let before = likelihood.at(1.0);
    if spread == 0.0 {
        // Every row is flat: all temperatures give the uniform distribution.
        let report = FitReport {
            iterations: 0,
            evaluations: 2,
            loss: before.value,
            nll_before: before.value,
            nll_after: before.value,
            stop: StopReason::Nothing,
            notes: Vec::new(),
        };
        return Ok((1.0, report));
    }
    let low = (SPREAD_BOUNDS.0 / spread)
        .max(f64::from(f32::MIN_POSITIVE))
        .ln();
    let high = (SPREAD_BOUNDS.1 / spread).min(f64::from(f32::MAX)).ln();
    let bounds = (low.min(0.0), high.max(0.0));
    let mut steps = 0;
    let start = sampled(data).unwrap_or(0.0);
    let minimum = scalar::minimize(bounds, start, TOLERANCE, Curvature::Exact, |log_beta| {
        let beta = log_beta.exp();
        // The starting point has been looked at already.
        let at = if log_beta == 0.0 {
            before
        } else {
            likelihood.at(beta)
        };
        report_progress(watch, steps, steps + 1, at.value)?;
        steps += 1;
        Ok(Local {
            value: at.value,
            slope: beta * at.slope,
            curvature: beta * beta * at.curvature + beta * at.slope,
        })
    })?;
    let report = FitReport {
        iterations: steps,
        evaluations: minimum.evaluations + 1,
        loss: minimum.value,
        nll_before: before.value,
        nll_after: minimum.value,
        stop: minimum.stop,
        notes: Vec::new(),
    };
    Ok((minimum.at.exp(), report))
}

/// Rows whose minimum is a start for all.
const SAMPLE: usize = 2048;

/// ln β on a sample of the rows, where there are many more of them.
fn sampled(data: &Dataset<'_>) -> Option<f64> {
    if data.rows() < 4 * SAMPLE || data.rows() * data.classes() < 1 << 20 {
        return None;
    }
    let stride = data.rows() / SAMPLE;
    let rows: Vec<usize> = (0..SAMPLE).map(|place| place * stride).collect();
    if rows.iter().all(|&row| data.weight(row) == 0.0) {
        return None;
    }
    let found = fit_beta(&data.select(&rows), &Unwatched);
    found.ok().map(|(beta, _)| beta.ln())
}

//! The fit of the inverse temperature β: the method `ts`, and the starting point of the other methods.

use super::FitReport;
use super::likelihood::{Likelihood, spread};
use crate::data::Dataset;
use crate::error::Result;
use crate::optim::StopReason;
use crate::optim::scalar::{self, Curvature, Local};
use crate::watch::{Unwatched, Watch, report_progress};

/// Lower and upper bound of the inverse temperature β times the spread of the data: the median, over the rows that are not
/// constant, of the largest score minus the mean of the row. The bounds of β are extended to include 1, so a fit is never
/// worse than the uncalibrated scores.
///
/// On separable data (every label has the largest score of its row) the likelihood increases with β without limit. The fit
/// ends at the upper bound, where typical rows have a top probability of almost 1, and reports [`StopReason::UpperBound`].
/// For scores that carry no information on the labels it ends at the lower bound, where the result is almost uniform, and
/// reports [`StopReason::LowerBound`].
pub const SPREAD_BOUNDS: (f64, f64) = (1e-3, 1e2);

/// The tolerance of ln β.
const TOLERANCE: f64 = 1e-7;

/// Fits β by maximum likelihood.
pub(crate) fn fit_beta(data: &Dataset<'_>, watch: &dyn Watch) -> Result<(f64, FitReport)> {
    let spread = spread(data);
    let likelihood = Likelihood::new(data);
    let before = likelihood.at(1.0);
    if spread == 0.0 {
        // All rows are constant: every temperature gives the uniform distribution.
        let report = FitReport {
            evaluations: 2,
            ..FitReport::new(before.value, before.value, StopReason::Nothing)
        };
        return Ok((1.0, report));
    }
    let low = (SPREAD_BOUNDS.0 / spread)
        .max(f64::from(f32::MIN_POSITIVE))
        .ln();
    let high = (SPREAD_BOUNDS.1 / spread).min(f64::from(f32::MAX)).ln();
    let bounds = (low.min(0.0), high.max(0.0));
    let mut steps = 0;
    let start = fit_sample(data)?.unwrap_or(0.0);
    let minimum = scalar::minimize(bounds, start, TOLERANCE, Curvature::Exact, |log_beta| {
        let beta = log_beta.exp();
        // β = 1 has been evaluated already.
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
        ..FitReport::new(before.value, minimum.value, minimum.stop)
    };
    Ok((minimum.at.exp(), report))
}

/// The number of rows of the sample that gives the starting point.
const SAMPLE: usize = 2048;

/// ln β fitted to a sample of the rows, if the data are much larger than the sample.
fn fit_sample(data: &Dataset<'_>) -> Result<Option<f64>> {
    if data.rows() < 4 * SAMPLE || data.rows() * data.classes() < 1 << 20 {
        return Ok(None);
    }
    let stride = data.rows() / SAMPLE;
    let rows: Vec<usize> = (0..SAMPLE).map(|index| index * stride).collect();
    if rows.iter().all(|&row| data.weight(row) == 0.0) {
        return Ok(None);
    }
    let (beta, _) = fit_beta(&data.select(&rows), &Unwatched)?;
    Ok(Some(beta.ln()))
}

//! Whether a measured calibration error is more than a perfectly calibrated predictor would show.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bootstrap::{BootstrapOptions, quantile};
use super::metric::{Metric, MetricOptions};
use super::predictions::Predictions;
use super::top_label::{TopLabel, error_of};
use crate::error::{Error, Result};
use crate::rng::Rng;

/// What [`calibration_test`] found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CalibrationTest {
    /// The metric of the labels as they are.
    pub observed: f64,
    /// Its mean over labels drawn from the predicted probabilities: what perfect calibration looks like
    /// on this many rows.
    pub expected: f64,
    /// The quantile of the drawn values at the level asked for; an observed value above it is more than
    /// chance.
    pub critical: f64,
    /// The share of values at least as large as the observed one, itself included: (1 + #{drawn ≥
    /// observed}) / (1 + #drawn).
    pub p_value: f64,
}

/// Tests the hypothesis that the predictions are calibrated, by simulation.
///
/// A calibration error of a finite sample is above 0 even if the probabilities are exactly right. So the
/// outcomes are drawn again, hit or miss, with the predicted confidences as probabilities, and the metric
/// computed as often as `how` says: that is how it is distributed for a perfectly calibrated predictor with
/// these confidences. The p-value says how far out the observed value is. No ordering or binning is assumed
/// and nothing is permuted (Bröcker and Smith 2007; Vaicenavicius et al. 2019).
///
/// ```
/// use ndarray::Array2;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, calibration_test};
///
/// // Sure to 0.9, right in half of the rows.
/// let probs = Array2::from_shape_fn((100, 2), |(_, class)| [0.9_f64, 0.1][class]);
/// let labels: Vec<u32> = (0..100).map(|row| row % 2).collect();
/// let predictions = Predictions::from_probs(probs.view(), &labels)?;
/// let how = BootstrapOptions::default();
/// let test = calibration_test(&predictions, Metric::Ece, &MetricOptions::default(), &how)?;
/// assert!(test.p_value < 0.01 && test.observed > test.critical);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range, or the metric is not one of the top label's calibration errors.
pub fn calibration_test(
    predictions: &Predictions<'_>,
    metric: Metric,
    options: &MetricOptions,
    how: &BootstrapOptions,
) -> Result<CalibrationTest> {
    options.validate()?;
    how.validate()?;
    if !metric.is_top_label() {
        return Err(Error::MetricNotSupported {
            metric,
            reason: "the test is for ece, mce, adaptive_ece, debiased_ece, ks and sm_ece",
        });
    }
    let top = TopLabel::new(&predictions.row_stats());
    let weight = top.in_order(predictions.weights());
    let weight = weight.as_deref();
    let observed = error_of(metric, &top.sorted(weight), options);
    let mut drawn: Vec<f64> = (0..how.resamples as u64)
        .into_par_iter()
        .map(|index| {
            let mut rng =
                Rng::new(how.seed ^ index.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03));
            let confidence = top.confidence().iter();
            let hit: Vec<f64> = confidence
                .map(|&confidence| f64::from(u8::from(rng.uniform() < confidence)))
                .collect();
            error_of(metric, &top.with_hits(&hit, weight), options)
        })
        .collect();
    let as_large = drawn.iter().filter(|&&value| value >= observed).count();
    drawn.sort_by(f64::total_cmp);
    Ok(CalibrationTest {
        observed,
        expected: drawn.iter().sum::<f64>() / drawn.len() as f64,
        critical: quantile(&drawn, how.level),
        p_value: (1 + as_large) as f64 / (1 + drawn.len()) as f64,
    })
}

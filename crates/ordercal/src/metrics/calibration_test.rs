//! Whether a calibration error is larger than sampling noise explains.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::binning::{Binning, Sorted};
use super::bootstrap::{BootstrapOptions, quantile};
use super::definition::Compute;
use super::interval::is_norm_of_gaps;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::Metric;
use super::top_label::TopLabel;
use crate::error::{Error, Result};
use crate::rng::Rng;

/// The result of a [`calibration_test`].
///
/// ```
/// use ndarray::Array2;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, calibration_test};
///
/// // Confidence 0.9, and right in 18 of 20 rows: nothing but noise.
/// let probs = Array2::from_shape_fn((20, 2), |(_, class)| [0.9_f64, 0.1][class]);
/// let labels: Vec<u32> = (0..20).map(|row| u32::from(row % 10 == 0)).collect();
/// let predictions = Predictions::from_probs(probs.view(), &labels)?;
/// let (options, how) = (MetricOptions::default(), BootstrapOptions::default());
/// let test = calibration_test(&predictions, Metric::Ece, &options, &how)?;
/// assert!(test.observed < test.expected && test.p_value > 0.5);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CalibrationTest {
    /// The metric with the given labels.
    pub observed: f64,
    /// Its mean over simulated labels: the value to expect of a perfectly calibrated predictor on this many
    /// rows.
    pub expected: f64,
    /// The critical value: the quantile of the simulated values at the given level.
    pub critical: f64,
    /// (1 + #{simulated ≥ observed}) / (1 + #simulated).
    pub p_value: f64,
}

/// Tests the hypothesis that the predictions are calibrated, by simulation.
///
/// On a finite sample a calibration error is above 0 even if the probabilities are exactly right. The
/// parametric bootstrap gives its distribution under perfect calibration: hits and misses are drawn with
/// the predicted confidences as probabilities, and the metric is computed on them, `how.resamples` times
/// (consistency resampling; Bröcker and Smith 2007, Vaicenavicius et al. 2019).
///
/// ```
/// use ndarray::Array2;
/// use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions, Predictions, calibration_test};
///
/// // Confidence 0.9, right in half of the rows.
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
    let tested = |metric: &Metric| metric.is_top_label() && is_norm_of_gaps(*metric);
    if !tested(&metric) {
        let possible = Metric::ALL.into_iter().filter(tested);
        let keys: Vec<&str> = possible.map(Metric::key).collect();
        return Err(Error::MetricNotSupported {
            metric: metric.key(),
            reason: format!("the test is for {}", keys.join(", ")),
        });
    }
    let compute = |rows: &Sorted<'_>, options: &MetricOptions| match metric.definition().compute {
        Compute::Bins(compute) => {
            compute(&rows.bin_sums(Binning::EqualWidth, options.bins), options)
        }
        Compute::TopLabel(compute) => compute(rows, options),
        Compute::Rows(_) | Compute::PerClass(..) => unreachable!("not of the top label"),
    };
    let top = TopLabel::new(predictions.stats());
    let weight = top.sort_weights(predictions.weights());
    let weight = weight.as_deref();
    let observed = compute(&top.sorted(weight), options);
    let mut drawn: Vec<f64> = (0..how.resamples as u64)
        .into_par_iter()
        .map(|index| {
            let mut rng =
                Rng::new(how.seed ^ index.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03));
            let confidence = top.confidence().iter();
            let hit: Vec<f64> = confidence
                .map(|&confidence| f64::from(u8::from(rng.uniform() < confidence)))
                .collect();
            compute(&top.with_hits(&hit, weight), options)
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

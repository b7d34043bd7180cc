//! `ks`.

use super::Metric;
use crate::error::Result;
use crate::metrics::binning::Sorted;
use crate::metrics::definition::{Best, Compute, Definition, FromState};
use crate::metrics::{Estimate, MetricOptions, MetricState, Predictions};

pub(super) const DEFINITION: Definition = Definition {
    key: "ks",
    name: "KS error",
    brief: "Kolmogorov–Smirnov calibration error, without bins: the largest cumulative difference between confidence and accuracy, in order of confidence.",
    formula: "max_c |(1/N) Σ_{conf ≤ c} (conf − hit)|",
    range: "0 to 1",
    caveat: "Where some confidences are too high and others too low, the two cancel in the sum; and chance makes it larger, the more so the fewer rows there are.",
    equals: "its definition by Gupta et al. (2021), written in numpy",
    best: Best::Lowest,
    compute: Compute::TopLabel(|rows, _| largest_cumulative_gap(rows)),
    from_state: FromState::Estimated(|state| Some(estimate(state))),
};

fn largest_cumulative_gap(rows: &Sorted<'_>) -> f64 {
    let weight = |row: usize| rows.weight.map_or(1.0, |w| w[row]);
    let n = rows.confidence.len();
    let mut largest: f64 = 0.0;
    let (mut sum, mut total) = (0.0, 0.0);
    for row in 0..n {
        let confidence = rows.confidence[row];
        sum += weight(row) * (confidence - rows.hit[row]);
        total += weight(row);
        // Rows with equal confidences count together.
        if row + 1 == n || rows.confidence[row + 1] > confidence {
            largest = largest.max(f64::abs(sum));
        }
    }
    largest / total
}

/// The bound is how far the cumulative difference can get within a fine bin beyond its values at the bin's
/// ends.
fn estimate(state: &MetricState) -> Estimate {
    let fine = state.fine_rows();
    let value = largest_cumulative_gap(&fine.sorted());
    let (mut furthest, mut total): (f64, f64) = (0.0, 0.0);
    let mut before = 0.0;
    for ((&w, &c), &h) in fine.weight.iter().zip(&fine.confidence).zip(&fine.hit) {
        let (confidence, hits) = (w * c, w * h);
        let after = before + confidence - hits;
        // Within the bin, some of its confidences and hits have been added and the others have not.
        let highest = f64::min(before + confidence, after + hits);
        let lowest = f64::max(before - hits, after - confidence);
        furthest = furthest.max(highest).max(-lowest);
        before = after;
        total += w;
    }
    Estimate {
        value,
        error_bound: (furthest / total - value).max(0.0),
    }
}

/// The Kolmogorov–Smirnov calibration error (Gupta et al. 2021): the largest |(1/N) Σ (conf − hit)| over
/// the rows whose confidence is at most c, for any c. It needs no bins.
///
/// Rows with equal confidences are added together, so their order does not matter. No package
/// provides it; the tests compare it with the definition written in numpy.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, ks};
///
/// let probs = array![[0.6_f64, 0.4], [0.9, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 0])?;
/// // 0.6/2 after the first row, (0.6 − 0.1)/2 after both.
/// assert!((ks(&predictions, &MetricOptions::default())? - 0.3).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn ks(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    Metric::Ks.compute(predictions, options)
}

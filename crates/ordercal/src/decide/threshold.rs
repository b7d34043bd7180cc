//! The confidence above which few predictions are wrong.

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use super::binomial;
use crate::error::{Error, Result};
use crate::metrics::Predictions;
use crate::words::count;

/// What a [`threshold`] is to promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct ThresholdOptions {
    /// The largest share of wrong predictions above the threshold; default 0.02.
    pub max_error: f64,
    /// How sure the promise is: the probability, over the draw of the labelled rows, that it holds; default 0.95.
    pub confidence: f64,
}

impl Default for ThresholdOptions {
    fn default() -> Self {
        Self {
            max_error: 0.02,
            confidence: 0.95,
        }
    }
}

impl ThresholdOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first option that is out of range.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in [
            ("max_error", self.max_error),
            ("confidence", self.confidence),
        ] {
            if !(value > 0.0 && value < 1.0) {
                return Err(Error::invalid(name, value, "above 0 and below 1"));
            }
        }
        Ok(())
    }

    /// The smallest number of rows that suffices for the promise, if none of them is wrong.
    fn fewest_rows(&self) -> u64 {
        ((1.0 - self.confidence).ln() / (-self.max_error).ln_1p()).ceil() as u64
    }
}

/// A confidence and what is promised above it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Threshold {
    /// Predictions with at least this confidence are taken; infinite if nothing can be promised.
    pub threshold: f64,
    /// The share of the labelled rows that are taken.
    pub coverage: f64,
    /// Its two-sided Clopper–Pearson interval.
    pub coverage_interval: (f64, f64),
    /// The share of wrong predictions among the taken rows; 0 if none is taken.
    pub error: f64,
    /// The Clopper–Pearson upper bound of the error rate, at most `max_error`; 1 if nothing can be promised.
    pub error_bound: f64,
    /// The number of labelled rows.
    pub rows: u64,
    /// The number of them that are taken.
    pub taken: u64,
    /// Why nothing can be promised, with what would help; empty if something is.
    pub reason: String,
}

impl Threshold {
    /// Whether there is a threshold with the promise.
    pub fn is_promised(&self) -> bool {
        self.reason.is_empty()
    }
}

/// Thresholds 1 − 2^(−i/`PER_OCTAVE`), for i from `OCTAVES` · `PER_OCTAVE` down to 0. They do not depend on the data:
/// the tests would not be valid otherwise.
const PER_OCTAVE: i32 = 8;
const OCTAVES: i32 = 44;

/// The lowest confidence above which at most `max_error` of the predictions are wrong, with a guarantee.
///
/// Learn-then-Test (Angelopoulos et al. 2021) with fixed-sequence testing: thresholds of a fixed grid are tested from
/// the highest to the lowest, each at the level 1 − `confidence`, and the last one that passes before the first
/// failure is taken. A threshold passes if so few errors among the n rows above it would be less likely than that for
/// an error rate of `max_error`: the exact binomial test, P(Binomial(n, `max_error`) ≤ errors) ≤ 1 − `confidence`,
/// the same as a Clopper–Pearson upper bound of at most `max_error`.
///
/// With probability `confidence` over the draw of the labelled rows, the error rate of new rows at or above the
/// threshold is at most `max_error`. This needs rows that are independent draws from one distribution. The search begins
/// where enough rows are above the threshold, which keeps the guarantee exact if more confident predictions are not
/// wrong more often.
///
/// ```
/// use ndarray::Array2;
/// use ordercal::decide::{ThresholdOptions, threshold};
/// use ordercal::metrics::Predictions;
///
/// // 500 rows at 0.99, all right, and 500 at 0.6, half of them right.
/// let p = |row: usize| if row < 500 { 0.99_f64 } else { 0.6 };
/// let probs = Array2::from_shape_fn((1000, 2), |(row, class)| [p(row), 1.0 - p(row)][class]);
/// let labels: Vec<u32> = (0..1000).map(|row| u32::from(row >= 500 && row % 2 == 0)).collect();
/// let found = threshold(&Predictions::from_probs(probs.view(), &labels)?, &ThresholdOptions::default())?;
/// assert!(found.threshold > 0.6 && found.threshold < 0.99);
/// assert_eq!((found.taken, found.is_promised()), (500, true));
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range, or the rows have weights: the test counts rows.
pub fn threshold(predictions: &Predictions<'_>, options: &ThresholdOptions) -> Result<Threshold> {
    options.validate()?;
    if predictions.weights().is_some() {
        let expected = "none: the guarantee counts rows, each once";
        return Err(Error::invalid("weights", "given", expected));
    }
    let stats = predictions.stats();
    let mut sorted: Vec<(f64, bool)> = stats.iter().map(|s| (s.confidence, s.hit())).collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rows = sorted.len() as u64;
    let fewest = options.fewest_rows();
    // With the fewest rows a single error ends the search, so it starts with more where there are enough.
    let first = fewest.max((4 * fewest).min(rows / 20));

    let mut passed: Option<(f64, u64, u64)> = None;
    let mut failed = None;
    let (mut taken, mut errors) = (0, 0);
    for step in (0..=OCTAVES * PER_OCTAVE).rev() {
        let threshold = 1.0 - 2_f64.powf(-f64::from(step) / f64::from(PER_OCTAVE));
        while taken < rows && sorted[taken as usize].0 >= threshold {
            errors += u64::from(!sorted[taken as usize].1);
            taken += 1;
        }
        if taken < first {
            continue;
        }
        if binomial::cdf(errors, taken, options.max_error) > 1.0 - options.confidence {
            failed = Some((threshold, taken, errors));
            break;
        }
        passed = Some((threshold, taken, errors));
    }
    let reason = match (passed, failed) {
        (Some(_), _) => String::new(),
        (None, Some((at, taken, errors))) => format!(
            "no threshold can be promised: of {} with a confidence of at least {at:.6}, {} too many to rule out an \
             error rate above {}; use more rows or a larger max_error",
            count(taken, "row", "rows"),
            count(errors, "wrong one is", "wrong ones are"),
            options.max_error
        ),
        (None, None) => format!(
            "no threshold can be promised: {} too few, an error rate of at most {} needs {fewest} rows without an \
             error",
            count(rows, "row is", "rows are"),
            options.max_error
        ),
    };
    let (threshold, taken, errors) = passed.unwrap_or((f64::INFINITY, 0, 0));
    Ok(Threshold {
        threshold,
        coverage: taken as f64 / rows as f64,
        coverage_interval: binomial::interval(taken, rows, options.confidence),
        error: errors as f64 / taken.max(1) as f64,
        error_bound: binomial::upper_bound(errors, taken, 1.0 - options.confidence),
        rows,
        taken,
        reason,
    })
}

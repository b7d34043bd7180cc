//! Calibration errors of the predicted class: how far its probability is from how often it is right.

use super::binning::{Binning, Sorted, debiased_square, error_power, largest_gap, root};
use super::metric::{Metric, MetricOptions};
use super::predictions::{Predictions, RowStat};
use super::smooth;
use crate::error::Result;

/// The expected calibration error of the top label (Guo et al. 2017): Σ |B|/N · |acc(B) − conf(B)| over
/// 15 equal-width bins of the confidence.
///
/// Bins are closed on the right, a confidence of 0 is in the first (see [`Binning::EqualWidth`]); an empty
/// bin adds nothing. With `norm` p it is (Σ |B|/N · |acc − conf|ᵖ)^(1/p). Equal to netcal's `ECE` and
/// torchmetrics' `MulticlassCalibrationError` (`l1`, `l2`) wherever no confidence lies exactly on an edge;
/// those two close their bins on the left.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, ece};
///
/// // Both rows share a bin: mean confidence 0.79, accuracy 0.5.
/// let probs = array![[0.78_f64, 0.22], [0.80, 0.20]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!((ece(&predictions, &MetricOptions::default())? - 0.29).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::Ece, predictions, options)
}

/// The maximum calibration error: the largest |acc(B) − conf(B)| among the bins of [`ece`].
///
/// One row alone in a bin can decide it. Equal to netcal's `MCE` and torchmetrics' `max` norm.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, mce};
///
/// let probs = array![[0.9_f64, 0.1], [0.55, 0.45]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!((mce(&predictions, &MetricOptions::default())? - 0.55).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn mce(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::Mce, predictions, options)
}

/// [`ece`] with 15 equal-mass bins (Nixon et al. 2019), which cannot hide all rows in one bin.
///
/// The bins are those of [`Binning::EqualMass`]: equal confidences share a bin, N rows make at most N
/// bins. Equal to uncertainty-calibration's `get_ece_em`.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, adaptive_ece};
///
/// // Two rows make two bins, although both confidences are nearly the same.
/// let probs = array![[0.78_f64, 0.22], [0.80, 0.20]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// let expected = 0.5 * (1.0 - 0.78) + 0.5 * 0.80;
/// assert!((adaptive_ece(&predictions, &MetricOptions::default())? - expected).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn adaptive_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::AdaptiveEce, predictions, options)
}

/// The debiased ECE of Kumar et al. (2019): a root-mean-square error from which the part that comes of
/// estimating the accuracy of a bin from few rows is subtracted.
///
/// √max(0, Σ |B|/N · ((conf − acc)² − acc(1 − acc)/(|B| − 1))) over 15 bins of [`Binning::EqualMass`];
/// bins of fewer than 2 rows add 0. Weights count rows: |B| is the sum of the weights. Equal to
/// uncertainty-calibration's `lower_bound_scaling_top_ce`.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, debiased_ece};
///
/// // Five rows with one confidence, four of them right: as good as can be told.
/// let probs = array![[0.8_f64, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 0, 0, 0, 1])?;
/// assert!(debiased_ece(&predictions, &MetricOptions::default())? < 1e-12);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn debiased_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::DebiasedEce, predictions, options)
}

/// The Kolmogorov–Smirnov calibration error (Gupta et al. 2021): the largest |(1/N) Σ (conf − hit)| over
/// the rows whose confidence is at most c, for any c. It needs no bins.
///
/// Rows with equal confidences enter together, so their order does not matter.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Predictions, ks};
///
/// let probs = array![[0.6_f64, 0.4], [0.9, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 0])?;
/// // After the first row 0.6/2, after both (0.6 − 0.1)/2.
/// assert!((ks(&predictions) - 0.3).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn ks(predictions: &Predictions<'_>) -> f64 {
    let top = TopLabel::new(&predictions.row_stats());
    let weight = top.in_order(predictions.weights());
    largest_cumulative_gap(&top.sorted(weight.as_deref()))
}

/// The smooth ECE of Błasiok and Nakkiran (2023): the residuals conf − hit are smoothed by a Gaussian
/// kernel over the confidence, reflected at 0 and 1, and their absolute values averaged; the kernel's
/// width is the one at which the result equals the width, so nothing has to be chosen.
///
/// Equal to `smECE` of the package relplot, including its grid (at least 1000 intervals, at least 10 per
/// kernel width), its ten halvings in search of the width, and its smallest width of 0.001.
///
/// ```
/// use ndarray::Array2;
/// use ordercal::metrics::{Predictions, sm_ece};
///
/// // Sure to 0.9, right in half of the rows.
/// let probs = Array2::from_shape_fn((100, 2), |(_, class)| [0.9_f64, 0.1][class]);
/// let labels: Vec<u32> = (0..100).map(|row| row % 2).collect();
/// let value = sm_ece(&Predictions::from_probs(probs.view(), &labels)?);
/// assert!((value - 0.4).abs() < 0.01);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn sm_ece(predictions: &Predictions<'_>) -> f64 {
    let top = TopLabel::new(&predictions.row_stats());
    let weight = top.in_order(predictions.weights());
    smooth::smooth_error(&top.sorted(weight.as_deref()))
}

fn value(metric: Metric, predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    options.validate()?;
    let top = TopLabel::new(&predictions.row_stats());
    let weight = top.in_order(predictions.weights());
    Ok(error_of(metric, &top.sorted(weight.as_deref()), options))
}

/// The value of a metric of the top label.
pub(crate) fn error_of(metric: Metric, rows: &Sorted<'_>, options: &MetricOptions) -> f64 {
    let sums = |binning| rows.bin_sums(binning, options.bins);
    let norm = options.norm;
    match metric {
        Metric::Ece => root(error_power(&sums(Binning::EqualWidth), norm), norm),
        Metric::Mce => largest_gap(&sums(Binning::EqualWidth)),
        Metric::AdaptiveEce => root(error_power(&sums(Binning::EqualMass), norm), norm),
        Metric::DebiasedEce => debiased_square(&sums(Binning::EqualMass)).sqrt(),
        Metric::Ks => largest_cumulative_gap(rows),
        Metric::SmEce => smooth::smooth_error(rows),
        _ => unreachable!("{metric} is not a metric of the top label"),
    }
}

fn largest_cumulative_gap(rows: &Sorted<'_>) -> f64 {
    let weight = |row: usize| rows.weight.map_or(1.0, |w| w[row]);
    let n = rows.confidence.len();
    let mut largest: f64 = 0.0;
    let (mut sum, mut total) = (0.0, 0.0);
    for row in 0..n {
        let confidence = rows.confidence[row];
        sum += weight(row) * (confidence - rows.hit[row]);
        total += weight(row);
        if row + 1 == n || rows.confidence[row + 1] > confidence {
            largest = largest.max(f64::abs(sum));
        }
    }
    largest / total
}

/// The confidences of the predictions in ascending order, with the rows they came from.
#[derive(Debug)]
pub(crate) struct TopLabel {
    confidence: Vec<f64>,
    hit: Vec<f64>,
    row: Vec<usize>,
}

impl TopLabel {
    pub(crate) fn new(stats: &[RowStat]) -> Self {
        let mut row: Vec<usize> = (0..stats.len()).collect();
        row.sort_by(|&a, &b| stats[a].confidence.total_cmp(&stats[b].confidence));
        Self {
            confidence: row.iter().map(|&row| stats[row].confidence).collect(),
            hit: row
                .iter()
                .map(|&row| f64::from(u8::from(stats[row].hit())))
                .collect(),
            row,
        }
    }

    /// Weights of the rows, in order of the confidences.
    pub(crate) fn in_order(&self, weights: Option<&[f64]>) -> Option<Vec<f64>> {
        weights.map(|weights| self.row.iter().map(|&row| weights[row]).collect())
    }

    pub(crate) fn sorted<'a>(&'a self, weight: Option<&'a [f64]>) -> Sorted<'a> {
        self.with_hits(&self.hit, weight)
    }

    /// The same confidences with other outcomes, given in order of the confidences.
    pub(crate) fn with_hits<'a>(&'a self, hit: &'a [f64], weight: Option<&'a [f64]>) -> Sorted<'a> {
        Sorted::new(&self.confidence, hit, weight)
    }

    pub(crate) fn confidence(&self) -> &[f64] {
        &self.confidence
    }
}

//! The numbers behind a reliability diagram.

use serde::{Deserialize, Serialize};

use super::binning::{BinSum, Binning, Sorted, edge};
use super::classwise::sorted_column;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::top_label::{SortedRows, equal_width_sums};
use crate::error::{Error, Result};

/// The two-sided 95 % point of the normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// The probability and the outcome that a diagram compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Target {
    /// The probability of the predicted class, against whether the prediction is right.
    TopLabel,
    /// The probability of one class, against whether it is the label.
    Class(usize),
}

/// One bin of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReliabilityBin {
    /// Where the bin begins.
    pub lower: f64,
    /// Where the bin ends.
    pub upper: f64,
    /// Rows with a positive weight.
    pub count: u64,
    /// The share of the total weight.
    pub share: f64,
    /// The means over its rows; `None` if there are none.
    pub filled: Option<FilledBin>,
}

/// The means over the rows of a bin that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FilledBin {
    /// The mean probability.
    pub confidence: f64,
    /// The share of rows in which the outcome occurred.
    pub accuracy: f64,
    /// `confidence` − `accuracy`: above 0 is overconfident, as in the figures of Maddox et al. (2019).
    pub gap: f64,
    /// The 95 % Wilson interval of the accuracy.
    pub interval: (f64, f64),
    /// Where the accuracy of a calibrated classifier would lie in 95 % of samples of this size, by chance alone: the
    /// confidence ± 1.96 standard deviations. The accuracy is within it just where the Wilson interval has the confidence.
    pub consistency: (f64, f64),
}

/// The bins of a reliability diagram, in ascending order.
///
/// Σ share · |gap| over [`Binning::EqualWidth`] bins of the top label is the [`ece`](super::ece).
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Binning, MetricOptions, Predictions, Reliability, Target, ece};
///
/// let probs = array![[0.7_f64, 0.3], [0.69, 0.31], [0.2, 0.8]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1, 1])?;
/// let options = MetricOptions::default();
/// let diagram = Reliability::new(&predictions, Target::TopLabel, Binning::EqualWidth, &options)?;
/// assert_eq!(diagram.bins.len(), 15);
/// let filled: Vec<_> = diagram.bins.iter().filter_map(|bin| bin.filled).collect();
/// assert!((filled[0].accuracy - 0.5).abs() < 1e-15);
/// assert!((diagram.error() - ece(&predictions, &options)?).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reliability {
    /// The probability and the outcome compared.
    pub target: Target,
    /// How the bins were cut.
    pub binning: Binning,
    /// The bins.
    pub bins: Vec<ReliabilityBin>,
}

impl Reliability {
    /// Sorts the rows into bins.
    ///
    /// Equal-mass bins that are empty because of tied confidences are left out. Weights count rows, in the
    /// Wilson interval too.
    ///
    /// # Errors
    /// If an option is out of range or the class is not one of the predictions'.
    pub fn new(
        predictions: &Predictions<'_>,
        target: Target,
        binning: Binning,
        options: &MetricOptions,
    ) -> Result<Self> {
        options.validate()?;
        let sorted_bins = |rows: &SortedRows| {
            let weight = rows.sort_weights(predictions.weights());
            bins_of(&rows.sorted(weight.as_deref()), binning, options.bins)
        };
        let bins = match target {
            Target::TopLabel if binning == Binning::EqualWidth => {
                let (stats, weights) = (predictions.stats(), predictions.weights());
                equal_width_bins(&equal_width_sums(stats, weights, options.bins))
            }
            Target::TopLabel => sorted_bins(&SortedRows::of_top_label(predictions.stats())),
            Target::Class(class) => {
                if class >= predictions.classes() {
                    let expected = "a class of the predictions";
                    return Err(Error::invalid("class", class, expected));
                }
                sorted_bins(&sorted_column(predictions, class))
            }
        };
        Ok(Self {
            target,
            binning,
            bins,
        })
    }

    /// Σ share · |gap|.
    pub fn error(&self) -> f64 {
        let gap = |bin: &ReliabilityBin| bin.filled.map_or(0.0, |filled| filled.gap.abs());
        self.bins.iter().map(|bin| bin.share * gap(bin)).sum()
    }
}

fn bins_of(rows: &Sorted<'_>, binning: Binning, bins: usize) -> Vec<ReliabilityBin> {
    let edges: Vec<f64> = match binning {
        Binning::EqualWidth => return equal_width_bins(&rows.bin_sums(binning, bins)),
        // The last bin holds only 1.
        Binning::LeftClosed if bins > 1 => {
            (0..bins).map(|i| edge(i, bins - 1)).chain([1.0]).collect()
        }
        Binning::LeftClosed => vec![0.0, 1.0],
        Binning::EqualMass => {
            let inner = rows.equal_mass_edges(bins);
            [0.0].into_iter().chain(inner).chain([1.0]).collect()
        }
    };
    let sums = rows.bin_sums(binning, bins);
    let bins = between(&edges, &sums);
    bins.filter(|bin| binning != Binning::EqualMass || bin.filled.is_some())
        .collect()
}

/// The bins of [`Binning::EqualWidth`], given their sums.
pub(crate) fn equal_width_bins(sums: &[BinSum]) -> Vec<ReliabilityBin> {
    let edges: Vec<f64> = (0..=sums.len()).map(|i| edge(i, sums.len())).collect();
    between(&edges, sums).collect()
}

fn between(edges: &[f64], sums: &[BinSum]) -> impl Iterator<Item = ReliabilityBin> {
    let total: f64 = sums.iter().map(|bin| bin.weight).sum();
    let bins = edges.windows(2).zip(sums);
    bins.map(move |(edges, sum)| ReliabilityBin {
        lower: edges[0],
        upper: edges[1],
        count: sum.rows,
        share: sum.weight / total,
        filled: (!sum.is_empty()).then(|| filled(sum)),
    })
}

fn filled(sum: &BinSum) -> FilledBin {
    let accuracy = sum.hits / sum.weight;
    let confidence = sum.confidence / sum.weight;
    let noise = Z_95
        * (confidence * (1.0 - confidence) / sum.weight)
            .max(0.0)
            .sqrt();
    FilledBin {
        confidence,
        accuracy,
        gap: sum.gap(),
        interval: wilson_interval(sum.hits, sum.weight),
        consistency: ((confidence - noise).max(0.0), (confidence + noise).min(1.0)),
    }
}

/// The 95 % Wilson score interval of a share, given how often something occurred in how many trials.
///
/// (k + z²/2 ± z √(k(n−k)/n + z²/4)) / (n + z²) with z = 1.96. Unlike the normal approximation it stays
/// within \[0, 1\] and has a positive width for k = 0 and k = n. The counts need not be integers. Equal to
/// scipy's `binomtest(k, n).proportion_ci(method="wilson")`.
pub fn wilson_interval(occurrences: f64, trials: f64) -> (f64, f64) {
    let squared = Z_95 * Z_95;
    let spread = occurrences * (trials - occurrences) / trials + squared / 4.0;
    let middle = occurrences + squared / 2.0;
    let half = Z_95 * spread.max(0.0).sqrt();
    let scale = trials + squared;
    (
        ((middle - half) / scale).max(0.0),
        ((middle + half) / scale).min(1.0),
    )
}

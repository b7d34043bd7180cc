//! Calibration errors of every class by itself.

use super::binning::{
    BinSum, Binning, Sorted, debiased_square, edge, equal_width_bin, error_power, left_closed_bin,
    root,
};
use super::columns::for_each_class;
use super::kernels;
use super::metric::{Metric, MetricOptions};
use super::predictions::Predictions;
use crate::error::Result;

/// The class-wise ECE: the mean over the classes of the binary [`ece`](super::ece) of pⱼ against 1{y = j}.
///
/// (1/K) Σⱼ Σ_B |B|/N · |mean pⱼ − share of j| over 15 equal-width bins per class, closed on the right. A
/// class that no row has counts like any other. With `norm` p it is the p-th root of the classes' mean
/// p-th powers, as in uncertainty-calibration's `lower_bound_scaling_ce` with `mode='marginal'`,
/// `debias=False` and equal-width bins.
///
/// # Do not use it alone
/// On balanced data it can be made to look perfect without calibrating anything (Rahimi et al. 2020, their
/// appendix): divide all logits by 1000. Every pⱼ becomes nearly 1/K, so all rows of a class fall into one
/// bin, where the mean probability is 1/K and so is the share of the class. Nothing was learned, the top
/// label's confidence is 1/K whatever its accuracy, and `ece`, `nll` and `brier` say so. Read it together
/// with one of those, or use [`marginal_ce`], whose equal-mass bins keep rows apart. The example
/// `classwise_ece_misleads` shows the numbers.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, classwise_ece};
///
/// // Knows nothing, and is perfect by this metric, because both classes are equally frequent.
/// let probs = array![[0.5_f64, 0.5], [0.5, 0.5]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// assert!(classwise_ece(&predictions, &MetricOptions::default())? < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn classwise_ece(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::ClasswiseEce, predictions, options)
}

/// The class-wise ECE in the tables of Kull et al. (2019) and of Rahimi et al. (2020): the *sum* over the
/// classes, with one bin fewer than asked for (14), closed on the left.
///
/// Their code cuts at `np.linspace(0, 1, 15)`, which are 15 edges and so 14 bins, and a probability of
/// exactly 1 is in a bin of its own ([`Binning::LeftClosed`]). It misleads as [`classwise_ece`] does. With
/// `norm` p it is the p-th root of the sum of the classes' p-th powers.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, classwise_ece_sum};
///
/// let probs = array![[0.9_f64, 0.1], [0.9, 0.1]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 1])?;
/// let value = classwise_ece_sum(&predictions, &MetricOptions::default())?;
/// assert!((value - (0.4 + 0.4)).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn classwise_ece_sum(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::ClasswiseEceSum, predictions, options)
}

/// The marginal calibration error of Kumar et al. (2019): [`debiased_ece`](super::debiased_ece) of every
/// class against 1{y = j}, √((1/K) Σⱼ ceⱼ²).
///
/// Each class has 15 equal-mass bins of its own and its square is floored at 0 before the mean. Equal to
/// uncertainty-calibration's `lower_bound_scaling_ce`. Columns are sorted a block of classes at a time: at
/// 25,000 rows of 1000 classes it needs less memory than the scores themselves.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, marginal_ce};
///
/// let probs = array![[1.0_f64, 0.0], [1.0, 0.0], [1.0, 0.0]];
/// let predictions = Predictions::from_probs(probs.view(), &[1, 1, 1])?;
/// let value = marginal_ce(&predictions, &MetricOptions::default())?;
/// assert!((value - 1.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range.
pub fn marginal_ce(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    value(Metric::MarginalCe, predictions, options)
}

fn value(metric: Metric, predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
    options.validate()?;
    Ok(errors_of(metric, predictions, &[predictions.weights()], options)[0])
}

/// The value of a per-class metric under each of several weightings of the rows.
pub(crate) fn errors_of(
    metric: Metric,
    predictions: &Predictions<'_>,
    weightings: &[Option<&[f64]>],
    options: &MetricOptions,
) -> Vec<f64> {
    let labels = predictions.labels();
    let per_class = match metric {
        Metric::MarginalCe => {
            for_each_class(predictions, Columns::default, |class, column, scratch| {
                scratch.sort(column, labels, class, weightings);
                let error =
                    |weights: &Option<&[f64]>| scratch.debiased_square(*weights, options.bins);
                weightings.iter().map(error).collect::<Vec<f64>>()
            })
        }
        _ => for_each_class(
            predictions,
            || (),
            |class, column, ()| {
                let bins = FixedBins::new(metric, options.bins, column, labels, class);
                let error =
                    |weights: &Option<&[f64]>| error_power(&bins.sums(*weights), options.norm);
                weightings.iter().map(error).collect::<Vec<f64>>()
            },
        ),
    };
    (0..weightings.len())
        .map(|i| {
            let errors: Vec<f64> = per_class.iter().map(|errors| errors[i]).collect();
            combine(metric, &errors, options.norm)
        })
        .collect()
}

/// The classes' errors, before their root, as one number.
pub(crate) fn combine(metric: Metric, errors: &[f64], norm: f64) -> f64 {
    let sum: f64 = errors.iter().sum();
    let mean = sum / errors.len() as f64;
    match metric {
        Metric::ClasswiseEce => root(mean, norm),
        Metric::ClasswiseEceSum => root(sum, norm),
        Metric::MarginalCe => mean.sqrt(),
        _ => unreachable!("{metric} does not look at single classes"),
    }
}

/// A column in fixed bins. With many classes nearly all probabilities are in the first bin: only the
/// others are listed, the first bin's are summed in bulk.
struct FixedBins<'a> {
    /// The column with the listed probabilities replaced by 0.
    first_bin: &'a [f64],
    listed: Vec<Cell>,
    /// Rows of the class whose probability is in the first bin.
    first_hits: Vec<usize>,
    bins: usize,
}

struct Cell {
    row: usize,
    bin: usize,
    p: f64,
    hit: bool,
}

impl<'a> FixedBins<'a> {
    fn new(
        metric: Metric,
        bins: usize,
        column: &'a mut [f64],
        labels: &[u32],
        class: usize,
    ) -> Self {
        let left_closed = metric == Metric::ClasswiseEceSum;
        let widths = if left_closed { (bins - 1).max(1) } else { bins };
        let first_edge = edge(1, widths);
        let bin_of = if left_closed {
            left_closed_bin
        } else {
            equal_width_bin
        };
        let mut listed = Vec::new();
        let mut first_hits = Vec::new();
        for (row, p) in column.iter_mut().enumerate() {
            let hit = labels[row] as usize == class;
            // The edge itself is in the first bin or not, depending on the scheme.
            let bin = if *p < first_edge { 0 } else { bin_of(*p, bins) };
            if bin > 0 {
                let p = std::mem::take(p);
                listed.push(Cell { row, bin, p, hit });
            } else if hit {
                first_hits.push(row);
            }
        }
        Self {
            first_bin: column,
            listed,
            first_hits,
            bins,
        }
    }

    fn sums(&self, weights: Option<&[f64]>) -> Vec<BinSum> {
        let weight = |row: usize| weights.map_or(1.0, |w| w[row]);
        let mut sums = vec![BinSum::default(); self.bins];
        for cell in &self.listed {
            let weight = weight(cell.row);
            let bin = &mut sums[cell.bin];
            bin.weight += weight;
            bin.confidence += weight * cell.p;
            bin.hits += if cell.hit { weight } else { 0.0 };
        }
        let listed: f64 = sums.iter().map(|bin| bin.weight).sum();
        let (total, confidence) = match weights {
            None => (self.first_bin.len() as f64, self.first_bin.iter().sum()),
            Some(weights) => (weights.iter().sum(), kernels::dot(weights, self.first_bin)),
        };
        sums[0] = BinSum {
            rows: 0,
            weight: (total - listed).max(0.0),
            confidence,
            hits: self.first_hits.iter().map(|&row| weight(row)).sum(),
        };
        sums
    }
}

/// A thread's scratch for sorting columns.
#[derive(Default)]
struct Columns {
    /// A probability's bits, one place to the left, and whether the row is of the class in the last bit.
    keys: Vec<u64>,
    /// The same with the row, where weights have to follow.
    keys_with_rows: Vec<(u64, usize)>,
    confidence: Vec<f64>,
    hit: Vec<f64>,
    row: Vec<usize>,
}

impl Columns {
    fn sort(
        &mut self,
        column: &[f64],
        labels: &[u32],
        class: usize,
        weightings: &[Option<&[f64]>],
    ) {
        // Probabilities are not negative, so the sign's bit is free and the bits sort as the numbers do.
        let key =
            |row: usize| (column[row].to_bits() << 1) | u64::from(labels[row] as usize == class);
        let confidence = |key: u64| f64::from_bits(key >> 1);
        let hit = |key: u64| f64::from((key & 1) as u32);
        self.confidence.clear();
        self.hit.clear();
        self.row.clear();
        if weightings.iter().all(Option::is_none) {
            self.keys.clear();
            self.keys.extend((0..column.len()).map(key));
            self.keys.sort_unstable();
            self.confidence
                .extend(self.keys.iter().map(|&k| confidence(k)));
            self.hit.extend(self.keys.iter().map(|&k| hit(k)));
        } else {
            self.keys_with_rows.clear();
            self.keys_with_rows
                .extend((0..column.len()).map(|row| (key(row), row)));
            self.keys_with_rows.sort_unstable();
            let keys = &self.keys_with_rows;
            self.confidence
                .extend(keys.iter().map(|&(k, _)| confidence(k)));
            self.hit.extend(keys.iter().map(|&(k, _)| hit(k)));
            self.row.extend(keys.iter().map(|&(_, row)| row));
        }
    }

    fn debiased_square(&self, weights: Option<&[f64]>, bins: usize) -> f64 {
        let weight: Option<Vec<f64>> =
            weights.map(|weights| self.row.iter().map(|&row| weights[row]).collect());
        let rows = Sorted::new(&self.confidence, &self.hit, weight.as_deref());
        debiased_square(&rows.bin_sums(Binning::EqualMass, bins))
    }
}

/// The column of one class, sorted, for reliability diagrams.
pub(crate) fn sorted_column(
    predictions: &Predictions<'_>,
    class: usize,
) -> (Vec<f64>, Vec<f64>, Option<Vec<f64>>) {
    let mut buffer = vec![0.0; predictions.classes()];
    let column: Vec<f64> = (0..predictions.rows())
        .map(|row| {
            predictions.probabilities(row, &mut buffer);
            buffer[class]
        })
        .collect();
    let weights = predictions.weights();
    let mut scratch = Columns::default();
    scratch.sort(&column, predictions.labels(), class, &[weights]);
    let weight = weights.map(|w| scratch.row.iter().map(|&row| w[row]).collect());
    (scratch.confidence, scratch.hit, weight)
}

//! Calibration errors of single classes: the probability pⱼ of a class against 1{y = j}.

use super::binning::{
    BinSum, Binning, Sorted, debiased_square, edge, equal_width_bin, left_closed_bin, power_of_gaps,
};
use super::columns::for_each_class;
use super::kernels;
use super::options::MetricOptions;
use super::predictions::Predictions;

/// Under each weighting: Σ share · |gap|ᵖ over the fixed bins of every class, combined to one number.
pub(crate) fn binned_errors(
    predictions: &Predictions<'_>,
    weightings: &[Option<&[f64]>],
    options: &MetricOptions,
    binning: Binning,
    combine: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let labels = predictions.labels();
    let per_class = for_each_class(
        predictions,
        || (),
        |class, column, ()| {
            let bins = FixedBins::new(binning, options.bins, column, labels, class);
            let error =
                |weights: &Option<&[f64]>| power_of_gaps(&bins.sums(*weights), options.norm);
            weightings.iter().map(error).collect::<Vec<f64>>()
        },
    );
    by_weighting(&per_class, weightings.len(), combine)
}

/// Under each weighting: the debiased squared error of every class, combined to one number.
pub(crate) fn debiased_errors(
    predictions: &Predictions<'_>,
    weightings: &[Option<&[f64]>],
    options: &MetricOptions,
    combine: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let labels = predictions.labels();
    let per_class = for_each_class(
        predictions,
        ColumnSorter::default,
        |class, column, sorter| {
            sorter.sort(column, labels, class, weightings);
            let error = |weights: &Option<&[f64]>| sorter.debiased_square(*weights, options.bins);
            weightings.iter().map(error).collect::<Vec<f64>>()
        },
    );
    by_weighting(&per_class, weightings.len(), combine)
}

/// Combines the classes' errors under each weighting.
fn by_weighting(
    per_class: &[Vec<f64>],
    weightings: usize,
    combine: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let under = |weighting: usize| {
        let errors: Vec<f64> = per_class.iter().map(|errors| errors[weighting]).collect();
        combine(&errors)
    };
    (0..weightings).map(under).collect()
}

/// The mean of a value per class.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A column in bins with fixed edges. With many classes nearly all probabilities are in the first bin: only
/// the others are listed, and the first bin is summed as a whole.
struct FixedBins<'a> {
    /// The column with the listed probabilities replaced by 0.
    first_bin: &'a [f64],
    listed: Vec<Listed>,
    /// Rows of the class whose probability is in the first bin.
    first_hits: Vec<usize>,
    bins: usize,
}

/// A probability outside the first bin.
struct Listed {
    row: usize,
    bin: usize,
    p: f64,
    hit: bool,
}

impl<'a> FixedBins<'a> {
    fn new(
        binning: Binning,
        bins: usize,
        column: &'a mut [f64],
        labels: &[u32],
        class: usize,
    ) -> Self {
        let left_closed = binning == Binning::LeftClosed;
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
            // A probability exactly on the first edge is left to `bin_of`.
            let bin = if *p < first_edge { 0 } else { bin_of(*p, bins) };
            if bin > 0 {
                let p = std::mem::take(p);
                listed.push(Listed { row, bin, p, hit });
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
        for one in &self.listed {
            let weight = weight(one.row);
            let bin = &mut sums[one.bin];
            bin.weight += weight;
            bin.confidence += weight * one.p;
            bin.hits += if one.hit { weight } else { 0.0 };
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

/// Sorts columns; its buffers are reused from one column to the next.
#[derive(Default)]
struct ColumnSorter {
    /// A probability's bits, shifted left by one, with the hit as the last bit.
    keys: Vec<u64>,
    /// The same with the row, for columns with weights.
    keys_with_rows: Vec<(u64, usize)>,
    confidence: Vec<f64>,
    hit: Vec<f64>,
    row: Vec<usize>,
}

impl ColumnSorter {
    fn sort(
        &mut self,
        column: &[f64],
        labels: &[u32],
        class: usize,
        weightings: &[Option<&[f64]>],
    ) {
        // Probabilities are not negative, so the sign bit is free and the bits sort as the numbers do.
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

/// The probabilities of one class in ascending order, their hits and their weights.
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
    let mut sorter = ColumnSorter::default();
    sorter.sort(&column, predictions.labels(), class, &[weights]);
    let weight = weights.map(|w| sorter.row.iter().map(|&row| w[row]).collect());
    (sorter.confidence, sorter.hit, weight)
}

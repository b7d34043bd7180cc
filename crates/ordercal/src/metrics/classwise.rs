//! Calibration errors of single classes: the probability pⱼ of a class against 1{y = j}.

use super::binning::{BinSum, Binning, edge, equal_width_bin, left_closed_bin};
use super::columns::for_each_class;
use super::equal_mass::{PrefixSums, Weightings};
use super::kernels;
use super::order_statistics::OrderStatistics;
use super::predictions::Predictions;
use super::top_label::SortedRows;

/// What `read` makes of the bins of every class, for each kind of bins and under each weighting of the rows; `None` is a
/// weighting by 1.
pub(crate) fn for_class_bins<T: Clone + Send>(
    predictions: &Predictions<'_>,
    weightings: &[Option<&[f64]>],
    bins: usize,
    binnings: &[Binning],
    read: impl Fn(Binning, Vec<BinSum>) -> T + Sync,
) -> Vec<Vec<Vec<T>>> {
    let members = Members::new(predictions);
    let weighted = weightings.iter().any(Option::is_some);
    let together = match weighted && binnings.contains(&Binning::EqualMass) {
        true => Weightings::new(weightings, predictions.rows()),
        false => Weightings::new(&[], 0),
    };
    let per_class = for_each_class(
        predictions,
        ColumnScratch::default,
        |class, column, scratch| {
            let hits = members.of(class);
            let split = &mut scratch.split;
            if binnings.iter().any(|&kind| kind != Binning::EqualMass) {
                split.of(column, edge(1, bins), weighted);
            }
            let mut found = Vec::with_capacity(binnings.len() * weightings.len());
            for &binning in binnings {
                let read = |sums| read(binning, sums);
                if binning == Binning::EqualMass && weighted {
                    let rows = SortedRows::of_class(column, predictions.labels(), class);
                    found.extend(scratch.sums.each(&rows, &together, bins, read));
                } else if binning == Binning::EqualMass {
                    let one = read(scratch.statistics.bin_sums(column, hits, bins));
                    found.extend(weightings.iter().map(|_| one.clone()));
                } else {
                    let fixed = FixedBins::new(binning, bins, split, column, hits);
                    found.extend(weightings.iter().map(|weights| read(fixed.sums(*weights))));
                }
            }
            found
        },
    );
    let of = |place: usize| per_class.iter().map(|found| found[place].clone()).collect();
    let under = |kind: usize| {
        let places = kind * weightings.len()..(kind + 1) * weightings.len();
        places.map(of).collect()
    };
    (0..binnings.len()).map(under).collect()
}

/// The buffers of one thread.
#[derive(Default)]
struct ColumnScratch {
    split: Split,
    sums: PrefixSums,
    statistics: OrderStatistics,
}

/// The rows of every class, ascending.
struct Members {
    rows: Vec<u32>,
    /// Where those of a class begin, and behind the last where they end.
    starts: Vec<usize>,
}

impl Members {
    fn new(predictions: &Predictions<'_>) -> Self {
        let labels = predictions.labels();
        let mut starts = vec![0; predictions.classes() + 1];
        for &label in labels {
            starts[label as usize + 1] += 1;
        }
        for class in 1..starts.len() {
            starts[class] += starts[class - 1];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; labels.len()];
        for (row, &label) in labels.iter().enumerate() {
            rows[next[label as usize]] = row as u32;
            next[label as usize] += 1;
        }
        Self { rows, starts }
    }

    fn of(&self, class: usize) -> &[u32] {
        &self.rows[self.starts[class]..self.starts[class + 1]]
    }
}

/// The mean of a value per class.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A column, divided at the first edge of bins. With many classes nearly all probabilities are below it: only the others
/// are listed, and the rest is summed as a whole.
#[derive(Default)]
struct Split {
    rows: usize,
    /// Rows and probabilities of at least the edge.
    listed: Vec<(u32, f64)>,
    /// The sum of the others.
    rest: f64,
    /// The column with the listed probabilities replaced by 0; empty if there are no weights.
    others: Vec<f64>,
}

impl Split {
    fn of(&mut self, column: &[f64], edge: f64, weighted: bool) {
        self.rows = column.len();
        self.rest = kernels::split(column, edge, &mut self.listed);
        self.others.clear();
        if weighted {
            self.others.extend_from_slice(column);
            for &(row, _) in &self.listed {
                self.others[row as usize] = 0.0;
            }
        }
    }
}

/// A column in bins with fixed edges.
struct FixedBins<'a> {
    split: &'a Split,
    /// The bins of the listed probabilities.
    listed: Vec<usize>,
    /// Rows of the class, and the bins of their probabilities.
    hits: Vec<(u32, usize)>,
    bins: usize,
}

impl<'a> FixedBins<'a> {
    /// `hits` are the rows of the class.
    fn new(binning: Binning, bins: usize, split: &'a Split, column: &[f64], hits: &[u32]) -> Self {
        let bin_of = |p: f64| match binning {
            Binning::LeftClosed => left_closed_bin(p, bins),
            _ => equal_width_bin(p, bins),
        };
        let hits = hits.iter().map(|&row| (row, bin_of(column[row as usize])));
        Self {
            split,
            listed: split.listed.iter().map(|&(_, p)| bin_of(p)).collect(),
            hits: hits.collect(),
            bins,
        }
    }

    fn sums(&self, weights: Option<&[f64]>) -> Vec<BinSum> {
        let split = self.split;
        let weight = |row: u32| weights.map_or(1.0, |w| w[row as usize]);
        let mut sums = vec![BinSum::default(); self.bins];
        for (&bin, &(row, p)) in self.listed.iter().zip(&split.listed) {
            let weight = weight(row);
            let bin = &mut sums[bin];
            bin.weight += weight;
            bin.confidence += weight * p;
        }
        let above: f64 = sums[1..].iter().map(|bin| bin.weight).sum();
        let (total, rest) = match weights {
            None => (split.rows as f64, split.rest),
            Some(weights) => (weights.iter().sum(), kernels::dot(weights, &split.others)),
        };
        sums[0].weight = (total - above).max(0.0);
        sums[0].confidence += rest;
        for &(row, bin) in &self.hits {
            sums[bin].hits += weight(row);
        }
        sums
    }
}

/// The probabilities of one class in ascending order.
pub(crate) fn sorted_column(predictions: &Predictions<'_>, class: usize) -> SortedRows {
    let mut buffer = vec![0.0; predictions.classes()];
    let column: Vec<f64> = (0..predictions.rows())
        .map(|row| {
            predictions.probabilities(row, &mut buffer);
            buffer[class]
        })
        .collect();
    SortedRows::of_class(&column, predictions.labels(), class)
}

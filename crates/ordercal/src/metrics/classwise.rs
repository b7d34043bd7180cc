//! Calibration errors of single classes: the probability pⱼ of a class against 1{y = j}.

use super::binning::{
    BinSum, Binning, Sorted, debiased_square, edge, equal_width_bin, left_closed_bin, power_of_gaps,
};
use super::columns::for_each_class;
use super::equal_mass::{PrefixSums, Weightings};
use super::kernels;
use super::options::MetricOptions;
use super::predictions::Predictions;

/// The errors of every class, for each kind of bins and under each weighting of the rows: Σ share · |gap|ᵖ over
/// fixed bins, the debiased squared error over bins of equal mass. `None` is a weighting by 1.
pub(crate) fn class_errors(
    predictions: &Predictions<'_>,
    weightings: &[Option<&[f64]>],
    options: &MetricOptions,
    binnings: &[Binning],
) -> Vec<Vec<Vec<f64>>> {
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
            let mut errors = Vec::with_capacity(binnings.len() * weightings.len());
            for &binning in binnings {
                if binning == Binning::EqualMass && weighted {
                    scratch
                        .sorter
                        .sort(column, predictions.labels(), class, true);
                    let sorter = &scratch.sorter;
                    let sorted = Sorted::new(&sorter.confidence, &sorter.hit, None);
                    let (sums, rows) = (&mut scratch.sums, &sorter.row);
                    errors.extend(sums.debiased_squares(&sorted, rows, &together, options.bins));
                } else if binning == Binning::EqualMass {
                    let sums = scratch.statistics.bin_sums(column, hits, options.bins);
                    let error = debiased_square(&sums);
                    errors.extend(weightings.iter().map(|_| error));
                } else {
                    scratch.copy.clear();
                    scratch.copy.extend_from_slice(column);
                    let bins = FixedBins::new(binning, options.bins, &mut scratch.copy, hits);
                    let error = |weights: &Option<&[f64]>| {
                        power_of_gaps(&bins.sums(*weights), options.norm)
                    };
                    errors.extend(weightings.iter().map(error));
                }
            }
            errors
        },
    );
    let of = |place: usize| per_class.iter().map(|errors| errors[place]).collect();
    let under = |kind: usize| {
        let places = kind * weightings.len()..(kind + 1) * weightings.len();
        places.map(of).collect()
    };
    (0..binnings.len()).map(under).collect()
}

/// The buffers of one thread.
#[derive(Default)]
struct ColumnScratch {
    copy: Vec<f64>,
    sorter: ColumnSorter,
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

/// A column in bins with fixed edges. With many classes nearly all probabilities are in the first bin: only
/// the others are listed, and the first bin is summed as a whole.
struct FixedBins<'a> {
    /// The column with the listed probabilities replaced by 0.
    first_bin: &'a [f64],
    listed: Vec<Listed>,
    /// Rows of the class, and the bins of their probabilities.
    hits: Vec<(u32, usize)>,
    bins: usize,
}

/// A probability outside the first bin.
struct Listed {
    row: usize,
    bin: usize,
    p: f64,
}

impl<'a> FixedBins<'a> {
    /// `hits` are the rows of the class.
    fn new(binning: Binning, bins: usize, column: &'a mut [f64], hits: &[u32]) -> Self {
        let left_closed = binning == Binning::LeftClosed;
        let widths = if left_closed { (bins - 1).max(1) } else { bins };
        let first_edge = edge(1, widths);
        let bin_of = if left_closed {
            left_closed_bin
        } else {
            equal_width_bin
        };
        // Before the listed probabilities are replaced.
        let hits = hits
            .iter()
            .map(|&row| (row, bin_of(column[row as usize], bins)));
        let hits = hits.collect();
        let mut listed = Vec::new();
        for (row, p) in column.iter_mut().enumerate() {
            // A probability exactly on the first edge is left to `bin_of`.
            if *p >= first_edge {
                let bin = bin_of(*p, bins);
                if bin > 0 {
                    let p = std::mem::take(p);
                    listed.push(Listed { row, bin, p });
                }
            }
        }
        Self {
            first_bin: column,
            listed,
            hits,
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
        }
        let listed: f64 = sums.iter().map(|bin| bin.weight).sum();
        let (total, confidence) = match weights {
            None => (
                self.first_bin.len() as f64,
                kernels::total(self.first_bin).1,
            ),
            Some(weights) => (weights.iter().sum(), kernels::dot(weights, self.first_bin)),
        };
        sums[0].weight = (total - listed).max(0.0);
        sums[0].confidence = confidence;
        for &(row, bin) in &self.hits {
            sums[bin].hits += weight(row as usize);
        }
        sums
    }
}

/// Finds the smallest, the second smallest … number without sorting all; its buffers are reused.
#[derive(Default)]
pub(super) struct OrderStatistics {
    /// How many numbers share the leading bits.
    counts: Vec<u32>,
    /// Whether such numbers are asked for.
    wanted: Vec<bool>,
    few: Vec<f64>,
}

/// Numbers from 0 to about 1 are told apart by their exponent, from 2⁻¹²⁸ on, and 6 bits after it.
const BUCKETS: usize = 130 << 6;

/// The bucket of a number that is not negative; the larger number has the larger one or the same.
#[inline(always)]
fn bucket(value: f64) -> usize {
    const LOWEST: u64 = (1023 - 128) << 6;
    let leading = (value.to_bits() >> 46).saturating_sub(LOWEST);
    (leading as usize).min(BUCKETS - 1)
}

impl OrderStatistics {
    /// The numbers of the given ranks, which ascend from 0.
    pub(super) fn find(&mut self, values: &[f64], ranks: &[usize]) -> Vec<f64> {
        self.counts.clear();
        self.counts.resize(BUCKETS, 0);
        for &value in values {
            self.counts[bucket(value)] += 1;
        }
        self.wanted.clear();
        self.wanted.resize(BUCKETS, false);
        // Numbers in the buckets before a rank that are not wanted: by so many places a rank moves.
        let (mut before, mut left_out) = (0, 0);
        let mut at = 0;
        let mut moved = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            while before + self.counts[at] as usize <= rank {
                before += self.counts[at] as usize;
                left_out += if self.wanted[at] {
                    0
                } else {
                    self.counts[at] as usize
                };
                at += 1;
            }
            self.wanted[at] = true;
            moved.push(rank - left_out);
        }
        self.few.clear();
        let wanted = values.iter().filter(|value| self.wanted[bucket(**value)]);
        self.few.extend(wanted);
        self.few.sort_unstable_by(f64::total_cmp);
        moved.iter().map(|&rank| self.few[rank]).collect()
    }

    /// The inner edges of [`Binning::EqualMass`] for numbers without weights, ascending.
    pub(super) fn equal_mass_edges(&mut self, values: &[f64], bins: usize) -> Vec<f64> {
        let cuts = Sorted::new(values, &[], None).equal_mass_cuts(bins);
        let ranks = cuts.iter().map(|&cut| cut as usize);
        let ranks: Vec<usize> = ranks.flat_map(|cut| [cut - 1, cut]).collect();
        let pairs = self.find(values, &ranks);
        let pairs = pairs.chunks_exact(2);
        let mut edges: Vec<f64> = pairs.map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        // By rounding, an edge can lie below the one before it.
        for place in 1..edges.len() {
            edges[place] = edges[place].max(edges[place - 1]);
        }
        edges
    }

    /// The sums over bins of equal mass of a column without weights, as [`Sorted::bin_sums`] gives them for the
    /// sorted column. `hits` are the rows of the class.
    fn bin_sums(&mut self, column: &[f64], hits: &[u32], bins: usize) -> Vec<BinSum> {
        let edges = self.equal_mass_edges(column, bins);
        // Differences of sums that grow: a bin's own is the largest part, so nothing cancels.
        let mut below = (0.0, 0.0);
        let ends = edges.iter().copied().chain([f64::INFINITY]);
        let mut sums: Vec<BinSum> = ends
            .map(|end| {
                let (count, sum) = kernels::up_to(column, end);
                let bin = BinSum {
                    rows: (count - below.0) as u64,
                    weight: count - below.0,
                    confidence: sum - below.1,
                    hits: 0.0,
                };
                below = (count, sum);
                bin
            })
            .collect();
        for &row in hits {
            let bin = edges.partition_point(|&edge| edge < column[row as usize]);
            sums[bin].hits += 1.0;
        }
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
    fn sort(&mut self, column: &[f64], labels: &[u32], class: usize, with_rows: bool) {
        // Probabilities are not negative, so the sign bit is free and the bits sort as the numbers do.
        let key =
            |row: usize| (column[row].to_bits() << 1) | u64::from(labels[row] as usize == class);
        let confidence = |key: u64| f64::from_bits(key >> 1);
        let hit = |key: u64| f64::from((key & 1) as u32);
        self.confidence.clear();
        self.hit.clear();
        self.row.clear();
        if !with_rows {
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
    sorter.sort(&column, predictions.labels(), class, weights.is_some());
    let weight = weights.map(|w| sorter.row.iter().map(|&row| w[row]).collect());
    (sorter.confidence, sorter.hit, weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Ordinary, tied, zero, tiny and slightly too large probabilities.
    fn columns(rng: &mut Rng) -> Vec<Vec<f64>> {
        let mut column = |draw: &mut dyn FnMut(&mut Rng) -> f64, rows: usize| -> Vec<f64> {
            (0..rows).map(|_| draw(rng)).collect()
        };
        vec![
            column(&mut |rng| rng.uniform(), 500),
            column(&mut |rng| (20.0 * rng.normal()).exp().min(1.0 + 1e-4), 1000),
            column(&mut |rng| rng.below(4) as f64 / 3.0, 100),
            column(&mut |_| 0.25, 40),
            column(&mut |rng| rng.below(2) as f64 * 1e-300, 30),
            column(&mut |rng| rng.uniform(), 7),
            column(&mut |rng| rng.uniform(), 1),
        ]
    }

    #[test]
    fn order_statistics_are_those_of_a_sort() {
        let mut rng = Rng::new(71);
        for column in columns(&mut rng) {
            let mut sorted = column.clone();
            sorted.sort_by(f64::total_cmp);
            for step in [1, 3, 17] {
                let ranks: Vec<usize> = (0..column.len()).step_by(step).collect();
                let expected: Vec<f64> = ranks.iter().map(|&rank| sorted[rank]).collect();
                assert_eq!(OrderStatistics::default().find(&column, &ranks), expected);
            }
        }
    }

    #[test]
    fn bins_of_equal_mass_are_those_of_the_sorted_column() {
        let mut rng = Rng::new(72);
        for column in columns(&mut rng) {
            let hits: Vec<u32> = (0..column.len() as u32)
                .filter(|_| rng.below(3) == 0)
                .collect();
            let labels: Vec<u32> = (0..column.len() as u32)
                .map(|row| u32::from(hits.contains(&row)))
                .collect();
            let mut sorter = ColumnSorter::default();
            sorter.sort(&column, &labels, 1, false);
            let sorted = Sorted::new(&sorter.confidence, &sorter.hit, None);
            for bins in [1, 2, 15, 100] {
                let slow = sorted.bin_sums(Binning::EqualMass, bins);
                let fast = OrderStatistics::default().bin_sums(&column, &hits, bins);
                assert_eq!(fast.len(), slow.len());
                for (fast, slow) in fast.iter().zip(&slow) {
                    assert_eq!(
                        (fast.rows, fast.weight, fast.hits),
                        (slow.rows, slow.weight, slow.hits)
                    );
                    assert!(
                        (fast.confidence - slow.confidence).abs() <= 1e-13 * (1.0 + slow.weight),
                        "{fast:?} {slow:?}"
                    );
                }
            }
        }
    }
}

//! Order statistics of a column, and its bins of equal mass, without a sort.

use super::binning::{BinSum, Sorted};
use super::kernels;

/// Finds the smallest, the second smallest … number without sorting all; its buffers are reused.
pub(super) struct OrderStatistics {
    /// The bucket of every number.
    keys: Vec<u16>,
    /// How many numbers are in a bucket, and their sum; 0 between two columns.
    counts: Vec<u32>,
    sums: Vec<f64>,
    /// Whether numbers of the bucket are asked for.
    wanted: Vec<bool>,
    /// The numbers of wanted buckets, ascending.
    few: Vec<f64>,
}

/// Numbers from 0 to about 1 are told apart by their exponent, from 2⁻¹²⁸ on, and 6 bits after it.
const BUCKETS: usize = 130 << 6;

/// The bucket of a number that is not negative; the larger number has the larger one or the same.
#[inline(always)]
pub(super) fn bucket(value: f64) -> u16 {
    const LOWEST: u64 = (1023 - 128) << 6;
    let leading = (value.to_bits() >> 46).max(LOWEST) - LOWEST;
    leading.min(BUCKETS as u64 - 1) as u16
}

impl Default for OrderStatistics {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            counts: vec![0; BUCKETS],
            sums: vec![0.0; BUCKETS],
            wanted: vec![false; BUCKETS],
            few: Vec::new(),
        }
    }
}

impl OrderStatistics {
    /// Counts the numbers of each bucket. The buckets in use, from the first to the last.
    fn count(&mut self, values: &[f64]) -> (usize, usize) {
        self.keys.resize(values.len(), 0);
        let (first, last) = kernels::buckets(values, &mut self.keys);
        for (&key, &value) in self.keys.iter().zip(values) {
            self.counts[usize::from(key)] += 1;
            self.sums[usize::from(key)] += value;
        }
        (usize::from(first), usize::from(last))
    }

    /// Forgets the numbers of the buckets in use.
    fn clear(&mut self, (first, last): (usize, usize)) {
        self.counts[first..=last].fill(0);
        self.sums[first..=last].fill(0.0);
        self.wanted[first..=last].fill(false);
    }

    /// The numbers of the given ranks, which ascend from 0. `first` is the first bucket in use.
    fn find(&mut self, values: &[f64], first: usize, ranks: &[usize]) -> Vec<f64> {
        // Numbers in the buckets before a rank that are not wanted: by so many places a rank moves.
        let (mut before, mut left_out) = (0, 0);
        let mut at = first;
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
        for (&key, &value) in self.keys.iter().zip(values) {
            if self.wanted[usize::from(key)] {
                self.few.push(value);
            }
        }
        self.few.sort_unstable_by(f64::total_cmp);
        moved.iter().map(|&rank| self.few[rank]).collect()
    }

    fn edges(&mut self, values: &[f64], first: usize, bins: usize) -> Vec<f64> {
        let cuts = Sorted::new(values, &[], None).equal_mass_cuts(bins);
        let ranks = cuts.iter().map(|&cut| cut as usize);
        let ranks: Vec<usize> = ranks.flat_map(|cut| [cut - 1, cut]).collect();
        let pairs = self.find(values, first, &ranks);
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
    pub(super) fn bin_sums(&mut self, column: &[f64], hits: &[u32], bins: usize) -> Vec<BinSum> {
        let used = self.count(column);
        let edges = self.edges(column, used.0, bins);
        let mut sums = Vec::with_capacity(edges.len() + 1);
        // The count and the sum of what is in the buckets before `at`, and of what is up to the edge before.
        let (mut at, mut count, mut sum) = (used.0, 0, 0.0);
        let mut below = (0, 0.0);
        let mut push = |up_to: (u32, f64)| {
            // Differences of sums that grow: a bin's own is the largest part, so nothing cancels.
            let rows = up_to.0 - below.0;
            sums.push(BinSum {
                rows: u64::from(rows),
                weight: f64::from(rows),
                confidence: up_to.1 - below.1,
                hits: 0.0,
            });
            below = up_to;
        };
        for &edge in &edges {
            let key = bucket(edge);
            let buckets = at..usize::from(key);
            count += self.counts[buckets.clone()].iter().sum::<u32>();
            sum += kernels::total(&self.sums[buckets]);
            at = usize::from(key);
            // An edge lies between two numbers that were found, so its own bucket is wanted, or empty.
            let start = self.few.partition_point(|&value| bucket(value) < key);
            let few = &self.few[start..];
            let few = &few[..few.partition_point(|&value| value <= edge)];
            push((count + few.len() as u32, sum + few.iter().sum::<f64>()));
        }
        count += self.counts[at..=used.1].iter().sum::<u32>();
        push((count, sum + kernels::total(&self.sums[at..=used.1])));
        self.clear(used);
        for &row in hits {
            let bin = edges.partition_point(|&edge| edge < column[row as usize]);
            sums[bin].hits += 1.0;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Binning;
    use crate::metrics::top_label::SortedRows;
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
        let mut statistics = OrderStatistics::default();
        for column in columns(&mut rng) {
            let mut sorted = column.clone();
            sorted.sort_by(f64::total_cmp);
            for step in [1, 3, 17] {
                let ranks: Vec<usize> = (0..column.len()).step_by(step).collect();
                let expected: Vec<f64> = ranks.iter().map(|&rank| sorted[rank]).collect();
                let (first, last) = statistics.count(&column);
                assert_eq!(statistics.find(&column, first, &ranks), expected);
                statistics.clear((first, last));
            }
        }
    }

    #[test]
    fn bins_of_equal_mass_are_those_of_the_sorted_column() {
        let mut rng = Rng::new(72);
        let mut statistics = OrderStatistics::default();
        for column in columns(&mut rng) {
            let hits: Vec<u32> = (0..column.len() as u32)
                .filter(|_| rng.below(3) == 0)
                .collect();
            let labels: Vec<u32> = (0..column.len() as u32)
                .map(|row| u32::from(hits.contains(&row)))
                .collect();
            let rows = SortedRows::of_class(&column, &labels, 1);
            let sorted = rows.sorted(None);
            for bins in [1, 2, 15, 100] {
                let slow = sorted.bin_sums(Binning::EqualMass, bins);
                let fast = statistics.bin_sums(&column, &hits, bins);
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

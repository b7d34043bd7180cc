//! Errors over bins of equal mass under many weightings of the rows at once, as a bootstrap needs them.

use super::binning::{BinSum, Sorted};
use super::top_label::SortedRows;
use crate::math::simd::vectorized;

/// Weightings that are summed together: 64-bit numbers of a cache line.
const LANES: usize = 8;

type Lanes = [f64; LANES];

/// Several weightings of the rows; those of a row are neighbours.
pub(super) struct Weightings {
    /// For each group of [`LANES`] weightings, the weights of every row.
    groups: Vec<Vec<Lanes>>,
    count: usize,
    /// Whether all weights of a weighting are integers.
    integers: Vec<bool>,
}

impl Weightings {
    /// `None` is a weighting by 1.
    pub(super) fn new(weightings: &[Option<&[f64]>], rows: usize) -> Self {
        let group = |members: &[Option<&[f64]>]| {
            let mut group = vec![[0.0; LANES]; rows];
            for (lane, weights) in members.iter().enumerate() {
                for (row, lanes) in group.iter_mut().enumerate() {
                    lanes[lane] = weights.map_or(1.0, |weights| weights[row]);
                }
            }
            group
        };
        let integers = weightings.iter().map(|weights| {
            let sorted = Sorted::new(&[], &[], *weights);
            sorted.integer_weights
        });
        Self {
            groups: weightings.chunks(LANES).map(group).collect(),
            count: weightings.len(),
            integers: integers.collect(),
        }
    }
}

/// Sums over the first rows of a sorted column; its buffers are reused from one column to the next.
#[derive(Default)]
pub(super) struct PrefixSums {
    /// Of the weights, of the weights times the confidences, and of the weights of hits; the first are 0.
    weight: Vec<Lanes>,
    confidence: Vec<Lanes>,
    hits: Vec<Lanes>,
}

impl PrefixSums {
    /// What `read` makes of the bins of a column under each weighting.
    pub(super) fn each<T>(
        &mut self,
        column: &SortedRows,
        weightings: &Weightings,
        bins: usize,
        read: impl Fn(Vec<BinSum>) -> T,
    ) -> Vec<T> {
        let (sorted, rows) = (column.sorted(None), column.rows());
        let mut found = Vec::with_capacity(weightings.count);
        let groups = weightings
            .groups
            .iter()
            .zip(weightings.integers.chunks(LANES));
        for (group, integers) in groups {
            for sums in [&mut self.weight, &mut self.confidence, &mut self.hits] {
                sums.resize(rows.len() + 1, [0.0; LANES]);
            }
            let sums = (
                &mut self.weight[..],
                &mut self.confidence[..],
                &mut self.hits[..],
            );
            add_up(&sorted, rows, group, sums);
            for (lane, &integers) in integers.iter().enumerate() {
                found.push(read(self.bin_sums(&sorted, lane, integers, bins)));
            }
        }
        found
    }

    /// The sums over the bins of one weighting, as [`Sorted::bin_sums`] gives them, but without counts of rows.
    fn bin_sums(
        &self,
        column: &Sorted<'_>,
        lane: usize,
        integers: bool,
        bins: usize,
    ) -> Vec<BinSum> {
        let c = column.confidence;
        let upto = |end: usize| self.weight[end][lane];
        let total = upto(c.len());
        let tolerance = if integers { 0.0 } else { total * 1e-12 };
        let mut row = 0;
        let mut start = 0;
        let mut end_of = |cut: Option<f64>| {
            let Some(cut) = cut else {
                return c.len();
            };
            // A run ends with the row at which the cumulative weight reaches the cut.
            let ends = &self.weight[row + 1..];
            row += ends.partition_point(|sums| sums[lane] < cut - tolerance);
            row = row.min(c.len() - 1);
            let next = if upto(row + 1) <= cut + tolerance {
                let later = self.weight[row + 1..].windows(2);
                let skipped = later.take_while(|pair| pair[1][lane] <= pair[0][lane]);
                let next = row + 1 + skipped.count();
                if next < c.len() { next } else { row }
            } else {
                row
            };
            let edge = (c[row] + c[next]) / 2.0;
            row + c[row..].partition_point(|&v| v <= edge)
        };
        let cuts = Sorted::cuts(total, integers, bins);
        let cuts = cuts.into_iter().map(Some).chain([None]);
        cuts.map(|cut| {
            // A repeated edge, or one that rounding put below an earlier one, gives an empty bin.
            let end = end_of(cut).max(start);
            let between = |sums: &[Lanes]| sums[end][lane] - sums[start][lane];
            let bin = BinSum {
                rows: 0,
                weight: between(&self.weight),
                confidence: between(&self.confidence),
                hits: between(&self.hits),
            };
            start = end;
            bin
        })
        .collect()
    }
}

vectorized! {
    fn add_up(
        column: &Sorted<'_>,
        rows: &[usize],
        weights: &[Lanes],
        sums: (&mut [Lanes], &mut [Lanes], &mut [Lanes]),
    ) {
        let (mut weight, mut confidence, mut hits) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let places = column.confidence.iter().zip(column.hit).zip(rows);
        let targets = sums.0[1..].iter_mut().zip(&mut sums.1[1..]).zip(&mut sums.2[1..]);
        for (((&c, &hit), &row), ((to_weight, to_confidence), to_hits)) in places.zip(targets) {
            let own = &weights[row];
            let lanes = weight.iter_mut().zip(&mut confidence).zip(&mut hits);
            for (((weight, confidence), hits), own) in lanes.zip(own) {
                *weight += own;
                *confidence += own * c;
                *hits += own * hit;
            }
            *to_weight = weight;
            *to_confidence = confidence;
            *to_hits = hits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::binning::{Binning, debiased_square};
    use crate::rng::Rng;

    #[test]
    fn errors_are_those_of_one_weighting_at_a_time() {
        let mut rng = Rng::new(73);
        for (rows, distinct) in [(1, 1), (2, 2), (7, 3), (40, 1), (300, 20), (500, 1 << 20)] {
            let column: Vec<f64> = (0..rows)
                .map(|_| rng.below(distinct) as f64 / distinct as f64)
                .collect();
            let labels: Vec<u32> = (0..rows).map(|_| rng.below(2) as u32).collect();
            let sorted = SortedRows::of_class(&column, &labels, 1);
            let weights: Vec<Vec<f64>> = (0..19)
                .map(|index| {
                    let draw = |rng: &mut Rng| match index % 3 {
                        0 => rng.below(4) as f64,
                        1 => rng.below(3) as f64 * rng.uniform(),
                        _ => f64::from(u8::from(rng.below(20) == 0)),
                    };
                    let mut weights: Vec<f64> = (0..rows).map(|_| draw(&mut rng)).collect();
                    weights[0] += 1.0;
                    weights
                })
                .collect();
            let mut weightings: Vec<Option<&[f64]>> =
                weights.iter().map(|w| Some(&w[..])).collect();
            weightings.push(None);
            let together = Weightings::new(&weightings, rows);
            for bins in [1, 2, 15, 100] {
                let error = |sums: Vec<BinSum>| debiased_square(&sums);
                let fast = PrefixSums::default().each(&sorted, &together, bins, error);
                assert_eq!(fast.len(), weightings.len());
                for (index, (fast, weights)) in fast.iter().zip(&weightings).enumerate() {
                    let own = sorted.sort_weights(*weights);
                    let weighed = sorted.sorted(own.as_deref());
                    let slow = debiased_square(&weighed.bin_sums(Binning::EqualMass, bins));
                    assert!(
                        (fast - slow).abs() < 1e-11,
                        "{rows} {bins} {index}: {fast} {slow}"
                    );
                }
            }
        }
    }
}

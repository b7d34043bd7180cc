//! The confidences of the predicted classes, in order.

use rayon::prelude::*;

use super::binning::{BinSum, Sorted, equal_width_bin};
use super::row_stats::RowStat;

/// The sums over the rows of every bin of equal width.
pub(crate) fn equal_width_sums(
    stats: &[RowStat],
    weights: Option<&[f64]>,
    bins: usize,
) -> Vec<BinSum> {
    /// Rows whose sums are added up before they are joined with those of other rows.
    const BLOCK: usize = 1 << 14;
    let of_block = |(block, stats): (usize, &[RowStat])| {
        let mut sums = vec![BinSum::default(); bins];
        for (row, stat) in (block * BLOCK..).zip(stats) {
            let weight = weights.map_or(1.0, |weights| weights[row]);
            let sum = &mut sums[equal_width_bin(stat.confidence, bins)];
            sum.rows += u64::from(weight > 0.0);
            sum.weight += weight;
            sum.confidence += weight * stat.confidence;
            sum.hits += if stat.hit() { weight } else { 0.0 };
        }
        sums
    };
    if stats.len() <= BLOCK {
        return of_block((0, stats));
    }
    let blocks = stats.par_chunks(BLOCK).enumerate().map(of_block);
    let blocks: Vec<Vec<BinSum>> = blocks.collect();
    let mut sums = vec![BinSum::default(); bins];
    for (place, bin) in blocks.iter().flat_map(|block| block.iter().enumerate()) {
        let sum = &mut sums[place];
        sum.rows += bin.rows;
        sum.weight += bin.weight;
        sum.confidence += bin.confidence;
        sum.hits += bin.hits;
    }
    sums
}

/// Confidences are not negative, so the sign bit is free and the bits sort as the numbers do; the hit is the last.
fn keys(rows: impl Iterator<Item = (f64, bool)>) -> Vec<(u64, usize)> {
    let keys = rows.map(|(confidence, hit)| (confidence.to_bits() << 1) | u64::from(hit));
    keys.zip(0..).collect()
}

/// Confidences in ascending order, with their hits and the rows they came from.
#[derive(Debug)]
pub(crate) struct SortedRows {
    confidence: Vec<f64>,
    hit: Vec<f64>,
    row: Vec<usize>,
}

impl SortedRows {
    /// The confidences of the predicted classes.
    pub(crate) fn of_top_label(stats: &[RowStat]) -> Self {
        let mut keys = keys(stats.iter().map(|stat| (stat.confidence, stat.hit())));
        keys.par_sort_unstable();
        Self::new(keys)
    }

    /// The probabilities of one class.
    pub(crate) fn of_class(column: &[f64], labels: &[u32], class: usize) -> Self {
        let pairs = column.iter().zip(labels);
        let mut keys = keys(pairs.map(|(&p, &label)| (p, label as usize == class)));
        keys.sort_unstable();
        Self::new(keys)
    }

    fn new(keys: Vec<(u64, usize)>) -> Self {
        Self {
            confidence: keys
                .iter()
                .map(|&(key, _)| f64::from_bits(key >> 1))
                .collect(),
            hit: keys.iter().map(|&(key, _)| (key & 1) as f64).collect(),
            row: keys.into_iter().map(|(_, row)| row).collect(),
        }
    }

    /// The weights of the rows, in order of the confidences.
    pub(crate) fn sort_weights(&self, weights: Option<&[f64]>) -> Option<Vec<f64>> {
        weights.map(|weights| self.row.iter().map(|&row| weights[row]).collect())
    }

    pub(crate) fn sorted<'a>(&'a self, weight: Option<&'a [f64]>) -> Sorted<'a> {
        Sorted::new(&self.confidence, &self.hit, weight)
    }

    /// The rows, in order of the confidences.
    pub(crate) fn rows(&self) -> &[usize] {
        &self.row
    }
}

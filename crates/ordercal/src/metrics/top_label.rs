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

/// The confidences of the predictions in ascending order, with the rows they came from.
#[derive(Debug)]
pub(crate) struct TopLabel {
    confidence: Vec<f64>,
    hit: Vec<f64>,
    row: Vec<usize>,
}

impl TopLabel {
    pub(crate) fn new(stats: &[RowStat]) -> Self {
        // Confidences are not negative, so their bits sort as they do; of equal ones the first row comes first.
        let keys = stats.iter().map(|stat| stat.confidence.to_bits());
        let mut keys: Vec<(u64, usize)> = keys.zip(0..).collect();
        keys.par_sort_unstable();
        let row: Vec<usize> = keys.into_iter().map(|(_, row)| row).collect();
        let hit = |&row: &usize| f64::from(u8::from(stats[row].hit()));
        Self {
            confidence: row.iter().map(|&row| stats[row].confidence).collect(),
            hit: row.iter().map(hit).collect(),
            row,
        }
    }

    /// The weights of the rows, in order of the confidences.
    pub(crate) fn sort_weights(&self, weights: Option<&[f64]>) -> Option<Vec<f64>> {
        weights.map(|weights| self.row.iter().map(|&row| weights[row]).collect())
    }

    pub(crate) fn sorted<'a>(&'a self, weight: Option<&'a [f64]>) -> Sorted<'a> {
        self.with_hits(&self.hit, weight)
    }

    /// The same confidences with other outcomes, given in order of the confidences.
    pub(crate) fn with_hits<'a>(&'a self, hit: &'a [f64], weight: Option<&'a [f64]>) -> Sorted<'a> {
        Sorted::new(&self.confidence, hit, weight)
    }

    /// The rows, in order of the confidences.
    pub(crate) fn rows(&self) -> &[usize] {
        &self.row
    }

    pub(crate) fn confidence(&self) -> &[f64] {
        &self.confidence
    }
}

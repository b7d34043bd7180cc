//! The confidences of the predicted classes, in order.

use super::binning::Sorted;
use super::row_stats::RowStat;

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

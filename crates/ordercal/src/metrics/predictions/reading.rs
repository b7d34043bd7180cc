//! How the rows of predictions are read: in groups, and each once for all that is asked of them.

use std::ops::Range;

use rayon::prelude::*;

use super::{Normaliser, PredictionSource, Predictions};
use crate::math::softmax;
use crate::metrics::kernels;
use crate::metrics::row_stats::RowStat;

impl Predictions<'_> {
    /// [`row_stats`](Self::row_stats), computed once.
    pub(crate) fn stats(&self) -> &[RowStat] {
        // Not computed inside of `get_or_init`: a thread that waits for its part of the rows may take up another
        // task that asks for the same, and would wait for itself.
        if self.stats.get().is_none() {
            let _ = self.stats.set(self.read_all(|_, _| {}));
        }
        self.stats.get().expect("it was just set")
    }

    /// The statistics of all rows; `look` sees the probabilities of a group of rows as they are given.
    pub(super) fn read_all(&self, look: impl Fn(&Range<usize>, &[f64]) + Sync) -> Vec<RowStat> {
        let height = softmax::group(self.classes).min(self.rows);
        let read = |(group, e, stats): &mut (Range<usize>, Vec<f64>, Vec<RowStat>), row: usize| {
            if !group.contains(&row) {
                // What is read past the end of a thread's rows is read again, and is the same.
                *group = row..self.rows.min(row + height);
                e.resize(group.len() * self.classes, 0.0);
                stats.resize(group.len(), RowStat::default());
                self.read_rows(group.clone(), e, stats, &look);
            }
            stats[row - group.start]
        };
        let rows = (0..self.rows).into_par_iter();
        let rows = rows.with_min_len(self.fewest_rows());
        rows.map_init(|| (0..0, Vec::new(), Vec::new()), read)
            .collect()
    }

    /// How many rows are worth a task of their own.
    fn fewest_rows(&self) -> usize {
        (1 << 15) / self.classes + 8
    }

    /// Reads some rows: fills `e` with their e^(score − max), or with their probabilities, both without their scale,
    /// and `stats`. `look` sees the probabilities as they are given.
    pub(crate) fn read_rows(
        &self,
        rows: Range<usize>,
        e: &mut [f64],
        stats: &mut [RowStat],
        look: impl Fn(&Range<usize>, &[f64]),
    ) {
        let classes = self.classes;
        let labels = &self.labels[rows.clone()];
        match &self.source {
            PredictionSource::Scores(values) => {
                let scores = &values[rows.start * classes..rows.end * classes];
                kernels::read_scores(scores, classes, labels, e, stats);
            }
            PredictionSource::Probs { read, .. } => {
                self.copy_probs(rows.clone(), e);
                look(&rows, e);
                kernels::read_probs(e, classes, labels, *read, stats);
            }
        }
    }

    /// How to normalise each row.
    pub(crate) fn normalisers(&self) -> impl IndexedParallelIterator<Item = Normaliser> + '_ {
        let stats = self.stats().par_iter().enumerate();
        stats.map(|(row, stat)| Normaliser {
            max: match self.scores_row(row) {
                Some(scores) => f64::from(scores[stat.predicted as usize]),
                None => 0.0,
            },
            scale: stat.scale,
        })
    }

    /// The predicted class of every row: that of the largest probability, the first of several. Where
    /// [`stats`](Self::stats) are not known yet, it takes less time than these.
    pub(crate) fn predicted(&self) -> impl IndexedParallelIterator<Item = u32> + '_ {
        let stats = self.stats.get();
        let rows = (0..self.rows).into_par_iter();
        let rows = rows.with_min_len(self.fewest_rows());
        rows.map(move |row| match (stats, self.scores_row(row)) {
            (Some(stats), _) => stats[row].predicted,
            (None, Some(scores)) => kernels::first_largest(scores),
            (None, None) => unreachable!("the statistics of probabilities are known"),
        })
    }

    /// Fills a buffer with a row's e^(score − max), or with its given probabilities.
    pub(crate) fn exponentials(&self, row: usize, buffer: &mut [f64]) -> Normaliser {
        if let Some(scores) = self.scores_row(row) {
            kernels::widen(scores, buffer);
            let (max, sum) = softmax::exponentials(buffer);
            let scale = 1.0 / sum;
            return Normaliser { max, scale };
        }
        self.copy_probs(row..row + 1, buffer);
        let scale = match self.source {
            PredictionSource::Probs { read: true, .. } => 1.0 / kernels::raise(buffer),
            _ => 1.0,
        };
        Normaliser { max: 0.0, scale }
    }

    /// Fills `target` with parts of rows from `row` on, one for each normaliser: the probabilities of the classes from
    /// `first` on.
    pub(crate) fn parts(
        &self,
        row: usize,
        first: usize,
        normalisers: &[Normaliser],
        copy: &mut Vec<f32>,
        target: &mut [f64],
    ) {
        let width = target.len() / normalisers.len();
        match &self.source {
            PredictionSource::Scores(values) => {
                // Copied first: the cache lines of all rows are then fetched at once, and not one row after the other.
                copy.clear();
                for row in row..row + normalisers.len() {
                    copy.extend_from_slice(&values[row * self.classes + first..][..width]);
                }
                kernels::probabilities(copy, normalisers, target);
            }
            PredictionSource::Probs { values, read } => {
                let starts = (row..).map(|row| row * self.classes + first);
                for (start, target) in starts.zip(target.chunks_exact_mut(width)) {
                    values.copy(start..start + width, target);
                }
                if *read {
                    kernels::raise_and_scale(target, normalisers);
                }
            }
        }
    }

    fn scores_row(&self, row: usize) -> Option<&[f32]> {
        match &self.source {
            PredictionSource::Scores(values) => Some(&values[row * self.classes..][..self.classes]),
            PredictionSource::Probs { .. } => None,
        }
    }

    /// Copies the probabilities of some rows.
    pub(super) fn copy_probs(&self, rows: Range<usize>, target: &mut [f64]) {
        if let PredictionSource::Probs { values, .. } = &self.source {
            values.copy(rows.start * self.classes..rows.end * self.classes, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::data::{Dataset, ScoreKind, Scores};

    /// The statistics of a row, one class after the other.
    fn slow(predictions: &Predictions<'_>, row: usize) -> RowStat {
        let mut e = vec![0.0; predictions.classes()];
        let Normaliser { scale, .. } = predictions.exponentials(row, &mut e);
        let label = predictions.labels()[row] as usize;
        let compared: Vec<f64> = match predictions.scores_row(row) {
            Some(scores) => scores.iter().map(|&score| f64::from(score)).collect(),
            None => e.clone(),
        };
        let predicted = crate::rank::argmax(&compared);
        let before = |class: &usize| match compared[*class].total_cmp(&compared[label]) {
            std::cmp::Ordering::Equal => *class < label,
            order => order.is_gt(),
        };
        let brier = e.iter().enumerate().map(|(class, e)| {
            let residual = e * scale - f64::from(u8::from(class == label));
            residual * residual
        });
        RowStat {
            confidence: e[predicted] * scale,
            nll: match predictions.scores_row(row) {
                Some(_) => compared[predicted] - compared[label] - scale.ln(),
                None => -(e[label] * scale).ln(),
            },
            brier: brier.sum(),
            predicted: predicted as u32,
            rank: (0..e.len()).filter(before).count() as u32,
            scale,
        }
    }

    #[test]
    fn rows_read_in_groups_are_as_rows_alone() {
        let mut rng = crate::rng::Rng::new(31);
        for (rows, classes) in [
            (5000, 2),
            (2000, 3),
            (900, 8),
            (300, 10),
            (99, 130),
            (7, 3000),
        ] {
            let logits = Array2::from_shape_fn((rows, classes), |_| match rng.below(5) {
                0 => rng.below(3) as f32,
                1 => -200.0 * rng.uniform() as f32,
                _ => (rng.normal() * 4.0) as f32,
            });
            let labels: Vec<u32> = (0..rows).map(|_| rng.below(classes) as u32).collect();
            let mut masked = logits.clone();
            for (mut row, &label) in masked.rows_mut().into_iter().zip(&labels) {
                row[(label as usize + 1) % classes] = f32::NEG_INFINITY;
            }
            let scores = Scores::new(ScoreKind::Logits, masked.view()).unwrap();
            let data = Dataset::new(scores, &labels).unwrap();
            let of_scores = Predictions::from(&data);
            let mut probs = Array2::zeros((rows, classes));
            for (row, mut probs) in probs.rows_mut().into_iter().enumerate() {
                of_scores.probabilities(row, probs.as_slice_mut().unwrap());
            }
            let narrow = probs.mapv(|p| p as f32);
            let all = [
                Predictions::from_probs(probs.view(), &labels).unwrap(),
                Predictions::from_probs(narrow.view(), &labels).unwrap(),
                Predictions::from_read_probs(narrow.view(), &labels).unwrap(),
                of_scores,
            ];
            for predictions in &all {
                let normalisers: Vec<Normaliser> = predictions.normalisers().collect();
                for (row, found) in predictions.stats().iter().enumerate() {
                    let expected = slow(predictions, row);
                    assert_eq!(
                        (found.confidence, found.predicted, found.rank, found.scale),
                        (
                            expected.confidence,
                            expected.predicted,
                            expected.rank,
                            expected.scale
                        ),
                    );
                    // 3000 terms, added in another order.
                    let difference = (found.brier - expected.brier).abs();
                    assert!(difference < 1e-12, "{difference} {found:?} {expected:?}");
                    assert!(found.nll == expected.nll.max(0.0), "{found:?} {expected:?}");
                    let normaliser = predictions.exponentials(row, &mut vec![0.0; classes]);
                    assert!(normaliser.max == normalisers[row].max);
                }
            }
        }
    }
}

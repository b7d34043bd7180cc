//! Scores with labels, weights and groups.

use std::collections::HashSet;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::fingerprint::Fingerprint;
use super::folds::Folds;
use super::scores::{NORMALISATION_TOLERANCE, Scores};
use crate::error::{Error, Result};
use crate::words::count;

/// Scores with labels and, optionally, row weights and groups of rows that belong together.
///
/// Soft labels, a distribution over the classes for every row, are [expanded](Self::soft): a row is repeated for every
/// class that its distribution gives a share, with that class as its label and the share as its weight. Every weighted
/// sum over the rows is then the expectation over the labels.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, ScoreKind, Scores};
///
/// let logits = array![[2.0_f32, 0.5, -1.0], [0.1, 0.3, 0.2]];
/// let scores = Scores::new(ScoreKind::Logits, logits.view())?;
/// let data = Dataset::new(scores, &[0, 2])?;
/// assert_eq!(data.labels(), [0, 2]);
/// assert_eq!((data.rows(), data.classes(), data.scores().row(0)[0]), (2, 3, 2.0));
///
/// // The first row counts three times; both are of the same patient, so that no fold separates them.
/// let data = data.with_weights(vec![3.0, 1.0])?.with_groups(vec![7, 7])?;
/// assert_eq!((data.weight(0), data.total_weight(), data.has_groups()), (3.0, 4.0, true));
/// assert!(data.folds(2, 1357).is_err());
/// assert_eq!(data.weights(), Some(&[3.0, 1.0][..]));
///
/// // Some of the rows, and the same labels with the scores of another model.
/// assert_eq!(data.select(&[1]).labels(), [2]);
/// let other = data.with_scores(Scores::new(ScoreKind::Logits, array![[1.0_f32, 0.0, 0.0], [0.0, 0.0, 3.0]])?)?;
/// assert_ne!(other.fingerprint(), data.fingerprint());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset<'a> {
    scores: Scores<'a>,
    labels: Vec<u32>,
    weights: Option<Vec<f64>>,
    /// For each row the number of its group.
    groups: Option<Vec<u32>>,
    /// With soft labels, for each row the given row that it repeats.
    origins: Option<Vec<u32>>,
}

impl<'a> Dataset<'a> {
    /// Combines scores and labels.
    ///
    /// # Parameters
    /// - `scores`: N×K.
    /// - `labels`: N classes from 0 to K − 1, integers of any width. A class need not occur.
    ///
    /// # Errors
    /// If there are not N labels, a label is not a class, or a label's class is masked (`-inf`) in its row.
    pub fn new<L: Copy + TryInto<i64>>(scores: Scores<'a>, labels: &[L]) -> Result<Self> {
        let checked = check_labels(labels, scores.rows(), scores.classes())?;
        let masked = |row: &usize| scores.row(*row)[checked[*row] as usize] == f32::NEG_INFINITY;
        let rows = (0..scores.rows()).into_par_iter().with_min_len(1 << 14);
        if let Some(row) = rows.find_first(masked) {
            let label = checked[row] as usize;
            return Err(Error::LabelMasked { row, label });
        }
        Ok(Self {
            scores,
            labels: checked,
            weights: None,
            groups: None,
            origins: None,
        })
    }

    /// Combines scores and soft labels. Where every distribution is all on one class, this is [`new`](Self::new).
    ///
    /// # Parameters
    /// - `scores`: N×K.
    /// - `targets`: N×K, in each row a distribution over the classes.
    ///
    /// # Errors
    /// If the shapes differ, a row of `targets` is not a distribution, a masked class has a share, or the repeated rows
    /// do not fit in memory.
    pub fn soft(scores: Scores<'a>, targets: ArrayView2<'_, f64>) -> Result<Self> {
        check_length("soft labels", targets.nrows(), scores.rows())?;
        if targets.ncols() != scores.classes() {
            return Err(Error::InvalidArgument {
                argument: "soft labels",
                found: count(targets.ncols(), "column", "columns"),
                expected: "one column per class",
            });
        }
        let (mut labels, mut shares, mut origins) = (Vec::new(), Vec::new(), Vec::new());
        for (row, target) in targets.outer_iter().enumerate() {
            let sum = check_target(row, target.iter().copied())?;
            for (label, &share) in target.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                if scores.row(row)[label] == f32::NEG_INFINITY {
                    return Err(Error::LabelMasked { row, label });
                }
                labels.push(label as u32);
                shares.push(share / sum);
                origins.push(row);
            }
        }
        if labels.len() == scores.rows() {
            return Self::new(scores, &labels);
        }
        let bytes = labels.len().saturating_mul(4 * scores.classes());
        crate::memory::check("the rows that soft labels repeat", bytes)?;
        Ok(Self {
            scores: scores.select(&origins),
            labels,
            weights: Some(shares),
            groups: None,
            origins: Some(origins.into_iter().map(|row| row as u32).collect()),
        })
    }

    /// Sets row weights: row i counts as `weights[i]` rows. With soft labels, there is a weight for each given row.
    ///
    /// # Errors
    /// If there are not N weights, a weight is negative or not finite, or all are zero.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self> {
        check_weights(&weights, self.examples())?;
        self.weights = Some(match (&self.origins, self.weights) {
            (Some(origins), Some(shares)) => (shares.iter().zip(origins))
                .map(|(share, &row)| share * weights[row as usize])
                .collect(),
            _ => weights,
        });
        Ok(self)
    }

    /// Sets groups of rows that belong together, such as those of one patient or one document, by a number per group.
    /// Rows of a group are in the same fold. With soft labels, there is a number for each given row.
    ///
    /// # Errors
    /// If there are not N numbers.
    pub fn with_groups(mut self, groups: Vec<u32>) -> Result<Self> {
        check_length("groups", groups.len(), self.examples())?;
        self.groups = Some(match &self.origins {
            Some(origins) => origins.iter().map(|&row| groups[row as usize]).collect(),
            None => groups,
        });
        Ok(self)
    }

    /// The same labels and weights with other scores of the same rows, such as those of another model.
    ///
    /// # Errors
    /// If the scores are of another shape, or a label's class is masked in its row.
    pub fn with_scores<'b>(&self, scores: Scores<'b>) -> Result<Dataset<'b>> {
        Ok(Dataset {
            weights: self.weights.clone(),
            groups: self.groups.clone(),
            origins: self.origins.clone(),
            ..Dataset::new(scores, &self.labels)?
        })
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.scores.rows()
    }

    /// How many rows were given: N, unless they have soft labels.
    pub fn examples(&self) -> usize {
        match &self.origins {
            Some(origins) => count_distinct(origins),
            None => self.rows(),
        }
    }

    /// Whether the labels are distributions over the classes.
    pub fn has_soft_labels(&self) -> bool {
        self.origins.is_some()
    }

    /// Whether a row repeats the given row of the one before it, for another label.
    pub fn repeats(&self, row: usize) -> bool {
        let origins = self.origins.as_ref();
        origins.is_some_and(|origins| row > 0 && origins[row] == origins[row - 1])
    }

    /// Assigns the rows to folds at random; those of a group, or of one soft label, to the same.
    ///
    /// # Errors
    /// If there are fewer than 2 folds, or fewer groups than folds.
    pub fn folds(&self, count: usize, seed: u64) -> Result<Folds> {
        match self.groups.as_ref().or(self.origins.as_ref()) {
            Some(groups) => Folds::grouped(groups, count, seed),
            None => Folds::new(self.rows(), count, seed),
        }
    }

    /// Whether some rows have to be in the same fold.
    pub fn has_groups(&self) -> bool {
        self.groups.is_some() || self.origins.is_some()
    }

    /// How many folds there can be at most.
    pub(crate) fn most_folds(&self) -> usize {
        let groups = self.groups.as_ref().or(self.origins.as_ref());
        groups.map_or(self.rows(), |groups| count_distinct(groups))
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.scores.classes()
    }

    /// The scores.
    pub fn scores(&self) -> &Scores<'a> {
        &self.scores
    }

    /// The labels, each below K.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The row weights, if there are any.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The weight of a row; 1 without weights.
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[row])
    }

    /// The sum of the weights; N without weights.
    pub fn total_weight(&self) -> f64 {
        match &self.weights {
            Some(weights) => weights.iter().sum(),
            None => self.rows() as f64,
        }
    }

    /// A hash of scores and labels, whatever the order of the rows.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self)
    }

    /// A copy of the given rows, in the given order.
    ///
    /// # Panics
    /// If `rows` is empty or names a row that is not there.
    pub fn select(&self, rows: &[usize]) -> Dataset<'static> {
        fn pick<T: Copy>(all: &[T], rows: &[usize]) -> Vec<T> {
            rows.iter().map(|&row| all[row]).collect()
        }
        Dataset {
            scores: self.scores.select(rows),
            labels: pick(&self.labels, rows),
            weights: self.weights.as_ref().map(|all| pick(all, rows)),
            groups: self.groups.as_ref().map(|all| pick(all, rows)),
            origins: self.origins.as_ref().map(|all| pick(all, rows)),
        }
    }
}

fn count_distinct(numbers: &[u32]) -> usize {
    numbers.iter().collect::<HashSet<_>>().len()
}

/// Verifies that a row of soft labels is a distribution; returns its sum.
fn check_target(row: usize, shares: impl Iterator<Item = f64>) -> Result<f64> {
    let mut sum = 0.0;
    for (column, value) in shares.enumerate() {
        if !(0.0..=1.0 + NORMALISATION_TOLERANCE).contains(&value) {
            return Err(Error::InvalidTarget { row, column, value });
        }
        sum += value;
    }
    if (sum - 1.0).abs() > NORMALISATION_TOLERANCE {
        return Err(Error::TargetNotNormalised { row, sum });
    }
    Ok(sum)
}

/// Verifies that there is one label per row, each below `classes`.
pub(crate) fn check_labels<L: Copy + TryInto<i64>>(
    labels: &[L],
    rows: usize,
    classes: usize,
) -> Result<Vec<u32>> {
    check_length("labels", labels.len(), rows)?;
    let check = |(row, &label): (usize, &L)| {
        // Only values of unsigned types can be too large for i64.
        let label = label.try_into().unwrap_or(i64::MAX);
        match u32::try_from(label) {
            Ok(class) if (class as usize) < classes => Ok(class),
            _ => Err(Error::LabelOutOfRange {
                row,
                label,
                classes,
            }),
        }
    };
    labels.iter().enumerate().map(check).collect()
}

/// Verifies that there is one weight per row, finite and not negative, and not all zero.
pub(crate) fn check_weights(weights: &[f64], rows: usize) -> Result<()> {
    check_length("weights", weights.len(), rows)?;
    for (row, &value) in weights.iter().enumerate() {
        if !value.is_finite() || value < 0.0 {
            return Err(Error::InvalidWeight { row, value });
        }
    }
    if !weights.iter().any(|&w| w > 0.0) {
        return Err(Error::ZeroWeights);
    }
    Ok(())
}

fn check_length(what: &'static str, found: usize, rows: usize) -> Result<()> {
    if found == rows {
        return Ok(());
    }
    Err(Error::LengthMismatch { what, found, rows })
}

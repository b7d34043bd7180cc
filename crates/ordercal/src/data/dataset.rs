//! Scores with labels and weights.

use super::fingerprint::Fingerprint;
use super::scores::Scores;
use crate::error::{Error, Result};

/// Scores with labels and, optionally, row weights.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, ScoreKind, Scores};
///
/// let logits = array![[2.0_f32, 0.5, -1.0], [0.1, 0.3, 0.2]];
/// let scores = Scores::new(ScoreKind::Logits, logits.view())?;
/// let data = Dataset::new(scores, &[0, 2])?;
/// assert_eq!(data.labels(), [0, 2]);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset<'a> {
    scores: Scores<'a>,
    labels: Vec<u32>,
    weights: Option<Vec<f64>>,
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
        for (row, &label) in checked.iter().enumerate() {
            let label = label as usize;
            if scores.row(row)[label] == f32::NEG_INFINITY {
                return Err(Error::LabelMasked { row, label });
            }
        }
        Ok(Self {
            scores,
            labels: checked,
            weights: None,
        })
    }

    /// Sets row weights: row i counts as `weights[i]` rows.
    ///
    /// # Errors
    /// If there are not N weights, a weight is negative or not finite, or all are zero.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self> {
        check_weights(&weights, self.rows())?;
        self.weights = Some(weights);
        Ok(self)
    }

    /// The same labels and weights with other scores of the same rows, such as those of another model.
    ///
    /// # Errors
    /// If the scores are of another shape, or a label's class is masked in its row.
    pub fn with_scores<'b>(&self, scores: Scores<'b>) -> Result<Dataset<'b>> {
        let data = Dataset::new(scores, &self.labels)?;
        match &self.weights {
            Some(weights) => data.with_weights(weights.clone()),
            None => Ok(data),
        }
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.scores.rows()
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
        self.weights
            .as_ref()
            .map_or(self.rows() as f64, |w| w.iter().sum())
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
        Dataset {
            scores: self.scores.select(rows),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            weights: self
                .weights
                .as_ref()
                .map(|w| rows.iter().map(|&row| w[row]).collect()),
        }
    }
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

//! Predicted probabilities with their labels, computed from scores or given.

mod reading;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::ArrayView2;

use super::kernels;
use super::row_stats::RowStat;
use crate::data::{Dataset, ScoreArray, ScoreKind, check_labels, check_weights};
use crate::error::{Error, Result};

/// Rows of predicted probabilities with labels and, optionally, weights.
///
/// Every metric reads its rows from here, one at a time in 64 bits; the N×K matrix of probabilities is
/// never built. The scores of a [`Dataset`] go through the softmax; given probabilities are not divided by
/// their sum, so that metrics equal those of packages that do not either.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, Predictions, accuracy};
///
/// let probs = array![[0.7_f64, 0.2, 0.1], [0.1, 0.5, 0.4]];
/// let predictions = Predictions::from_probs(probs.view(), &[0, 2])?;
/// let options = MetricOptions::default();
/// assert!((accuracy(&predictions, &options)? - 0.5).abs() < 1e-15);
///
/// let predictions = predictions.with_weights(vec![3.0, 1.0])?;
/// assert_eq!((predictions.rows(), predictions.classes()), (2, 3));
/// assert_eq!((predictions.labels(), predictions.weights()), (&[0, 2][..], Some(&[3.0, 1.0][..])));
/// assert_eq!(predictions.row_stats()[1].predicted, 1);
/// let mut row = [0.0; 3];
/// predictions.probabilities(1, &mut row);
/// assert_eq!(row, [0.1, 0.5, 0.4]);
/// assert!((accuracy(&predictions, &options)? - 0.75).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Predictions<'a> {
    source: PredictionSource<'a>,
    rows: usize,
    classes: usize,
    labels: Cow<'a, [u32]>,
    weights: Option<Cow<'a, [f64]>>,
    /// What [`stats`](Self::stats) found: most of what is asked of predictions needs it.
    stats: OnceLock<Vec<RowStat>>,
}

#[derive(Debug, Clone)]
enum PredictionSource<'a> {
    /// Logits or log-probabilities, N×K in row-major order.
    Scores(&'a [f32]),
    /// Probabilities in the same order.
    Probs {
        values: Probs<'a>,
        /// Whether they are read as a model reads them, see [`Predictions::from_read_probs`].
        read: bool,
    },
}

/// Probabilities in row-major order.
#[derive(Debug, Clone)]
enum Probs<'a> {
    Narrow(Cow<'a, [f32]>),
    Wide(Cow<'a, [f64]>),
}

impl<'a> Probs<'a> {
    fn new(values: ScoreArray<'a>) -> Self {
        fn rows<'a, T: Copy>(values: ArrayView2<'a, T>) -> Cow<'a, [T]> {
            match values.to_slice() {
                Some(values) => values.into(),
                None => values.iter().copied().collect(),
            }
        }
        match values {
            ScoreArray::F32(values) => Self::Narrow(rows(values)),
            ScoreArray::Owned(values) => {
                let values = values.as_standard_layout().into_owned();
                let (values, _) = values.into_raw_vec_and_offset();
                Self::Narrow(values.into())
            }
            ScoreArray::F64(values) => Self::Wide(rows(values)),
            ScoreArray::F16(values) => Self::Narrow(values.iter().map(|v| v.to_f32()).collect()),
            ScoreArray::Bf16(values) => Self::Narrow(values.iter().map(|v| v.to_f32()).collect()),
        }
    }

    /// Copies some of them, −0 as 0: their bits would sort differently.
    fn copy(&self, cells: Range<usize>, target: &mut [f64]) {
        match self {
            Self::Narrow(values) => kernels::widen(&values[cells], target),
            Self::Wide(values) => kernels::without_negative_zeros(&values[cells], target),
        }
    }
}

/// How to normalise a row: p = e^(score − max) · scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normaliser {
    /// The largest score; 0 for given probabilities.
    pub(crate) max: f64,
    /// 1 / Σ e^(score − max); 1 for probabilities that are not divided by their sum.
    pub(crate) scale: f64,
}

impl<'a> Predictions<'a> {
    /// The predictions of a dataset: the softmax of its scores, in 64 bits.
    pub fn from_dataset(data: &'a Dataset<'_>) -> Self {
        Self {
            source: PredictionSource::Scores(data.scores().as_slice()),
            rows: data.rows(),
            classes: data.classes(),
            labels: data.labels().into(),
            weights: data.weights().map(Into::into),
            stats: OnceLock::new(),
        }
    }

    /// Probabilities as a model emits them, N×K, in any of the float types.
    ///
    /// A label's probability may be 0, which makes [`nll`](super::nll()) infinite.
    ///
    /// # Errors
    /// Names the first offending row: a NaN, a negative probability, a row that does not sum to 1 within
    /// [`NORMALISATION_TOLERANCE`](crate::NORMALISATION_TOLERANCE) and what rounding to 16 bits can do, a label that is not a class; or if there are no rows, fewer than two
    /// classes or another number of labels.
    pub fn from_probs<L: Copy + TryInto<i64>>(
        probs: impl Into<ScoreArray<'a>>,
        labels: &[L],
    ) -> Result<Self> {
        Self::of_probs(probs.into(), false, labels)
    }

    /// Probabilities as [`Scores`](crate::Scores) reads them: zeros are the smallest normal `f32`, and rows are divided by
    /// their sums. It gives what [`from_dataset`](Self::from_dataset) gives for the same numbers, to their precision,
    /// and takes less time: no logarithm is taken.
    ///
    /// # Errors
    /// As [`from_probs`](Self::from_probs).
    pub fn from_read_probs<L: Copy + TryInto<i64>>(
        probs: impl Into<ScoreArray<'a>>,
        labels: &[L],
    ) -> Result<Self> {
        Self::of_probs(probs.into(), true, labels)
    }

    fn of_probs<L: Copy + TryInto<i64>>(
        values: ScoreArray<'a>,
        read: bool,
        labels: &[L],
    ) -> Result<Self> {
        let (rows, classes) = values.dim();
        if classes < 2 {
            return Err(Error::TooFewClasses { classes });
        }
        if rows == 0 {
            return Err(Error::NoRows);
        }
        let labels = check_labels(labels, rows, classes)?;
        let tolerance = values.tolerance(ScoreKind::Probs);
        let predictions = Self {
            source: PredictionSource::Probs {
                values: Probs::new(values),
                read,
            },
            rows,
            classes,
            labels: labels.into(),
            weights: None,
            stats: OnceLock::new(),
        };
        // They are read once, for the check and for what the metrics need of the rows.
        let first_invalid = AtomicUsize::new(rows);
        let stats = predictions.read_all(|group, probs| {
            if !kernels::are_distributions(probs, classes, 0.5 * tolerance) {
                let rows = group.clone().zip(probs.chunks_exact(classes));
                let mut errors =
                    rows.filter(|(row, probs)| check_probs(*row, probs, tolerance).is_err());
                if let Some((row, _)) = errors.next() {
                    first_invalid.fetch_min(row, Ordering::Relaxed);
                }
            }
        });
        let row = first_invalid.into_inner();
        if row < rows {
            let mut probs = vec![0.0; classes];
            predictions.copy_probs(row..row + 1, &mut probs);
            check_probs(row, &probs, tolerance)?;
        }
        Ok(Self {
            stats: stats.into(),
            ..predictions
        })
    }

    /// Sets the weights: row i counts `weights[i]` times.
    ///
    /// # Errors
    /// If the counts differ, a weight is negative or not finite, or all are zero.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self> {
        check_weights(&weights, self.rows)?;
        self.weights = Some(weights.into());
        Ok(self)
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The labels, each below K.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The weights, if any were set.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Writes one row of K probabilities.
    ///
    /// # Panics
    /// If there is no such row, or `target` is of another length.
    pub fn probabilities(&self, row: usize, target: &mut [f64]) {
        let Normaliser { scale, .. } = self.exponentials(row, target);
        for value in target {
            *value *= scale;
        }
    }

    /// The contribution of every row to the metrics that are means over rows or depend on the predicted
    /// class only.
    pub fn row_stats(&self) -> Vec<RowStat> {
        self.stats().to_vec()
    }
}

impl<'a> From<&'a Dataset<'_>> for Predictions<'a> {
    fn from(data: &'a Dataset<'_>) -> Self {
        Self::from_dataset(data)
    }
}

fn check_probs(row: usize, probs: &[f64], tolerance: f64) -> Result<()> {
    let mut largest = 0;
    for (column, &value) in probs.iter().enumerate() {
        if value.is_nan() {
            return Err(Error::NanScore { row, column });
        }
        if value < 0.0 {
            return Err(Error::NegativeProbability { row, column, value });
        }
        if value > probs[largest] {
            largest = column;
        }
    }
    let sum: f64 = probs.iter().sum();
    if (sum - 1.0).abs() <= tolerance {
        return Ok(());
    }
    Err(Error::NotNormalised {
        row,
        column: largest,
        sum,
        kind: ScoreKind::Probs.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scores;
    use ndarray::{Array2, array};

    #[test]
    fn a_row_of_scores_gives_what_the_formulas_say() {
        let logits = array![[1.0_f32, 3.0, 3.0, -2.0], [0.0, 0.0, 0.0, 0.0]];
        let scores = Scores::new(ScoreKind::Logits, logits.view()).unwrap();
        let data = Dataset::new(scores, &[2, 3]).unwrap();
        let predictions = Predictions::from(&data);
        let stats = predictions.row_stats();

        let sum: f64 = logits.row(0).iter().map(|&v| f64::from(v).exp()).sum();
        let p = logits.row(0).mapv(|v| f64::from(v).exp() / sum);
        assert!((stats[0].confidence - p[1]).abs() < 1e-15);
        assert_eq!(
            (stats[0].predicted, stats[0].rank),
            (1, 1),
            "ties go to the smaller class"
        );
        assert!((stats[0].nll + p[2].ln()).abs() < 1e-15);
        let brier = p[0] * p[0] + p[1] * p[1] + (1.0 - p[2]) * (1.0 - p[2]) + p[3] * p[3];
        assert!((stats[0].brier - brier).abs() < 1e-15);
        assert_eq!((stats[1].predicted, stats[1].rank), (0, 3));

        let mut row = [0.0; 4];
        predictions.probabilities(0, &mut row);
        let mut part = [0.0; 2];
        let normaliser = predictions.exponentials(0, &mut [0.0; 4]);
        predictions.parts(0, 1, &[normaliser], &mut Vec::new(), &mut part);
        assert_eq!(
            part.map(f64::to_bits).as_slice(),
            row.map(f64::to_bits)[1..3].as_ref(),
            "both ways of reading a probability agree to the bit"
        );
    }

    #[test]
    fn scores_whose_exponentials_underflow_keep_their_order_and_likelihood() {
        let logits = array![[0.0_f32, -2000.0, -1000.0]];
        let scores = Scores::new(ScoreKind::Logits, logits.view()).unwrap();
        let data = Dataset::new(scores, &[1]).unwrap();
        let stat = Predictions::from(&data).row_stats()[0];
        assert_eq!(stat.rank, 2);
        assert!((stat.nll - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn probabilities_are_used_as_given_in_every_type_and_layout() {
        let probs = array![[0.5_f64, 0.25, 0.2495], [0.125, 0.125, 0.75]];
        let narrow = probs.mapv(|v| v as f32);
        let labels = [0_u8, 2];
        let wide = Predictions::from_probs(probs.view(), &labels)
            .unwrap()
            .row_stats();
        assert!((wide[0].confidence - 0.5).abs() < 1e-16);
        assert!((wide[1].nll + 0.75_f64.ln()).abs() < 1e-15);
        let owned = Predictions::from_probs(narrow.clone(), &labels)
            .unwrap()
            .row_stats();
        assert!((owned[0].brier - wide[0].brier).abs() < 1e-7);
        let columns: Array2<f64> = probs.t().as_standard_layout().into_owned();
        let transposed = Predictions::from_probs(columns.t(), &labels)
            .unwrap()
            .row_stats();
        assert_eq!(transposed, wide);
    }

    #[test]
    fn what_is_not_a_probability_is_refused() {
        let build = |p: Array2<f64>, labels: &[i64]| {
            Predictions::from_probs(p.view(), labels)
                .map(|_| ())
                .unwrap_err()
        };
        let good = array![[0.5, 0.5], [0.25, 0.75]];
        assert_eq!(
            build(good.clone(), &[0]),
            Error::LengthMismatch {
                what: "labels",
                found: 1,
                rows: 2
            }
        );
        assert_eq!(
            build(good.clone(), &[0, -1]),
            Error::LabelOutOfRange {
                row: 1,
                label: -1,
                classes: 2
            }
        );
        assert_eq!(
            build(array![[0.5, f64::NAN]], &[0]),
            Error::NanScore { row: 0, column: 1 }
        );
        assert_eq!(
            build(array![[1.5, -0.5]], &[0]),
            Error::NegativeProbability {
                row: 0,
                column: 1,
                value: -0.5
            }
        );
        assert!(matches!(
            build(array![[0.5, 0.5], [0.3, 0.6]], &[0, 0]),
            Error::NotNormalised {
                row: 1,
                column: 1,
                ..
            }
        ));
        assert_eq!(
            build(array![[1.0], [1.0]], &[0, 0]),
            Error::TooFewClasses { classes: 1 }
        );
        assert_eq!(build(Array2::zeros((0, 2)), &[]), Error::NoRows);
        let weighted = |weights| {
            let predictions = Predictions::from_probs(good.view(), &[0, 1]).unwrap();
            predictions.with_weights(weights).map(|_| ()).unwrap_err()
        };
        assert_eq!(
            weighted(vec![1.0]),
            Error::LengthMismatch {
                what: "weights",
                found: 1,
                rows: 2
            }
        );
        assert_eq!(
            weighted(vec![1.0, -1.0]),
            Error::InvalidWeight {
                row: 1,
                value: -1.0
            }
        );
        assert_eq!(weighted(vec![0.0, 0.0]), Error::ZeroWeights);
    }
}

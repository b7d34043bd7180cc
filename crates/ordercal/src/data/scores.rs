//! Scores, checked once on construction.

use std::borrow::Cow;

use ndarray::{ArrayView2, Zip, s};
use rayon::prelude::*;

use super::array::ScoreArray;
use super::kind::ScoreKind;
use crate::error::{Error, Result};
use crate::math::exp::ln_f64;
use crate::math::lanes;
use crate::math::simd::{check_environment, vectorized};
use crate::math::softmax;
use crate::rank::{self, Narrower};
use crate::real::Real;

/// A 64-bit row is rounded as it is while its largest score is within ±`ORDINARY`: 32-bit floats are then at most
/// 1.5e-5 apart, and the scores of networks stay the bytes that a 32-bit file would give, which models that read
/// unshifted scores (`vs`, `ms-odir`) rely on.
const ORDINARY: f64 = 256.0;

/// How far the sum of a row of probabilities may be from 1.
pub const NORMALISATION_TOLERANCE: f64 = 1e-3;

/// An N×K matrix of scores, validated: finite or `-inf`, at least two classes, no row with all classes masked.
///
/// Scores are stored row by row, as `f32` logits or log-probabilities. Probabilities are converted to
/// log-probabilities; zeros are first replaced by the smallest normal `f32`. Where a conversion would make two
/// different scores of a row equal (a `f64` logit rounded to `f32`, the logarithm of a tiny probability), they are
/// kept apart by the fewest units in the last place. The ranking of each row is therefore that of the numbers given.
///
/// A row of `f64` logits with a large common offset, such as joint log-likelihoods near −1e8, would lose its
/// differences when it is rounded. Its largest score is therefore subtracted first, which does not change its softmax:
/// where that score is beyond ±256, and at least twice as far from 0 as from the row's smallest.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Error, ScoreKind, Scores};
///
/// let scores = Scores::new(ScoreKind::Probs, array![[0.7_f32, 0.2, 0.1]])?;
/// assert_eq!((scores.rows(), scores.classes()), (1, 3));
/// assert_eq!(scores.kind(), ScoreKind::Probs);
/// // They are kept as log-probabilities.
/// assert!((scores.view()[[0, 0]] - 0.7_f32.ln()).abs() < 1e-6);
/// assert_eq!(scores.select(&[0, 0]).as_slice().len(), 6);
///
/// let bad = Scores::new(ScoreKind::Logits, array![[0.0_f32, f32::NAN]]);
/// assert_eq!(bad.unwrap_err(), Error::NanScore { row: 0, column: 1 });
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scores<'a> {
    /// Row by row.
    values: Cow<'a, [f32]>,
    classes: usize,
    kind: ScoreKind,
}

impl<'a> Scores<'a> {
    /// Validates `values` and converts them to `f32` logits or log-probabilities.
    ///
    /// # Parameters
    /// - `kind`: what the numbers are.
    /// - `values`: N×K, a view or an owned array of `f32`, or a view of `f64`, `f16` or `bf16`. A row-major `f32`
    ///   matrix of logits or log-probabilities is borrowed, not copied.
    ///
    /// # Errors
    /// There are no rows, or fewer than two columns. A score is NaN, `+inf` or a negative probability; a row does not
    /// sum to 1 within [`NORMALISATION_TOLERANCE`] (and what rounding to 16 bits can do, if it was), or is all `-inf`: the error names the first such row and column.
    pub fn new(kind: ScoreKind, values: impl Into<ScoreArray<'a>>) -> Result<Self> {
        check_environment()?;
        let values = values.into();
        let (rows, classes) = values.dim();
        if classes < 2 {
            return Err(Error::TooFewClasses { classes });
        }
        if rows == 0 {
            return Err(Error::NoRows);
        }
        let tolerance = values.tolerance(kind);
        let values = match values {
            ScoreArray::F32(values) => match values.to_slice() {
                Some(values) if kind != ScoreKind::Probs => Cow::Borrowed(values),
                _ => convert(kind, values, |v| v, tolerance)?.into(),
            },
            ScoreArray::Owned(values) => {
                if kind != ScoreKind::Probs && values.is_standard_layout() {
                    values.into_raw_vec_and_offset().0.into()
                } else {
                    convert(kind, values.view(), |v| v, tolerance)?.into()
                }
            }
            ScoreArray::F64(values) => convert_rows(
                kind,
                values,
                |v| v,
                tolerance,
                remove_offset,
                narrow_together,
            )?
            .into(),
            ScoreArray::F16(values) => convert(kind, values, f32::from, tolerance)?.into(),
            ScoreArray::Bf16(values) => convert(kind, values, f32::from, tolerance)?.into(),
        };
        let scores = Self {
            values,
            classes,
            kind,
        };
        scores.check(tolerance)?;
        Ok(scores)
    }

    /// The same, with equal scores in the place of rows that [`new`](Self::new) refuses; and those rows.
    ///
    /// # Errors
    /// There are no rows, or fewer than two columns.
    pub fn without_invalid(
        kind: ScoreKind,
        values: impl Into<ScoreArray<'a>>,
    ) -> Result<(Self, Vec<usize>)> {
        let values = values.into();
        let error = match Self::new(kind, values.clone()) {
            Ok(scores) => return Ok((scores, Vec::new())),
            Err(error) => error,
        };
        if error.row().is_none() {
            return Err(error);
        }
        let (rows, classes) = values.dim();
        let mut kept = Vec::with_capacity(rows * classes);
        let mut refused = Vec::new();
        let mut start = 0;
        while start < rows {
            // Short blocks: each row that is refused means that its block is looked at again.
            let end = rows.min(start + BLOCK);
            match Scores::new(kind, values.rows(start, end)) {
                Ok(scores) => {
                    kept.extend_from_slice(scores.as_slice());
                    start = end;
                }
                Err(error) => {
                    let Some(row) = error.row() else {
                        return Err(error);
                    };
                    if row > 0 {
                        let good = Scores::new(kind, values.rows(start, start + row))?;
                        kept.extend_from_slice(good.as_slice());
                    }
                    kept.resize(kept.len() + classes, -(classes as f32).ln());
                    refused.push(start + row);
                    start += row + 1;
                }
            }
        }
        let scores = Self {
            values: kept.into(),
            classes,
            kind,
        };
        Ok((scores, refused))
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.classes
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The kind that was given.
    pub fn kind(&self) -> ScoreKind {
        self.kind
    }

    /// The scores as logits or log-probabilities, N×K.
    pub fn view(&self) -> ArrayView2<'_, f32> {
        let shape = (self.rows(), self.classes);
        ArrayView2::from_shape(shape, &self.values).expect("rows of equal width")
    }

    /// The scores row after row, N·K values.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// One row, K values.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.classes..][..self.classes]
    }

    /// A copy of the given rows, in the given order.
    ///
    /// # Panics
    /// If `rows` is empty or names a row that is not there.
    pub fn select(&self, rows: &[usize]) -> Scores<'static> {
        assert!(!rows.is_empty(), "a selection needs at least one row");
        let mut values = Vec::with_capacity(rows.len() * self.classes);
        for &row in rows {
            values.extend_from_slice(self.row(row));
        }
        Scores {
            values: values.into(),
            classes: self.classes,
            kind: self.kind,
        }
    }

    /// Log-probabilities of `-inf` as probabilities of 0 are read: less than the smallest that the source could say.
    /// Only a class that is `-inf` in every row is masked. Other kinds are returned as they are.
    #[must_use]
    pub fn with_zeros_as_probabilities(self) -> Self {
        if self.kind != ScoreKind::LogProbs || all_finite(&self.values) {
            return self;
        }
        let classes = self.classes;
        let mut masked = vec![true; classes];
        for row in self.values.chunks_exact(classes) {
            for (masked, &score) in masked.iter_mut().zip(row) {
                *masked &= score == f32::NEG_INFINITY;
            }
        }
        let mut values = self.values.into_owned();
        for row in values.chunks_exact_mut(classes) {
            let possible = row.iter().copied().filter(|score| score.is_finite());
            // Below every other score of the row, which keeps its order.
            let lowest = possible.fold(f32::INFINITY, f32::min).next_down();
            let zero = f32::MIN_POSITIVE.ln().min(lowest);
            for (score, masked) in row.iter_mut().zip(&masked) {
                if *score == f32::NEG_INFINITY && !masked {
                    *score = zero;
                }
            }
        }
        Self {
            values: values.into(),
            ..self
        }
    }

    /// The same scores, copied if they were borrowed.
    pub fn into_owned(self) -> Scores<'static> {
        Scores {
            values: self.values.into_owned().into(),
            classes: self.classes,
            kind: self.kind,
        }
    }

    fn check(&self, tolerance: f64) -> Result<()> {
        let (kind, classes) = (self.kind, self.classes);
        let rows = CHECKED.div_ceil(classes);
        let check = |(block, values): (usize, &[f32])| {
            if kind != ScoreKind::LogProbs && all_finite(values) {
                return Ok(());
            }
            let numbered = values.chunks_exact(classes).enumerate();
            let mut rows = numbered.map(|(row, values)| (block * rows + row, values));
            rows.try_for_each(|(row, values)| check_row(kind, row, values, tolerance))
        };
        let values = self.as_slice();
        if values.len() <= rows * classes {
            return check((0, values));
        }
        values
            .par_chunks(rows * classes)
            .enumerate()
            .map(check)
            .find_map_first(Result::err)
            .map_or(Ok(()), Err)
    }
}

/// Rows that are looked at together where some are refused.
const BLOCK: usize = 256;

/// Scores that are checked together.
const CHECKED: usize = 16 * 1024;

vectorized! {
    fn all_finite(values: &[f32]) -> bool {
        // Without an early exit, so that the loop is vectorised.
        let mut all = true;
        for &value in values {
            all &= value.is_finite();
        }
        all
    }
}

/// Checks one row of stored scores. Probabilities were checked by [`convert`], before their logarithm was taken.
fn check_row(kind: ScoreKind, row: usize, values: &[f32], tolerance: f64) -> Result<()> {
    for (column, &value) in values.iter().enumerate() {
        if value.is_nan() {
            return Err(Error::NanScore { row, column });
        }
        if value == f32::INFINITY {
            let value = f64::from(value);
            return Err(Error::ScoreTooLarge { row, column, value });
        }
    }
    let top = rank::argmax(values);
    if values[top] == f32::NEG_INFINITY {
        let last_column = values.len() - 1;
        return Err(Error::AllMasked { row, last_column });
    }
    if kind == ScoreKind::LogProbs {
        let sum = softmax::log_sum_exp(values).exp();
        check_total(kind, row, values, sum, tolerance)?;
    }
    Ok(())
}

fn check_total<T: PartialOrd>(
    kind: ScoreKind,
    row: usize,
    values: &[T],
    sum: f64,
    tolerance: f64,
) -> Result<()> {
    if (sum - 1.0).abs() <= tolerance {
        return Ok(());
    }
    Err(Error::NotNormalised {
        row,
        column: rank::argmax(values),
        sum,
        kind: kind.to_string(),
    })
}

/// Converts scores of at most 32 bits to `f32` logits or log-probabilities, with the ranking of each row.
fn convert<T: Copy + Sync>(
    kind: ScoreKind,
    source: ArrayView2<'_, T>,
    to_f32: impl Fn(T) -> f32 + Sync,
    tolerance: f64,
) -> Result<Vec<f32>> {
    if kind == ScoreKind::Probs {
        return convert_rows(
            kind,
            source,
            |v| to_f32(v).into(),
            tolerance,
            |_| {},
            |_, _, _| false,
        );
    }
    // Nothing is rounded, so nothing can become equal.
    let classes = source.ncols();
    let rows = CHECKED.div_ceil(classes);
    let mut target = vec![0.0; source.len()];
    let blocks = target.par_chunks_mut(rows * classes);
    blocks.enumerate().for_each(|(block, target)| {
        let end = source.nrows().min((block + 1) * rows);
        let source = source.slice(s![block * rows..end, ..]);
        for (target, &value) in target.iter_mut().zip(source) {
            // −0 becomes +0.
            *target = to_f32(value) + 0.0;
        }
    });
    Ok(target)
}

/// The same for any float type. Logits go through `shift`, unless `together` can convert a few rows at once.
fn convert_rows<T: Copy + Sync>(
    kind: ScoreKind,
    source: ArrayView2<'_, T>,
    to_f64: impl Fn(T) -> f64 + Sync,
    tolerance: f64,
    shift: impl Fn(&mut [f64]) + Sync,
    together: impl Fn(&[T], usize, &mut [f32]) -> bool + Sync,
) -> Result<Vec<f32>> {
    let classes = source.ncols();
    let rows = softmax::group(classes);
    let mut target = vec![0.0; source.len()];
    let blocks = target.par_chunks_mut(rows * classes).enumerate();
    let convert_row = |buffers: &mut (Narrower, Vec<f64>, Vec<f64>), row, narrow: &mut [f32]| {
        let (narrower, wide, logs) = buffers;
        let values = source.row(row);
        Zip::from(&mut wide[..])
            .and(values)
            .for_each(|wide, &value| *wide = to_f64(value));
        check_wide(kind, row, wide, tolerance)?;
        match kind {
            ScoreKind::Probs => {
                if logarithms(wide, logs) {
                    narrower.narrow(wide, logs, narrow);
                } else {
                    narrower.narrow_in_order(wide, logs, narrow);
                }
            }
            ScoreKind::Logits => {
                shift(wide);
                narrower.narrow(wide, wide, narrow);
            }
            ScoreKind::LogProbs => narrower.narrow(wide, wide, narrow),
        }
        Ok(())
    };
    let convert_block = |buffers: &mut _, (block, narrow): (usize, &mut [f32])| {
        let first = block * rows;
        let values = source.slice(s![first..first + narrow.len() / classes, ..]);
        if kind != ScoreKind::Probs
            && values
                .to_slice()
                .is_some_and(|values| together(values, classes, narrow))
        {
            return Ok(());
        }
        let mut rows = narrow.chunks_exact_mut(classes).enumerate();
        rows.try_for_each(|(row, narrow)| convert_row(buffers, first + row, narrow))
    };
    let buffers = || {
        (
            Narrower::new(classes),
            vec![0.0; classes],
            vec![0.0; classes],
        )
    };
    blocks
        .map_init(buffers, convert_block)
        .find_map_first(Result::err)
        .map_or(Ok(target), Err)
}

/// Longer rows are converted one by one: comparing all pairs would take longer than a hash table.
const MOST_TOGETHER: usize = 32;

vectorized! {
    /// Rounds the logits of a few short rows. `false` if something has to be done that concerns one row: an offset, a masked
    /// class, two different scores that became equal, or an error.
    #[allow(clippy::float_cmp)] // Ties are equal to the last bit.
    fn narrow_together(values: &[f64], classes: usize, narrow: &mut [f32]) -> bool {
        let mut ordinary = classes <= MOST_TOGETHER;
        for (narrow, &value) in narrow.iter_mut().zip(values) {
            ordinary &= value.abs() <= ORDINARY;
            *narrow = f32::from_f64(value);
        }
        if !ordinary {
            return false;
        }
        // Every pair of a row, and some of neighbouring rows, which fill the vectors and do no harm.
        let mut tie = false;
        for distance in 1..classes {
            let pairs = values.iter().zip(&values[distance..]);
            for ((a, b), (c, d)) in narrow.iter().zip(&narrow[distance..]).zip(pairs) {
                tie |= (a == b) & (c != d);
            }
        }
        !tie
    }
}

vectorized! {
    /// Raises probabilities to the smallest normal `f32`, and takes their logarithms. Whether rounding these to 32 bits
    /// is certain not to change the places of two classes.
    ///
    /// A logarithm is off by two units in its last place, so those of neighbouring numbers may change places; rounding
    /// then makes them equal, unless the middle between two 32-bit floats lies between them.
    fn logarithms(probs: &mut [f64], logs: &mut [f64]) -> bool {
        const SMALLEST: f64 = f32::MIN_POSITIVE as f64;
        /// What rounding takes away of the 52 bits, and how close to its middle is too close.
        const LOST: u64 = (1 << 29) - 1;
        const CLOSE: u64 = 16;
        let mut certain = true;
        for (p, log) in probs.iter_mut().zip(logs) {
            let raised = if *p > SMALLEST { *p } else { SMALLEST };
            *p = raised;
            *log = ln_f64(raised);
            let above_middle = (log.to_bits() & LOST).wrapping_sub((LOST >> 1) - CLOSE);
            certain &= above_middle > 2 * CLOSE;
        }
        certain
    }
}

/// Subtracts the largest score from a row whose differences would be lost in 32 bits.
fn remove_offset(row: &mut [f64]) {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.abs() <= ORDINARY {
        return;
    }
    let finite = row.iter().copied().filter(|score| score.is_finite());
    let width = top - finite.fold(top, f64::min);
    // Numbers within a factor of 2 of each other are subtracted without rounding (Sterbenz's lemma), so different
    // scores stay different. A row that is wider has no common offset.
    if width <= top.abs() / 2.0 {
        for score in row {
            *score -= top;
        }
    }
}

/// Checks what is lost in the conversion: values outside the range of `f32`, and probabilities as such.
fn check_wide(kind: ScoreKind, row: usize, values: &[f64], tolerance: f64) -> Result<()> {
    const LARGEST: f64 = f32::MAX as f64;
    let lowest = match kind {
        ScoreKind::Probs => 0.0,
        ScoreKind::Logits | ScoreKind::LogProbs => -LARGEST,
    };
    let (within, sum) = total(values, lowest, LARGEST);
    if !within {
        // Something is wrong, or a class is masked.
        for (column, &value) in values.iter().enumerate() {
            if value.is_nan() {
                return Err(Error::NanScore { row, column });
            }
            if value > LARGEST || (value.is_finite() && value < -LARGEST) {
                return Err(Error::ScoreTooLarge { row, column, value });
            }
            if kind == ScoreKind::Probs && value < 0.0 {
                return Err(Error::NegativeProbability { row, column, value });
            }
        }
    }
    match kind {
        ScoreKind::Probs => check_total(kind, row, values, sum, tolerance),
        ScoreKind::Logits | ScoreKind::LogProbs => Ok(()),
    }
}

vectorized! {
    /// Whether all values are within a range (and not NaN), and their sum.
    fn total(values: &[f64], lowest: f64, highest: f64) -> (bool, f64) {
        let mut within = true;
        for &value in values {
            within &= (value >= lowest) & (value <= highest);
        }
        (within, lanes::fold::<32, _, _>(values, 0.0, |sum, value| sum + value, |a, b| a + b))
    }
}

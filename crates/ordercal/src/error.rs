//! The errors of the library.

use crate::words::count;

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the library rejects. Each variant holds the data that locate the problem.
///
/// Rows, columns and labels count from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no rows.
    #[error("there are no rows: at least one row of scores is needed")]
    NoRows,
    /// There are fewer than two classes.
    #[error(
        "the scores have {classes} column(s): a classifier needs at least 2 classes, one per column"
    )]
    TooFewClasses {
        /// The number of columns.
        classes: usize,
    },
    /// A score is NaN.
    #[error("row {row}, column {column}: the score is NaN; remove the row or repair the score")]
    NanScore {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
    },
    /// A score is `+inf`, or a finite number outside the range of 32-bit floats.
    #[error(
        "row {row}, column {column}: the score {value:?} is too large for a 32-bit float; \
         scores must be finite, or -inf for a masked class"
    )]
    ScoreTooLarge {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The score.
        value: f64,
    },
    /// A probability below zero.
    #[error(
        "row {row}, column {column}: the probability {value:?} is negative; \
         if these are logits, say so: --kind logits, or kind=\"logits\" in Python"
    )]
    NegativeProbability {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A row of probabilities or log-probabilities whose total is not 1.
    #[error(
        "row {row}: the {kind} sum to {sum} instead of 1 (column {column} holds the largest); \
         if these are logits, say so: --kind logits, or kind=\"logits\" in Python"
    )]
    NotNormalised {
        /// The row.
        row: usize,
        /// The column of the row's largest value.
        column: usize,
        /// The sum of the probabilities.
        sum: f64,
        /// The kind that the caller passed.
        kind: String,
    },
    /// Every class of a row is masked.
    #[error("row {row}: every score (columns 0 to {last_column}) is -inf, so no class is possible")]
    AllMasked {
        /// The row.
        row: usize,
        /// The last column.
        last_column: usize,
    },
    /// A label that is not a class.
    #[error(
        "row {row}: the label {label} is not one of the {classes} classes; \
         labels count from 0 to {}{}", classes - 1, counted_from_one(*label, *classes)
    )]
    LabelOutOfRange {
        /// The row.
        row: usize,
        /// The label; one outside the range of `i64` is shown as the nearest value in range.
        label: i64,
        /// The number of classes.
        classes: usize,
    },
    /// A label whose class has probability zero.
    #[error(
        "row {row}, column {label}: the label is a masked class (its score is -inf), \
         which has probability 0"
    )]
    LabelMasked {
        /// The row.
        row: usize,
        /// The label, which is also the column.
        label: usize,
    },
    /// The numbers of rows of two arrays differ.
    #[error(
        "there are {found} {what} for {} of scores: one per row is needed",
        count(*rows, "row", "rows")
    )]
    LengthMismatch {
        /// Which array: `labels` or `weights`.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The number of rows of scores.
        rows: usize,
    },
    /// A weight that is negative or not finite.
    #[error("row {row}: the weight {value:?} must be finite and not negative")]
    InvalidWeight {
        /// The row.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// A share of a soft label that is no probability.
    #[error("row {row}, column {column}: {value:?} in a soft label is not a probability")]
    InvalidTarget {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A soft label that is no distribution.
    #[error(
        "row {row}: the soft label sums to {sum} instead of 1; a label is a class, or a distribution over the classes"
    )]
    TargetNotNormalised {
        /// The row.
        row: usize,
        /// The sum of its shares.
        sum: f64,
    },
    /// Something for which labels must be classes, not distributions.
    #[error("{what} with soft labels is not defined: it needs labels that are classes")]
    SoftLabels {
        /// What was asked for.
        what: &'static str,
    },
    /// A buffer that would be larger than the memory that may be used.
    #[error(
        "{what} would take {}, but {} may be used{}",
        in_words(*bytes), in_words(*limit), hint
    )]
    TooLarge {
        /// What it is for.
        what: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
        /// What to do, after a semicolon; may be empty.
        hint: &'static str,
    },
    /// Every weight is zero.
    #[error("the weights are all zero: at least one must be positive")]
    ZeroWeights,
    /// Scores with another number of classes than the model has.
    #[error("the scores have {found} classes but the model was fitted for {expected}")]
    WrongClasses {
        /// The number of classes of the model.
        expected: usize,
        /// The number of classes of the scores.
        found: usize,
    },
    /// Class names of two sides that do not hold the same names.
    #[error(
        "the classes of the scores are {columns}, but those of {owner} are {known}; rename the \
         columns, or leave their names out to go by position"
    )]
    ClassNamesDiffer {
        /// Whose the known names are.
        owner: &'static str,
        /// The names of the columns, and which of them the other side does not have.
        columns: Box<str>,
        /// The known names, and which of them the columns do not have.
        known: Box<str>,
    },
    /// An output buffer that does not have the shape of the result.
    #[error("the output has shape {found:?} but the result has {expected:?}")]
    WrongShape {
        /// The result's shape.
        expected: (usize, usize),
        /// The buffer's shape.
        found: (usize, usize),
    },
    /// A part of a stored model that is missing, out of range, or inconsistent with the others.
    #[error("the model's `{part}` is {found}: expected {expected}")]
    InvalidPart {
        /// The part, as in a model file.
        part: Box<str>,
        /// What was found.
        found: String,
        /// What is valid.
        expected: &'static str,
    },
    /// A custom model, which cannot be stored.
    #[error("a custom model cannot be stored: its parameters are not known to the library")]
    CannotStore,
    /// An invalid argument.
    #[error("{argument}: {found}; expected {expected}")]
    InvalidArgument {
        /// The argument.
        argument: &'static str,
        /// What was passed.
        found: String,
        /// What is valid.
        expected: &'static str,
    },
    /// A probability that is negative or not finite.
    #[error("row {row}, column {column}: {value:?} is not a probability")]
    InvalidProbability {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A hyperparameter outside its range.
    #[error("{name} = {value} is out of range: expected {expected}")]
    InvalidParameter {
        /// Its name, as in a configuration file.
        name: &'static str,
        /// The value.
        value: String,
        /// What is valid.
        expected: &'static str,
    },
    /// An unknown method key.
    #[error("there is no method `{key}`; the methods are: {known}")]
    UnknownMethod {
        /// The unknown key.
        key: String,
        /// The known keys, separated by spaces.
        known: String,
    },
    /// `+order` after the key of an order-preserving method.
    #[error("`{key}+order` is not a method: `{key}` keeps the order already; use `{key}`")]
    AlreadyOrdered {
        /// The method's key.
        key: String,
    },
    /// A tie breaker that is not a permutation of the classes.
    #[error(
        "a tie breaker must be a permutation of 1 to {classes}: position {position} is out of range or a repetition"
    )]
    InvalidTieBreaker {
        /// The number of classes.
        classes: usize,
        /// The first position that is out of range or repeats a priority.
        position: usize,
    },
    /// The observer asked the fit to stop.
    #[error("the fit was cancelled")]
    Cancelled,
    /// An unknown metric key.
    #[error("there is no metric `{key}`; the metrics are: {known}")]
    UnknownMetric {
        /// The unknown key.
        key: String,
        /// The known keys.
        known: String,
    },
    /// A metric for which the operation is not defined.
    #[error("the metric `{metric}` cannot be used here: {reason}")]
    MetricNotSupported {
        /// The metric's key.
        metric: &'static str,
        /// The reason, and the metrics that can be used.
        reason: String,
    },
    /// A weight outside the range of a state's fixed-point sums.
    #[error(
        "row {row}: the weight {value:?} is outside the range of a mergeable state, 2^-40 to 2^40"
    )]
    WeightOutOfRange {
        /// The row.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// More rows or weight than a state's fixed-point sums can represent.
    #[error("the state is full: it holds at most 2^60 rows with a total weight of 2^44")]
    StateFull,
    /// Two states of different metrics or options.
    #[error("the states cannot be merged: {what} is {left} in one and {right} in the other")]
    StateMismatch {
        /// What differs.
        what: &'static str,
        /// Its value in the first.
        left: String,
        /// Its value in the second.
        right: String,
    },
    /// A state that contains rows which another one contains.
    #[error("a shard of it was merged already; give each shard once")]
    SameShard,
    /// Bytes that do not encode a state.
    #[error("this is not a valid metric state: {reason}")]
    InvalidState {
        /// What is wrong with the bytes.
        reason: &'static str,
    },
}

/// A number of bytes as `1.5 GB`.
fn in_words(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b < 1e6 => format!("{:.0} kB", b / 1e3),
        b if b < 1e9 => format!("{:.0} MB", b / 1e6),
        b if b < 1e13 => format!("{:.1} GB", b / 1e9),
        b => format!("{b:.0e} bytes"),
    }
}

fn counted_from_one(label: i64, classes: usize) -> &'static str {
    if usize::try_from(label) == Ok(classes) {
        "; if these count from 1, subtract 1"
    } else {
        ""
    }
}

impl Error {
    /// An [`InvalidParameter`](Self::InvalidParameter): the parameter `name` has the `value`, and `expected` says what is
    /// valid.
    pub fn invalid(name: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::InvalidParameter {
            name,
            value: value.to_string(),
            expected,
        }
    }

    /// The row that the error names, if it names one.
    pub(crate) fn row(&self) -> Option<usize> {
        let mut found = None;
        let _ = self.clone().map_row(|row| {
            found = Some(row);
            row
        });
        found
    }

    /// Replaces the row that the error names, if it names one, by its place in the data.
    #[must_use]
    pub fn map_row(mut self, place: impl FnOnce(usize) -> usize) -> Self {
        match &mut self {
            Self::NanScore { row, .. }
            | Self::InvalidProbability { row, .. }
            | Self::ScoreTooLarge { row, .. }
            | Self::NegativeProbability { row, .. }
            | Self::NotNormalised { row, .. }
            | Self::AllMasked { row, .. }
            | Self::LabelOutOfRange { row, .. }
            | Self::LabelMasked { row, .. }
            | Self::InvalidWeight { row, .. }
            | Self::InvalidTarget { row, .. }
            | Self::TargetNotNormalised { row, .. }
            | Self::WeightOutOfRange { row, .. } => *row = place(*row),
            _ => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_in_words() {
        for (bytes, words) in [
            (1_500, "2 kB"),
            (20_000_000, "20 MB"),
            (80_000_000_000, "80.0 GB"),
            (usize::MAX, "2e19 bytes"),
        ] {
            assert_eq!(in_words(bytes), words);
        }
    }
}

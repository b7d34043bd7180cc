//! What can go wrong, with the place where it did.

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything the library refuses, each variant holding the data a caller needs to point at the culprit.
///
/// Rows, columns and labels count from 0, as arrays do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is not a single row.
    #[error("there are no rows: at least one row of scores is needed")]
    NoRows,
    /// Fewer than two classes.
    #[error(
        "the scores have {classes} column(s): a classifier needs at least 2 classes, one per column"
    )]
    TooFewClasses {
        /// How many columns there are.
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
    /// A score is `+inf`, or a finite number that a 32-bit float cannot hold.
    #[error(
        "row {row}, column {column}: the score {value} is too large for a 32-bit float; \
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
        "row {row}, column {column}: the probability {value} is negative; \
         if these are logits, say so with the kind `logits`"
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
         if these are logits, say so with the kind `logits`"
    )]
    NotNormalised {
        /// The row.
        row: usize,
        /// The column of the row's largest value.
        column: usize,
        /// What the probabilities add up to.
        sum: f64,
        /// What the scores were said to be.
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
         labels count from 0 to {}", classes - 1
    )]
    LabelOutOfRange {
        /// The row.
        row: usize,
        /// The label as given; one that 64 bits cannot hold is shown as the nearest value.
        label: i64,
        /// How many classes the scores have.
        classes: usize,
    },
    /// A label whose class has probability zero.
    #[error(
        "row {row}, column {label}: the label names a class whose score is -inf; \
         a masked class cannot be the right one"
    )]
    LabelMasked {
        /// The row.
        row: usize,
        /// The label, which is also the column.
        label: usize,
    },
    /// The numbers of rows of two arrays differ.
    #[error("there are {found} {what} for {rows} rows of scores: one per row is needed")]
    LengthMismatch {
        /// Which array: `labels` or `weights`.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The number of rows of scores.
        rows: usize,
    },
    /// A weight that is negative or not finite.
    #[error("row {row}: the weight {value} must be finite and not negative")]
    InvalidWeight {
        /// The row.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// Every weight is zero.
    #[error("the weights are all zero: at least one row must count")]
    ZeroWeights,
    /// A model was given rows of another width.
    #[error("the scores have {found} classes but the model was fitted for {expected}")]
    WrongClasses {
        /// What the model was fitted for.
        expected: usize,
        /// What the scores have.
        found: usize,
    },
    /// A buffer of another shape than the result.
    #[error("the output has shape {found:?} but the result has {expected:?}")]
    WrongShape {
        /// The result's shape.
        expected: (usize, usize),
        /// The buffer's shape.
        found: (usize, usize),
    },
    /// A part of a model that is missing, out of range, or does not fit the others.
    #[error("the model's `{part}` is {found}: expected {expected}")]
    InvalidPart {
        /// The part, as in a model file.
        part: Box<str>,
        /// What is there.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A model of the user's own, which the library cannot store.
    #[error("a model of your own cannot be stored: only its author knows what it is made of")]
    CannotStore,
    /// An argument that does not fit the others.
    #[error("{argument}: {found}; expected {expected}")]
    InvalidArgument {
        /// The argument.
        argument: &'static str,
        /// What was given.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A probability that is negative or not finite.
    #[error("row {row}, column {column}: {value} is not a probability")]
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
        /// The key, as in a configuration file.
        name: &'static str,
        /// The value given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A method key that is not known.
    #[error("there is no method `{key}`; the methods are: {known}")]
    UnknownMethod {
        /// The key given.
        key: String,
        /// The keys there are.
        known: String,
    },
    /// `+order` behind a method that keeps the order by itself.
    #[error("`{key}+order` makes no sense: `{key}` keeps the order already; use `{key}`")]
    AlreadyOrdered {
        /// The method's key.
        key: String,
    },
    /// A tie breaker that is not a permutation of the classes.
    #[error("a tie breaker must hold each of 1 to {classes} once; position {position} breaks that")]
    InvalidTieBreaker {
        /// How many classes there are.
        classes: usize,
        /// The first position that is out of range or repeats a priority.
        position: usize,
    },
    /// The observer asked the fit to stop.
    #[error("the fit was cancelled")]
    Cancelled,
    /// A metric key that is not known.
    #[error("there is no metric `{key}`; the metrics are: {known}")]
    UnknownMetric {
        /// The key given.
        key: String,
        /// The keys there are.
        known: String,
    },
    /// A metric that the operation is not defined for.
    #[error("the metric `{metric}` cannot be used here: {reason}")]
    MetricNotSupported {
        /// The metric's key.
        metric: &'static str,
        /// Why not, and which metrics can.
        reason: String,
    },
    /// Two sets of predictions that are to be compared row by row are not of the same rows.
    #[error(
        "the two sets of predictions are not of the same rows: the {what} differ{}",
        row.map_or_else(String::new, |row| format!(" at row {row}"))
    )]
    UnpairedPredictions {
        /// What differs: `numbers of rows`, `labels` or `weights`.
        what: &'static str,
        /// The first row that differs, if the numbers agree.
        row: Option<usize>,
    },
    /// A weight that the fixed-point sums of a state cannot hold.
    #[error(
        "row {row}: the weight {value} is outside the range of a mergeable state, 2^-40 to 2^40"
    )]
    WeightOutOfRange {
        /// The row.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// A state that would hold more rows or weight than its sums have room for.
    #[error("the state is full: it holds at most 2^60 rows with a total weight of 2^44")]
    StateFull,
    /// Two states that do not describe the same metrics.
    #[error("the states cannot be merged: {what} is {left} in one and {right} in the other")]
    StateMismatch {
        /// What differs.
        what: &'static str,
        /// Its value in the first.
        left: String,
        /// Its value in the second.
        right: String,
    },
    /// Bytes that are not a state.
    #[error("this is not a valid metric state: {reason}")]
    InvalidState {
        /// What is wrong with the bytes.
        reason: &'static str,
    },
}

impl Error {
    /// A hyperparameter outside its range.
    pub fn invalid(name: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::InvalidParameter {
            name,
            value: value.to_string(),
            expected,
        }
    }

    /// The same error for a chunk whose first row is row `first` of the whole: adds it to the row that the
    /// error names, if it names one.
    #[must_use]
    pub fn offset_rows(mut self, first: usize) -> Self {
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
            | Self::UnpairedPredictions { row: Some(row), .. }
            | Self::WeightOutOfRange { row, .. } => *row += first,
            _ => {}
        }
        self
    }
}

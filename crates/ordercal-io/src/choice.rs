//! What a user says about columns, where names do not tell.

use crate::error::Result;

/// Which columns of a table, or arrays of a file, are what; empty where their names tell.
///
/// ```
/// use ordercal_io::ColumnChoice;
///
/// let choice = ColumnChoice::default()
///     .with_label("truth")
///     .with_scores(["score_*"])
///     .with_ids(["id", "day"]);
/// assert_eq!(choice.label.as_deref(), Some("truth"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ColumnChoice {
    /// The labels.
    pub label: Option<String>,
    /// Soft labels, a distribution over the classes for every row: the columns with the shares of the classes, as for the
    /// scores, or one array or column of lists.
    pub soft_labels: Vec<String>,
    /// Rows with the same value here belong together.
    pub groups: Option<String>,
    /// The scores: names, or beginnings of names with a `*` behind them, in the order of the classes.
    pub scores: Vec<String>,
    /// Columns that are not read as numbers but handed through.
    pub ids: Vec<String>,
    /// Whether a csv file starts with the names of its columns; otherwise they are called 0, 1 and so on. By default,
    /// a first line of numbers is not a header, unless it counts 0, 1, 2, as pandas numbers its columns.
    pub header: Option<bool>,
    /// What separates the columns of a csv file; by default a comma, or a tab in a `.tsv` file.
    pub delimiter: Option<u8>,
}

impl ColumnChoice {
    /// Says which column holds the labels.
    #[must_use]
    pub fn with_label(self, name: impl Into<String>) -> Self {
        Self {
            label: Some(name.into()),
            ..self
        }
    }

    /// Says which columns hold the scores.
    #[must_use]
    pub fn with_scores<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self {
            scores: names.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Says which columns hold soft labels.
    #[must_use]
    pub fn with_soft_labels<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self {
            soft_labels: names.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Says which rows belong together.
    #[must_use]
    pub fn with_groups(self, name: impl Into<Option<String>>) -> Self {
        Self {
            groups: name.into(),
            ..self
        }
    }

    /// Says which columns are handed through.
    #[must_use]
    pub fn with_ids<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self {
            ids: names.into_iter().map(Into::into).collect(),
            ..self
        }
    }
}

/// The usual names of labels; the first two go before the others.
pub(crate) const LABELS: [&str; 6] = ["label", "labels", "y_true", "target", "targets", "y"];

/// Of things that may be labels, given by their place in [`LABELS`], the one that is meant. Two names beside each
/// other are ambiguous, unless one is among the first two.
pub(crate) fn one_label<E>(
    mut candidates: Vec<(usize, usize)>,
    ambiguous: impl FnOnce(usize, usize) -> E,
) -> Result<Option<usize>, E> {
    candidates.sort_unstable();
    match candidates.as_slice() {
        [] => Ok(None),
        &[(_, only)] => Ok(Some(only)),
        &[(rank, first), (next, second), ..] if rank > 1 || next == rank => {
            Err(ambiguous(first, second))
        }
        &[(_, first), ..] => Ok(Some(first)),
    }
}

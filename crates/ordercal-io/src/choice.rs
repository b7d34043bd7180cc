//! What a user says about columns, where names do not tell.

use derive_setters::Setters;

use crate::error::Result;

/// Which columns of a table, or arrays of a file, are what; empty where their names tell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Setters)]
#[setters(prefix = "with_", into)]
#[non_exhaustive]
pub struct ColumnChoice {
    /// The labels.
    #[setters(strip_option)]
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

//! Whole files in memory.

use std::path::Path;

use ordercal::{Dataset, ScoreKind, Scores};

use crate::data_ref::DataRef;
use crate::error::Result;
use crate::ids::IdValues;
use crate::reader::{ReadOptions, RowReader};
use crate::row_chunk::{RowChunk, ScoreMatrix};

/// Scores as they are in the file, with labels and weights if there are any.
#[derive(Debug, Clone)]
pub struct LoadedData {
    rows: RowChunk,
    class_names: Option<Vec<String>>,
    ignored: Vec<String>,
}

impl LoadedData {
    /// Reads a file, or one split of it.
    ///
    /// # Errors
    /// If the file cannot be read, or does not hold what is asked for.
    pub fn read(data: &DataRef, options: ReadOptions) -> Result<Self> {
        Self::collect(RowReader::open(data, options)?)
    }

    /// Reads scores from one file and labels from another.
    ///
    /// # Errors
    /// If a file cannot be read, or the two do not fit together.
    pub fn read_pair(scores: &Path, labels: &Path, options: ReadOptions) -> Result<Self> {
        Self::collect(RowReader::open_pair(scores, labels, options)?)
    }

    /// Reads all rows that a reader has left.
    ///
    /// # Errors
    /// If there are none, or the file cannot be read.
    pub fn collect(reader: RowReader) -> Result<Self> {
        let class_names = reader.class_names().map(<[String]>::to_vec);
        let ignored = reader.ignored().to_vec();
        let rows = reader.collect_rows()?;
        Ok(Self {
            rows,
            class_names,
            ignored,
        })
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.rows.classes()
    }

    /// What the scores are.
    pub fn kind(&self) -> ScoreKind {
        self.rows.kind
    }

    /// The file with the scores.
    pub fn path(&self) -> &Path {
        self.rows.path()
    }

    /// The split that was read, if the file has splits.
    pub fn split(&self) -> Option<&str> {
        self.rows.split.as_deref()
    }

    /// The scores in the type of the file, unchecked.
    pub fn matrix(&self) -> &ScoreMatrix {
        &self.rows.scores
    }

    /// Whether there are labels, be they classes or distributions.
    pub fn has_labels(&self) -> bool {
        self.rows.labels.is_some() || self.rows.shares.is_some()
    }

    /// The labels, if there are any and they are classes, unchecked.
    pub fn labels(&self) -> Option<&[i64]> {
        self.rows.labels.as_deref()
    }

    /// The weights, if there are any, unchecked.
    pub fn weights(&self) -> Option<&[f64]> {
        self.rows.weights.as_deref()
    }

    /// The columns that are handed through.
    pub fn ids(&self) -> &[IdValues] {
        &self.rows.ids
    }

    /// The names of the classes, if they are known.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// Columns or arrays that were not read although their names look like labels or weights.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// The scores, checked.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data), which names the file, row and column.
    pub fn scores(&self) -> Result<Scores<'_>> {
        self.rows.checked_scores()
    }

    /// Scores, labels and weights, checked.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data), which names the file, row and column, and
    /// [`Error::NoLabels`](crate::Error::NoLabels).
    pub fn dataset(&self) -> Result<Dataset<'_>> {
        self.rows.dataset()
    }
}

/// Reads a file, or one split of it, whole. `kind` says what the scores are where their name does not.
///
/// # Errors
/// If the file cannot be read, or holds no scores.
pub fn load(data: &DataRef, kind: Option<ScoreKind>) -> Result<LoadedData> {
    LoadedData::read(data, ReadOptions::default().with_kind(kind))
}

/// Reads scores from one file and labels from another.
///
/// # Errors
/// If a file cannot be read, or the two do not fit together.
pub fn load_pair(scores: &Path, labels: &Path, kind: Option<ScoreKind>) -> Result<LoadedData> {
    LoadedData::read_pair(scores, labels, ReadOptions::default().with_kind(kind))
}

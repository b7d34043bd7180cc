//! What is in a file, without reading its values.

use std::path::Path;

use ordercal::ScoreKind;

use crate::bundle;
use crate::data_ref::DataRef;
use crate::error::Result;
use crate::formats::{Format, Reading};
use crate::reader::{ReadOptions, RowReader};

/// One split of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetInfo {
    /// The name of the split; `None` if the file has no splits.
    pub split: Option<String>,
    /// What the scores are, as far as their name says it; otherwise logits.
    pub kind: ScoreKind,
    /// N, where the file says it.
    pub rows: Option<usize>,
    /// K.
    pub classes: usize,
    /// Whether there are labels.
    pub labels: bool,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// The format.
    pub format: Format,
    /// The splits that have scores, in the file's order.
    pub sets: Vec<SetInfo>,
    /// Every array by name, type and shape, in words; empty for tables.
    pub arrays: Vec<String>,
}

impl Contents {
    /// The split that a name stands for: that of the name, or for `calib` one with another usual name.
    pub fn split(&self, name: &str) -> Option<&str> {
        let known = self.sets.iter().filter_map(|set| set.split.as_deref());
        bundle::find_split(&known.collect::<Vec<_>>(), name)
    }
}

/// Says what a file holds.
///
/// # Errors
/// If the file cannot be read.
pub fn inspect(path: &Path, options: &ReadOptions) -> Result<Contents> {
    let format = Format::find(path, options.format)?;
    let Reading::Archive(open) = format.codec().read else {
        let reader = RowReader::open(&DataRef::new(path), options.clone())?;
        let set = SetInfo {
            split: None,
            kind: reader.kind(),
            rows: reader.known_rows(),
            classes: reader.classes(),
            labels: reader.has_labels(),
        };
        return Ok(Contents {
            format,
            sets: vec![set],
            arrays: Vec::new(),
        });
    };
    let archive = open(path)?;
    let entries = archive.entries();
    let sets = bundle::sets(entries).into_iter().map(|set| {
        let (kind, scores) = set.scores[0];
        let shape = &entries[scores].shape;
        SetInfo {
            split: set.split,
            kind,
            rows: shape.first().copied(),
            // One column is the second of two classes.
            classes: shape.get(1).copied().unwrap_or(1).max(2),
            labels: !set.labels.is_empty(),
        }
    });
    Ok(Contents {
        format,
        sets: sets.collect(),
        arrays: entries.iter().map(|e| e.describe()).collect(),
    })
}

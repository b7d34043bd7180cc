//! Reading a file in chunks, so that memory does not grow with the number of rows.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use derive_setters::Setters;
use ndarray::Axis;
use ordercal::{ScoreKind, match_class_names, memory};

use crate::choice::ColumnChoice;
use crate::columns;
use crate::data_ref::DataRef;
use crate::error::{Error, Result, clean};
use crate::formats::Format;
use crate::ids::{IdType, IdValues};
use crate::labels::{self, ClassOrder, LabelDecoder, Labels};
use crate::row_chunk::{RowChunk, ScoreMatrix};
use crate::row_source::{self, Opened, RawRows};

/// What to do about labels and weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LabelNeed {
    /// Read them; a file without labels is an error.
    Required,
    /// Read them if there are any.
    #[default]
    IfPresent,
    /// Do not read them, even if they are damaged.
    Ignored,
}

/// How a file is to be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Setters)]
#[setters(prefix = "with_", into)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the scores are, if their name does not say it; logits by default.
    pub kind: Option<ScoreKind>,
    /// What to do about labels.
    pub labels: LabelNeed,
    /// The names of the classes in the order of the columns; by default those of the file.
    pub class_names: Option<Vec<String>>,
    /// The most rows in a chunk; by default about 4 MB.
    pub chunk_rows: Option<usize>,
    /// The format of files whose ending does not tell it.
    pub format: Option<Format>,
    /// Which columns are what, where their names do not tell it.
    pub columns: ColumnChoice,
    /// Rows with this label, a number or a name, are left out.
    pub ignored_label: Option<String>,
}

/// An iterator over chunks of rows.
///
/// Memory does not grow with the number of rows, except for pickles and for arrays in column-major order inside a
/// deflated `.npz` file, which are decoded at once.
pub struct RowReader {
    data: DataRef,
    /// The file with the labels, if that is another one.
    labels: Option<PathBuf>,
    options: ReadOptions,
    opened: Opened,
    /// The names of the file's columns, in their order.
    columns: Option<Vec<String>>,
    /// The names of the classes and their order, if they are matched to columns in another one.
    matched: Option<(Vec<String>, ClassOrder)>,
    decoder: LabelDecoder,
    chunk_rows: usize,
    next_row: usize,
    failed: bool,
}

/// About 4 MB of 32-bit floats.
fn default_chunk_rows(classes: usize) -> usize {
    ((1 << 20) / classes.max(1)).clamp(8, 1 << 16)
}

impl RowReader {
    /// Opens a file, or one split of it.
    ///
    /// # Errors
    /// If the file cannot be read, or does not hold what is asked for.
    pub fn open(data: &DataRef, options: ReadOptions) -> Result<Self> {
        Self::start(data.clone(), None, options)
    }

    /// Opens scores in one file and labels in another.
    ///
    /// # Errors
    /// As [`RowReader::open`], and if the two do not have the same number of rows.
    pub fn open_pair(scores: &Path, labels: &Path, options: ReadOptions) -> Result<Self> {
        Self::start(DataRef::parse(scores), Some(labels.to_path_buf()), options)
    }

    fn start(data: DataRef, labels: Option<PathBuf>, options: ReadOptions) -> Result<Self> {
        let mut opened = open(&data, labels.as_deref(), &options)?;
        if options.columns.groups.is_some() {
            // The groups are read with the columns that are handed through, as the last of them.
            opened.ids.pop();
        }
        let path = data.path();
        let names = match (opened.class_names.take(), options.class_names.clone()) {
            (Some(found), Some(given)) if found != given => {
                return Err(Error::OtherClassNames {
                    path: path.to_path_buf(),
                    found: columns::show(&found),
                    given: columns::show(&given),
                });
            }
            (found, given) => found.or(given),
        };
        if let Some(names) = &names {
            Error::check_name_count(path, names.len(), opened.classes)?;
            let mut seen = HashSet::new();
            if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
                return Err(Error::duplicate(path, clean(name)));
            }
        }
        let chunk_rows = options.chunk_rows.map(|rows| rows.max(1));
        Ok(Self {
            data,
            labels,
            matched: None,
            decoder: LabelDecoder::new(names.as_deref(), options.ignored_label.as_deref()),
            columns: names,
            chunk_rows: chunk_rows.unwrap_or_else(|| default_chunk_rows(opened.classes)),
            next_row: 0,
            failed: false,
            options,
            opened,
        })
    }

    /// Matches the columns to known classes, such as those of a model: by name if the file or the options name the
    /// columns, so that rows come in the order of `known`; otherwise by position. `owner` says whose classes these are.
    ///
    /// # Errors
    /// If the columns have other names, or another number of them.
    pub fn match_classes(&mut self, known: &[String], owner: &'static str) -> Result<()> {
        let classes = self.opened.classes;
        if known.len() != classes {
            return Err(self.locate(ordercal::Error::WrongClasses {
                expected: known.len(),
                found: classes,
            }));
        }
        let Some(names) = &self.columns else {
            let ignored = self.options.ignored_label.as_deref();
            self.decoder = LabelDecoder::new(Some(known), ignored);
            self.columns = Some(known.to_vec());
            return Ok(());
        };
        let order = match_class_names(names, known, owner).map_err(|e| self.locate(e))?;
        self.matched = order.map(|columns| (known.to_vec(), ClassOrder::new(columns)));
        Ok(())
    }

    fn locate(&self, source: ordercal::Error) -> Error {
        Error::Data {
            path: self.path().to_path_buf(),
            split: self.opened.split.clone(),
            source,
        }
    }

    /// The file with the scores.
    pub fn path(&self) -> &Path {
        self.data.path()
    }

    fn labels_path(&self) -> &Path {
        self.labels.as_deref().unwrap_or(self.path())
    }

    /// What the scores are.
    pub fn kind(&self) -> ScoreKind {
        self.opened.kind
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.opened.classes
    }

    /// The number of rows, if the file says it; csv and Arrow files do not.
    pub fn known_rows(&self) -> Option<usize> {
        self.opened.rows
    }

    /// The number of rows; reads the whole file once if it does not say it.
    ///
    /// # Errors
    /// If the file cannot be read to its end.
    pub fn count_rows(&mut self) -> Result<usize> {
        if let Some(rows) = self.opened.rows {
            return Ok(rows);
        }
        let mut again = open(&self.data, self.labels.as_deref(), &self.options)?.source;
        let mut count = 0;
        while let Some(rows) = again.next_rows(self.chunk_rows)? {
            count += rows.scores.rows();
        }
        self.opened.rows = Some(count);
        Ok(count)
    }

    /// Whether there are labels.
    pub fn has_labels(&self) -> bool {
        self.opened.has_labels
    }

    /// The names of the classes in the order of the rows' scores: those of the file, of the options, or those that
    /// the columns were [matched](Self::match_classes) to.
    pub fn class_names(&self) -> Option<&[String]> {
        let matched = self.matched.as_ref().map(|(names, _)| names);
        matched.or(self.columns.as_ref()).map(Vec::as_slice)
    }

    /// Columns or arrays that are not read although their names look like labels or weights.
    pub fn ignored(&self) -> &[String] {
        &self.opened.ignored
    }

    /// The split that is read, if the file has splits.
    pub fn split(&self) -> Option<&str> {
        self.opened.split.as_deref()
    }

    /// The names and types of the columns that are handed through.
    pub fn ids(&self) -> &[(String, IdType)] {
        &self.opened.ids
    }

    fn decode(&mut self, rows: RawRows) -> Result<RowChunk> {
        let first_row = self.next_row;
        self.next_row += rows.scores.rows();
        let labels = rows
            .labels
            .map(|labels| self.decoder.decode(self.labels_path(), labels, first_row));
        let (mut labels, mut shares) = match labels.transpose()? {
            None => (None, None),
            Some(Labels::Classes(classes)) => (Some(classes), None),
            Some(Labels::Shares(shares)) => (None, Some(shares)),
        };
        let mut scores = rows.scores;
        let mut ids: Vec<IdValues> = rows.ids.into_iter().map(IdValues::from_array).collect();
        let groups = self.options.columns.groups.as_ref().and_then(|_| ids.pop());
        if let Some((_, order)) = &self.matched {
            scores = scores.with_columns(&order.columns);
            shares = shares.map(|shares| shares.select(Axis(1), &order.columns));
            if let Some(labels) = &mut labels {
                order.relabel(labels);
            }
        }
        let chunk = RowChunk {
            path: self.path().to_path_buf(),
            labels_path: self.labels_path().to_path_buf(),
            split: self.opened.split.clone(),
            kind: self.opened.kind,
            first_row,
            scores: ScoreMatrix::from_array(scores),
            labels,
            shares,
            weights: rows.weights.map(|w| labels::to_f64(&w.values)),
            groups,
            ids,
            kept: None,
        };
        Ok(match self.options.ignored_label {
            Some(_) => chunk.without_ignored(),
            None => chunk,
        })
    }

    /// Whether the scores of so many rows may be in memory, as 64-bit floats at most.
    fn check_memory(&self, rows: usize) -> Result<()> {
        let bytes = rows.saturating_mul(8 * self.opened.classes);
        memory::check("the scores of all rows", bytes).map_err(|e| self.locate(e))
    }

    /// All remaining rows as one chunk.
    pub(crate) fn collect_rows(mut self) -> Result<RowChunk> {
        // Where the file does not say how many rows it has, what is in memory already is compared with the limit.
        let at_once = match self.opened.rows {
            Some(rows) => {
                self.check_memory(rows)?;
                usize::MAX
            }
            None => 16 * self.chunk_rows,
        };
        let Some(mut all) = self.opened.source.next_rows(at_once)? else {
            return Err(self.locate(ordercal::Error::NoRows));
        };
        while let Some(more) = self.opened.source.next_rows(at_once)? {
            all.append(more);
            self.check_memory(all.scores.rows())?;
        }
        let chunk = self.decode(all)?;
        match chunk.is_empty() {
            false => Ok(chunk),
            true => Err(chunk.locate(ordercal::Error::NoRows)),
        }
    }
}

impl Iterator for RowReader {
    type Item = Result<RowChunk>;

    /// The next chunk; `None` after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        loop {
            let rows = self.opened.source.next_rows(self.chunk_rows).transpose()?;
            let chunk = rows.and_then(|rows| self.decode(rows));
            self.failed = chunk.is_err();
            // All of its labels may be ones to ignore.
            if !chunk.as_ref().is_ok_and(RowChunk::is_empty) {
                return Some(chunk);
            }
        }
    }
}

/// Opens a file, perhaps with labels from another one.
fn open(data: &DataRef, labels: Option<&Path>, options: &ReadOptions) -> Result<Opened> {
    let Some(labels) = labels else {
        return row_source::open(data, options);
    };
    let mut alone = options.clone().with_labels(LabelNeed::Ignored);
    // That one is in the other file.
    alone.columns.label = None;
    let opened = row_source::open(data, &alone)?;
    let labels = row_source::open_labels(labels, options)?;
    let rows = opened.rows.or(labels.shape().first().copied());
    row_source::check_labels(&labels, rows.unwrap_or(0), opened.classes)?;
    Ok(Opened {
        has_labels: true,
        source: Box::new(row_source::PairedSource {
            rows: opened.source,
            labels,
            read: 0,
        }),
        ..opened
    })
}

//! Reading a file in chunks, so that memory does not grow with the number of rows.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ordercal::ScoreKind;

use crate::array::Values;
use crate::choice::ColumnChoice;
use crate::data_ref::DataRef;
use crate::error::{Error, Result, clean};
use crate::formats::Format;
use crate::ids::{IdType, IdValues};
use crate::labels::{self, LabelDecoder, NameCollector};
use crate::row_chunk::{RowChunk, ScoreMatrix};
use crate::row_source::{self, Opened, RawRows, RowSource};

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
///
/// ```
/// use ordercal::ScoreKind;
/// use ordercal_io::{LabelNeed, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_kind(ScoreKind::Probs)
///     .with_labels(LabelNeed::Required);
/// assert_eq!(options.kind, Some(ScoreKind::Probs));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the scores are, if their name does not say it; logits by default.
    pub kind: Option<ScoreKind>,
    /// What to do about labels.
    pub labels: LabelNeed,
    /// The names of the classes, which labels may use; by default those of the file.
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

impl ReadOptions {
    /// Says what the scores are.
    #[must_use]
    pub fn with_kind(self, kind: impl Into<Option<ScoreKind>>) -> Self {
        Self {
            kind: kind.into(),
            ..self
        }
    }

    /// Says what to do about labels.
    #[must_use]
    pub fn with_labels(self, labels: LabelNeed) -> Self {
        Self { labels, ..self }
    }

    /// Gives the format of files whose ending does not tell it.
    #[must_use]
    pub fn with_format(self, format: impl Into<Option<Format>>) -> Self {
        Self {
            format: format.into(),
            ..self
        }
    }

    /// Says which columns are what.
    #[must_use]
    pub fn with_columns(self, columns: ColumnChoice) -> Self {
        Self { columns, ..self }
    }

    /// Leaves out the rows with a label.
    #[must_use]
    pub fn with_ignored_label(self, label: impl Into<Option<String>>) -> Self {
        Self {
            ignored_label: label.into(),
            ..self
        }
    }

    /// Sets the most rows in a chunk.
    #[must_use]
    pub fn with_chunk_rows(self, rows: usize) -> Self {
        Self {
            chunk_rows: Some(rows.max(1)),
            ..self
        }
    }

    /// Gives the names of the classes.
    #[must_use]
    pub fn with_class_names(self, names: impl Into<Option<Vec<String>>>) -> Self {
        Self {
            class_names: names.into(),
            ..self
        }
    }
}

/// Where the rows come from, so that they can be read again.
enum Origin {
    Data(DataRef),
    Pair { scores: PathBuf, labels: PathBuf },
}

/// An iterator over chunks of rows.
///
/// Memory does not grow with the number of rows, except for pickles and for arrays in column-major order inside a
/// deflated `.npz` file, which are decoded at once.
///
/// ```
/// use ndarray::array;
/// use ordercal::ScoreKind;
/// use ordercal_io::{DataRef, OutputSpec, ReadOptions, RowReader, ScoreWriter};
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("logits.npy");
/// let mut writer = ScoreWriter::create(&path, OutputSpec::new(ScoreKind::Logits, 2).with_rows(3))?;
/// writer.write_f32(array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].view())?;
/// writer.finish()?;
///
/// let options = ReadOptions::default().with_chunk_rows(2);
/// let reader = RowReader::open(&DataRef::new(&path), options)?;
/// let sizes: Vec<usize> = reader.map(|rows| rows.unwrap().len()).collect();
/// assert_eq!(sizes, [2, 1]);
/// # Ok::<(), ordercal_io::Error>(())
/// ```
pub struct RowReader {
    origin: Origin,
    options: ReadOptions,
    source: Box<dyn RowSource>,
    /// The first rows, if they were already read to look at their labels.
    pending: Option<RawRows>,
    kind: ScoreKind,
    classes: usize,
    rows: Option<usize>,
    has_labels: bool,
    class_names: Option<Vec<String>>,
    split: Option<String>,
    ids: Vec<(String, IdType)>,
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
        Self::start(Origin::Data(data.clone()), options)
    }

    /// Opens scores in one file and labels in another.
    ///
    /// # Errors
    /// As [`RowReader::open`], and if the two do not have the same number of rows.
    pub fn open_pair(scores: &Path, labels: &Path, options: ReadOptions) -> Result<Self> {
        let origin = Origin::Pair {
            scores: scores.to_path_buf(),
            labels: labels.to_path_buf(),
        };
        Self::start(origin, options)
    }

    fn start(origin: Origin, options: ReadOptions) -> Result<Self> {
        let opened = open_origin(&origin, &options)?;
        let mut reader = Self {
            kind: opened.kind,
            classes: opened.classes,
            rows: opened.rows,
            has_labels: opened.has_labels,
            class_names: options.class_names.clone().or(opened.class_names),
            split: opened.split,
            ids: opened.ids,
            source: opened.source,
            pending: None,
            decoder: LabelDecoder::new(None, None),
            chunk_rows: options
                .chunk_rows
                .unwrap_or_else(|| default_chunk_rows(opened.classes)),
            next_row: 0,
            failed: false,
            origin,
            options,
        };
        match &reader.class_names {
            Some(names) if names.len() != reader.classes => {
                return Err(Error::ClassNameCount {
                    path: reader.path().to_path_buf(),
                    found: names.len(),
                    classes: reader.classes,
                });
            }
            Some(names) => check_distinct(reader.path(), names)?,
            None => reader.learn_names()?,
        }
        let ignored = reader.options.ignored_label.as_deref();
        reader.decoder = LabelDecoder::new(reader.class_names.as_deref(), ignored);
        Ok(reader)
    }

    /// If the first labels are names, reads all labels once to learn the names of the classes.
    fn learn_names(&mut self) -> Result<()> {
        if !self.has_labels {
            return Ok(());
        }
        let Some(rows) = self.source.next_rows(self.chunk_rows)? else {
            return Ok(());
        };
        let names = match rows.labels.as_ref().map(|labels| &labels.values) {
            Some(Values::Text(first)) => labels::are_names(first),
            _ => false,
        };
        self.pending = Some(rows);
        if !names {
            return Ok(());
        }
        let ignored = self.options.ignored_label.clone();
        let mut collector = NameCollector::new(self.classes, ignored);
        let mut again = open_origin(&self.origin, &self.options)?.source;
        while let Some(rows) = again.next_rows(self.chunk_rows)? {
            if let Some(Values::Text(labels)) = rows.labels.map(|labels| labels.values)
                && !collector.add(&labels)
            {
                break;
            }
        }
        self.class_names = Some(collector.finish(self.labels_path())?);
        Ok(())
    }

    /// The file with the scores.
    pub fn path(&self) -> &Path {
        match &self.origin {
            Origin::Data(data) => data.path(),
            Origin::Pair { scores, .. } => scores,
        }
    }

    fn labels_path(&self) -> &Path {
        match &self.origin {
            Origin::Data(data) => data.path(),
            Origin::Pair { labels, .. } => labels,
        }
    }

    /// What the scores are.
    pub fn kind(&self) -> ScoreKind {
        self.kind
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The number of rows, if the file says it; csv and Arrow files do not.
    pub fn known_rows(&self) -> Option<usize> {
        self.rows
    }

    /// The number of rows; reads the whole file once if it does not say it.
    ///
    /// # Errors
    /// If the file cannot be read to its end.
    pub fn count_rows(&mut self) -> Result<usize> {
        if let Some(rows) = self.rows {
            return Ok(rows);
        }
        let mut again = open_origin(&self.origin, &self.options)?.source;
        let mut count = 0;
        while let Some(rows) = again.next_rows(self.chunk_rows)? {
            count += rows.scores.rows();
        }
        self.rows = Some(count);
        Ok(count)
    }

    /// Whether there are labels.
    pub fn has_labels(&self) -> bool {
        self.has_labels
    }

    /// The names of the classes: those of the options, of the file, or of the labels.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// The split that is read, if the file has splits.
    pub fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }

    /// The names and types of the columns that are handed through.
    pub fn ids(&self) -> &[(String, IdType)] {
        &self.ids
    }

    fn decode(&mut self, rows: RawRows) -> Result<RowChunk> {
        let first_row = self.next_row;
        self.next_row += rows.scores.rows();
        let labels = rows
            .labels
            .map(|labels| self.decoder.decode(self.labels_path(), labels, first_row));
        let chunk = RowChunk {
            path: self.path().to_path_buf(),
            labels_path: self.labels_path().to_path_buf(),
            split: self.split.clone(),
            kind: self.kind,
            first_row,
            scores: ScoreMatrix::from_array(rows.scores),
            labels: labels.transpose()?,
            weights: rows.weights.map(|w| labels::to_f64(&w.values)),
            ids: rows.ids.into_iter().map(IdValues::from_array).collect(),
            kept: None,
        };
        Ok(match self.options.ignored_label {
            Some(_) => chunk.without_ignored(),
            None => chunk,
        })
    }

    /// All remaining rows as one chunk.
    pub(crate) fn collect_rows(mut self) -> Result<RowChunk> {
        let Some(mut all) = self.next_rows(usize::MAX)? else {
            return Err(Error::Data {
                path: self.path().to_path_buf(),
                split: self.split.clone(),
                source: ordercal::Error::NoRows,
            });
        };
        while let Some(more) = self.next_rows(usize::MAX)? {
            all.append(more);
        }
        let chunk = self.decode(all)?;
        match chunk.is_empty() {
            false => Ok(chunk),
            true => Err(chunk.locate(ordercal::Error::NoRows)),
        }
    }

    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        match self.pending.take() {
            Some(rows) => Ok(Some(rows)),
            None => self.source.next_rows(max),
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
            let rows = self.next_rows(self.chunk_rows).transpose()?;
            let chunk = rows.and_then(|rows| self.decode(rows));
            self.failed = chunk.is_err();
            // All of its labels may be ones to ignore.
            if !chunk.as_ref().is_ok_and(RowChunk::is_empty) {
                return Some(chunk);
            }
        }
    }
}

/// Two classes of one name could not be told apart.
fn check_distinct(path: &Path, names: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(Error::Duplicate {
            path: path.to_path_buf(),
            name: clean(name),
        }),
        None => Ok(()),
    }
}

fn open_origin(origin: &Origin, options: &ReadOptions) -> Result<Opened> {
    match origin {
        Origin::Data(data) => row_source::open(data, options),
        Origin::Pair { scores, labels } => open_pair(scores, labels, options),
    }
}

/// Opens scores in one file and labels in another.
fn open_pair(scores: &Path, labels: &Path, options: &ReadOptions) -> Result<Opened> {
    let mut alone = options.clone().with_labels(LabelNeed::Ignored);
    // That one is in the other file.
    alone.columns.label = None;
    let opened = row_source::open(&DataRef::parse(scores), &alone)?;
    let reader = row_source::open_labels(labels, options)?;
    let rows = opened
        .rows
        .or_else(|| reader.shape().first().copied())
        .unwrap_or(0);
    row_source::check_labels(&reader, rows, opened.classes)?;
    Ok(Opened {
        has_labels: true,
        source: Box::new(row_source::PairedSource::new(opened.source, reader)),
        ..opened
    })
}

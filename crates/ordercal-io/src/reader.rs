//! Reading a file in chunks, so that memory does not grow with the number of rows.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ndarray::Axis;
use ordercal::{ScoreKind, match_class_names, memory};

use crate::choice::ColumnChoice;
use crate::columns;
use crate::data_ref::DataRef;
use crate::error::{Error, Result, clean};
use crate::formats::Format;
use crate::ids::{IdType, IdValues};
use crate::labels::{self, LabelDecoder, Labels};
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

    /// Gives the names of the classes, in the order of the columns.
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
    kind: ScoreKind,
    classes: usize,
    rows: Option<usize>,
    has_labels: bool,
    /// The names of the file's columns, in their order.
    columns: Option<Vec<String>>,
    /// The classes that the columns are matched to, if they stand in another order.
    matched: Option<MatchedClasses>,
    split: Option<String>,
    ignored: Vec<String>,
    ids: Vec<(String, IdType)>,
    decoder: LabelDecoder,
    chunk_rows: usize,
    next_row: usize,
    failed: bool,
}

/// Classes in another order than that of the columns.
struct MatchedClasses {
    names: Vec<String>,
    /// For each class its column.
    columns: Vec<usize>,
    /// For each column its class.
    classes: Vec<i64>,
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
            columns: None,
            matched: None,
            split: opened.split,
            ignored: opened.ignored,
            ids: handed_through(opened.ids, &options),
            source: opened.source,
            decoder: LabelDecoder::new(None, None),
            chunk_rows: options
                .chunk_rows
                .unwrap_or_else(|| default_chunk_rows(opened.classes)),
            next_row: 0,
            failed: false,
            origin,
            options,
        };
        let path = || reader.path().to_path_buf();
        let names = match (opened.class_names, reader.options.class_names.clone()) {
            (Some(found), Some(given)) if found != given => {
                return Err(Error::OtherClassNames {
                    path: path(),
                    found: columns::show(&found),
                    given: columns::show(&given),
                });
            }
            (found, given) => found.or(given),
        };
        if let Some(names) = &names {
            if names.len() != reader.classes {
                return Err(Error::ClassNameCount {
                    path: path(),
                    found: names.len(),
                    classes: reader.classes,
                });
            }
            check_distinct(reader.path(), names)?;
        }
        let ignored = reader.options.ignored_label.as_deref();
        reader.decoder = LabelDecoder::new(names.as_deref(), ignored);
        reader.columns = names;
        Ok(reader)
    }

    /// Matches the columns to known classes, such as those of a model: by name if the file or the options name the
    /// columns, so that rows come in the order of `known`; otherwise by position. `owner` says whose classes these are.
    ///
    /// # Errors
    /// If the columns have other names, or another number of them.
    pub fn match_classes(&mut self, known: &[String], owner: &'static str) -> Result<()> {
        let locate = |source| Error::Data {
            path: self.path().to_path_buf(),
            split: self.split.clone(),
            source,
        };
        if known.len() != self.classes {
            return Err(locate(ordercal::Error::WrongClasses {
                expected: known.len(),
                found: self.classes,
            }));
        }
        let Some(names) = &self.columns else {
            let ignored = self.options.ignored_label.as_deref();
            self.decoder = LabelDecoder::new(Some(known), ignored);
            self.columns = Some(known.to_vec());
            return Ok(());
        };
        let order = match_class_names(names, known, owner).map_err(locate)?;
        self.matched = order.map(|columns| {
            let mut classes = vec![0; columns.len()];
            for (class, &column) in columns.iter().enumerate() {
                classes[column] = class as i64;
            }
            MatchedClasses {
                names: known.to_vec(),
                columns,
                classes,
            }
        });
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

    /// The names of the classes in the order of the rows' scores: those of the file, of the options, or those that
    /// the columns were [matched](Self::match_classes) to.
    pub fn class_names(&self) -> Option<&[String]> {
        let matched = self.matched.as_ref().map(|matched| &matched.names);
        matched.or(self.columns.as_ref()).map(Vec::as_slice)
    }

    /// Columns or arrays that are not read although their names look like labels or weights.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
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
        let (mut labels, mut shares) = match labels.transpose()? {
            None => (None, None),
            Some(Labels::Classes(classes)) => (Some(classes), None),
            Some(Labels::Shares(shares)) => (None, Some(shares)),
        };
        let mut scores = rows.scores;
        let mut ids: Vec<IdValues> = rows.ids.into_iter().map(IdValues::from_array).collect();
        let groups = self.options.columns.groups.as_ref().and_then(|_| ids.pop());
        if let Some(matched) = &self.matched {
            scores = scores.with_columns(&matched.columns);
            shares = shares.map(|shares| shares.select(Axis(1), &matched.columns));
            // A label that is no class stays as it is; the dataset refuses it.
            for label in labels.iter_mut().flatten() {
                let column = usize::try_from(*label).unwrap_or(usize::MAX);
                *label = matched.classes.get(column).copied().unwrap_or(*label);
            }
        }
        let chunk = RowChunk {
            path: self.path().to_path_buf(),
            labels_path: self.labels_path().to_path_buf(),
            split: self.split.clone(),
            kind: self.kind,
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
        let bytes = rows.saturating_mul(8 * self.classes);
        memory::check("the scores of all rows", bytes).map_err(|source| Error::Data {
            path: self.path().to_path_buf(),
            split: self.split.clone(),
            source,
        })
    }

    /// All remaining rows as one chunk.
    pub(crate) fn collect_rows(mut self) -> Result<RowChunk> {
        // Where the file does not say how many rows it has, what is in memory already is compared with the limit.
        let at_once = match self.rows {
            Some(rows) => {
                self.check_memory(rows)?;
                usize::MAX
            }
            None => 16 * self.chunk_rows,
        };
        let Some(mut all) = self.source.next_rows(at_once)? else {
            return Err(Error::Data {
                path: self.path().to_path_buf(),
                split: self.split.clone(),
                source: ordercal::Error::NoRows,
            });
        };
        while let Some(more) = self.source.next_rows(at_once)? {
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
            let rows = self.source.next_rows(self.chunk_rows).transpose()?;
            let chunk = rows.and_then(|rows| self.decode(rows));
            self.failed = chunk.is_err();
            // All of its labels may be ones to ignore.
            if !chunk.as_ref().is_ok_and(RowChunk::is_empty) {
                return Some(chunk);
            }
        }
    }
}

/// The columns that are handed through; the groups, which are read with them, are the last and are not.
fn handed_through(mut ids: Vec<(String, IdType)>, options: &ReadOptions) -> Vec<(String, IdType)> {
    if options.columns.groups.is_some() {
        ids.pop();
    }
    ids
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

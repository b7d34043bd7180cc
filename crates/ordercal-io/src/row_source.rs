//! Sources of rows: what every format is read as.

use std::path::Path;

use ordercal::ScoreKind;

use crate::archive::{Archive, list};
use crate::array::{AnyArray, ElementType, Values};
use crate::array_reader::ArrayReader;
use crate::bundle;
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::formats::{Format, Reading};
use crate::ids::IdType;
use crate::labels::to_f64;
use crate::reader::{LabelNeed, ReadOptions};

/// Rows as they are in the file; labels are not decoded yet.
#[derive(Debug)]
pub(crate) struct RawRows {
    /// N×K, floats.
    pub(crate) scores: AnyArray,
    pub(crate) labels: Option<AnyArray>,
    pub(crate) weights: Option<AnyArray>,
    pub(crate) ids: Vec<AnyArray>,
}

impl RawRows {
    /// Appends the next rows of the same source.
    pub(crate) fn append(&mut self, more: Self) {
        self.scores.append(more.scores);
        for (array, more) in [
            (&mut self.labels, more.labels),
            (&mut self.weights, more.weights),
        ] {
            if let (Some(array), Some(more)) = (array, more) {
                array.append(more);
            }
        }
        for (array, more) in self.ids.iter_mut().zip(more.ids) {
            array.append(more);
        }
    }
}

/// Gives the rows of a file from the first to the last.
pub(crate) trait RowSource: Send {
    /// The next rows, at most `max`; `None` after the last.
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>>;
}

/// A source and what is known before its first row is read.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn RowSource>,
    pub(crate) kind: ScoreKind,
    pub(crate) classes: usize,
    pub(crate) rows: Option<usize>,
    pub(crate) has_labels: bool,
    pub(crate) class_names: Option<Vec<String>>,
    pub(crate) split: Option<String>,
    /// What is not read although its name looks like labels or weights.
    pub(crate) ignored: Vec<String>,
    /// What is handed through.
    pub(crate) ids: Vec<(String, IdType)>,
}

/// Opens the data by the file's ending.
pub(crate) fn open(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let path = data.path();
    let format = Format::find(path, options.format)?;
    let reading = &format.codec().read;
    if !options.columns.ids.is_empty() && !matches!(reading, Reading::Table { .. }) {
        return Err(Error::NotATable {
            path: path.to_path_buf(),
            format,
        });
    }
    let opened = match reading {
        Reading::Array(open) => open_array(data, options, &*open(path)?),
        Reading::Archive(open) => open_archive(data, options, &*open(path)?),
        Reading::Table { open, .. } => open(data, options),
    }?;
    let opened = match !options.columns.soft_labels.is_empty() && !opened.has_labels {
        true if options.labels != LabelNeed::Ignored => SoftSource::wrap(opened),
        _ => opened,
    };
    Ok(if opened.classes == 1 {
        BinarySource::wrap(opened)
    } else {
        opened
    })
}

/// Rows of a table whose columns hold the scores, and behind them the soft labels.
struct SoftSource {
    both: Box<dyn RowSource>,
    classes: usize,
}

impl SoftSource {
    fn wrap(opened: Opened) -> Opened {
        let classes = opened.classes / 2;
        Opened {
            classes,
            has_labels: true,
            source: Box::new(Self {
                both: opened.source,
                classes,
            }),
            ..opened
        }
    }
}

impl RowSource for SoftSource {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        let Some(rows) = self.both.next_rows(max)? else {
            return Ok(None);
        };
        let columns = |from: usize| (from..from + self.classes).collect::<Vec<_>>();
        let mut labels = rows.scores.clone().with_columns(&columns(self.classes));
        if self.classes == 1 {
            // The share of the second of two classes.
            let shares = to_f64(&labels.values);
            let pairs: Vec<f64> = shares.into_iter().flat_map(|s| [1.0 - s, s]).collect();
            labels = AnyArray {
                shape: vec![pairs.len() / 2, 2],
                dtype: ElementType::F64,
                values: Values::F64(pairs),
            };
        }
        Ok(Some(RawRows {
            scores: rows.scores.with_columns(&columns(0)),
            labels: Some(labels),
            ..rows
        }))
    }
}

/// Rows with a single score, that of the second of two classes, as rows of two scores.
struct BinarySource {
    single: Box<dyn RowSource>,
    kind: ScoreKind,
}

impl BinarySource {
    fn wrap(opened: Opened) -> Opened {
        Opened {
            classes: 2,
            source: Box::new(Self {
                single: opened.source,
                kind: opened.kind,
            }),
            ..opened
        }
    }
}

impl RowSource for BinarySource {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        let Some(rows) = self.single.next_rows(max)? else {
            return Ok(None);
        };
        let other = |score: f64| match self.kind {
            ScoreKind::Logits => 0.0,
            ScoreKind::Probs => 1.0 - score,
            // ln(1 − p) from ln p; below −ln 2 the other form would cancel.
            ScoreKind::LogProbs if score > -std::f64::consts::LN_2 => (-score.exp_m1()).ln(),
            ScoreKind::LogProbs => (-score.exp()).ln_1p(),
        };
        let scores = to_f64(&rows.scores.values);
        let pairs: Vec<f64> = scores.into_iter().flat_map(|s| [other(s), s]).collect();
        Ok(Some(RawRows {
            scores: AnyArray {
                shape: vec![pairs.len() / 2, 2],
                dtype: ElementType::F64,
                values: Values::F64(pairs),
            },
            ..rows
        }))
    }
}

/// A file with one array holds scores and nothing else; labels, if needed, must come from another file.
fn open_array(data: &DataRef, options: &ReadOptions, file: &dyn Archive) -> Result<Opened> {
    let path = data.path();
    if let Some(split) = data.split() {
        return Err(bundle::unknown_split(path, split, Vec::new()));
    }
    if options.labels == LabelNeed::Required {
        return Err(Error::NoLabels {
            path: path.to_path_buf(),
            expected: "a second file with the labels (this one holds a single array)".into(),
            present: list(file.entries().iter().map(|e| e.describe())),
        });
    }
    if let Some(name) = &options.columns.groups {
        bundle::named(path, file.entries(), name)?;
    }
    open_arrays(ArraySource {
        scores: file.reader(0)?,
        labels: None,
        weights: None,
        groups: None,
    })
    .map(|opened| Opened {
        kind: options.kind.unwrap_or_default(),
        ..opened
    })
}

fn open_archive(data: &DataRef, options: &ReadOptions, file: &dyn Archive) -> Result<Opened> {
    let path = data.path();
    let pick = bundle::pick(path, file.entries(), data.split(), options)?;
    let reader = |index: Option<usize>| match index {
        Some(index) if options.labels != LabelNeed::Ignored => file.reader(index).map(Some),
        _ => Ok(None),
    };
    let class_names = match pick.set.class_names {
        Some(index) => Some(file.reader(index)?),
        None => None,
    };
    let opened = open_arrays(ArraySource {
        scores: file.reader(pick.scores)?,
        labels: reader(pick.labels)?,
        weights: reader(pick.set.weights)?,
        groups: pick.groups.map(|index| file.reader(index)).transpose()?,
    })?;
    let class_names = match class_names {
        Some(names) => read_names(names, opened.classes.max(2))?,
        None => file.class_names(),
    };
    Ok(Opened {
        kind: pick.kind,
        class_names,
        ignored: bundle::ignored(file.entries(), &pick, options),
        split: pick.set.split,
        ..opened
    })
}

/// Reads the names of the classes, as many as there are classes: text, or integers, which are names unless they just
/// number the columns.
fn read_names(mut reader: ArrayReader, classes: usize) -> Result<Option<Vec<String>>> {
    let path = reader.path().to_path_buf();
    let found = reader.shape().iter().product();
    if found != classes {
        return Err(Error::ClassNameCount {
            path,
            found,
            classes,
        });
    }
    let array = reader.read(usize::MAX)?;
    match array.values {
        Values::Text(names) => Ok(Some(names)),
        Values::Int(numbers) if numbers.iter().enumerate().all(|(i, &n)| n == i as i64) => Ok(None),
        Values::Int(numbers) => Ok(Some(numbers.iter().map(i64::to_string).collect())),
        _ => Err(Error::WrongDtype {
            path,
            array: reader.name().to_owned(),
            found: array.dtype.to_string(),
            expected: "class names are text or integers",
        }),
    }
}

/// Checks the types and shapes of arrays before they are read.
pub(crate) fn open_arrays(arrays: ArraySource) -> Result<Opened> {
    let scores = &arrays.scores;
    let (rows, classes) = match *scores.shape() {
        [rows, classes] => (rows, classes),
        [rows] => (rows, 1),
        _ => {
            return Err(wrong_shape(
                scores,
                "scores are a matrix, one row per example, one column per class".into(),
            ));
        }
    };
    let dtype = scores.dtype();
    // Integers in one column are rather labels.
    if dtype.is_text() || (classes == 1 && !dtype.is_float()) {
        return Err(Error::WrongDtype {
            path: scores.path().to_path_buf(),
            array: scores.name().to_owned(),
            found: dtype.to_string(),
            expected: match dtype.is_text() {
                true => "scores are numbers",
                false => "the scores of two classes in one column are floats",
            },
        });
    }
    if let Some(labels) = &arrays.labels {
        check_labels(labels, rows, classes.max(2))?;
    }
    if let Some(weights) = &arrays.weights {
        check_weights(weights, rows)?;
    }
    if let Some(groups) = &arrays.groups {
        match *groups.shape() {
            [_] | [_, 1] => check_length(groups, rows)?,
            _ => {
                return Err(wrong_shape(
                    groups,
                    format!("groups are one per row, {rows}"),
                ));
            }
        }
    }
    Ok(Opened {
        kind: ScoreKind::default(),
        classes,
        rows: Some(rows),
        has_labels: arrays.labels.is_some(),
        class_names: None,
        split: None,
        ignored: Vec::new(),
        // The type does not matter, because groups are not handed through.
        ids: (arrays.groups.iter())
            .map(|groups| (groups.name().to_owned(), IdType::Text))
            .collect(),
        source: Box::new(arrays),
    })
}

pub(crate) fn check_labels(labels: &ArrayReader, rows: usize, classes: usize) -> Result<()> {
    let text = labels.dtype().is_text();
    match *labels.shape() {
        [_] | [_, 1] => check_length(labels, rows),
        [_, columns] if columns == classes && !text => check_length(labels, rows),
        _ => Err(wrong_shape(
            labels,
            format!(
                "labels are one per row: {rows}, {rows}×1, or a distribution, {rows}×{classes}"
            ),
        )),
    }
}

fn check_weights(weights: &ArrayReader, rows: usize) -> Result<()> {
    if weights.dtype().is_text() {
        return Err(Error::WrongDtype {
            path: weights.path().to_path_buf(),
            array: weights.name().to_owned(),
            found: weights.dtype().to_string(),
            expected: "weights are numbers",
        });
    }
    match *weights.shape() {
        [_] | [_, 1] => check_length(weights, rows),
        _ => Err(wrong_shape(
            weights,
            format!("weights are one per row, {rows}"),
        )),
    }
}

fn check_length(array: &ArrayReader, rows: usize) -> Result<()> {
    let found = array.shape()[0];
    if found == rows {
        return Ok(());
    }
    Err(Error::LengthMismatch {
        path: array.path().to_path_buf(),
        array: array.name().to_owned(),
        found,
        rows,
    })
}

fn wrong_shape(array: &ArrayReader, expected: String) -> Error {
    Error::WrongShape {
        path: array.path().to_path_buf(),
        array: array.name().to_owned(),
        shape: array.shape().to_vec(),
        expected,
    }
}

/// Scores, labels and weights in arrays.
pub(crate) struct ArraySource {
    pub(crate) scores: ArrayReader,
    pub(crate) labels: Option<ArrayReader>,
    pub(crate) weights: Option<ArrayReader>,
    pub(crate) groups: Option<ArrayReader>,
}

impl RowSource for ArraySource {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        let scores = self.scores.read(max)?;
        let rows = scores.rows();
        if rows == 0 {
            return Ok(None);
        }
        let read =
            |array: &mut Option<ArrayReader>| array.as_mut().map(|a| a.read(rows)).transpose();
        Ok(Some(RawRows {
            scores,
            labels: read(&mut self.labels)?,
            weights: read(&mut self.weights)?,
            ids: read(&mut self.groups)?.into_iter().collect(),
        }))
    }
}

/// The rows of one source with labels from another file.
pub(crate) struct PairedSource {
    rows: Box<dyn RowSource>,
    labels: ArrayReader,
    read: usize,
}

impl PairedSource {
    pub(crate) fn new(rows: Box<dyn RowSource>, labels: ArrayReader) -> Self {
        Self {
            rows,
            labels,
            read: 0,
        }
    }
}

impl RowSource for PairedSource {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        let next = self.rows.next_rows(max)?;
        self.read += next.as_ref().map_or(0, |rows| rows.scores.rows());
        let found = self.labels.shape()[0];
        // How many rows a csv file has is known only at its end.
        if self.read > found || (next.is_none() && self.read < found) {
            while let Some(more) = self.rows.next_rows(max)? {
                self.read += more.scores.rows();
            }
            return Err(Error::LengthMismatch {
                path: self.labels.path().to_path_buf(),
                array: self.labels.name().to_owned(),
                found,
                rows: self.read,
            });
        }
        let Some(rows) = next else {
            return Ok(None);
        };
        let labels = self.labels.read(rows.scores.rows())?;
        Ok(Some(RawRows {
            labels: Some(labels),
            ..rows
        }))
    }
}

/// Opens a file of labels: its only array or column, the chosen one, or one with a usual name.
pub(crate) fn open_labels(path: &Path, options: &ReadOptions) -> Result<ArrayReader> {
    let archive = match Format::find(path, options.format)?.codec().read {
        Reading::Array(open) | Reading::Archive(open) => open(path)?,
        Reading::Table { labels, .. } => {
            return Ok(ArrayReader::memory(path, "label", labels(path, options)?));
        }
    };
    let entries = archive.entries();
    let choice = &options.columns;
    let chosen = choice.soft_labels.first().or(choice.label.as_ref());
    let index = match (chosen, entries) {
        (Some(name), _) => bundle::named(path, entries, name)?,
        (None, [_]) => 0,
        (None, several) => bundle::label_alone(path, several)?.ok_or_else(|| Error::NoLabels {
            path: path.to_path_buf(),
            expected: "one array, one named `labels`, or --label-column".into(),
            present: list(several.iter().map(|e| e.describe())),
        })?,
    };
    archive.reader(index)
}

//! Sources of rows: what every format is read as.

use std::path::Path;

use ordercal::ScoreKind;

use crate::archive::{Archive, describe};
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

/// What a table is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Scores, with labels and weights if there are any.
    Scores,
    /// Only labels: those of scores in another file.
    Labels,
}

/// Opens the data by the file's ending.
pub(crate) fn open(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let path = data.path();
    let format = Format::find(path, options.format)?;
    let reading = &format.codec().read;
    if !options.columns.ids.is_empty() && !matches!(reading, Reading::Table(_)) {
        return Err(Error::NotATable {
            path: path.to_path_buf(),
            format,
        });
    }
    let opened = match reading {
        Reading::Array(open) => open_array(data, options, &*open(path)?),
        Reading::Archive(open) => open_archive(data, options, &*open(path)?),
        Reading::Table(open) => open(data, options, Wanted::Scores),
    }?;
    let soft = !options.columns.soft_labels.is_empty() && !opened.has_labels;
    let opened = match soft && options.labels != LabelNeed::Ignored {
        true => with_soft_labels(opened),
        false => opened,
    };
    Ok(match opened.classes {
        1 => with_both_classes(opened),
        _ => opened,
    })
}

/// Rows of another source, changed.
struct Mapped<F> {
    source: Box<dyn RowSource>,
    change: F,
}

impl<F: FnMut(RawRows) -> RawRows + Send> RowSource for Mapped<F> {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        Ok(self.source.next_rows(max)?.map(&mut self.change))
    }
}

/// Splits rows whose columns are the scores, and behind them the soft labels.
fn with_soft_labels(opened: Opened) -> Opened {
    let classes = opened.classes / 2;
    let change = move |rows: RawRows| {
        let columns = |from: usize| (from..from + classes).collect::<Vec<_>>();
        let labels = rows.scores.clone().with_columns(&columns(classes));
        RawRows {
            scores: rows.scores.with_columns(&columns(0)),
            // A single column is the share of the second of two classes.
            labels: Some(match classes {
                1 => pairs(&labels, |share| 1.0 - share),
                _ => labels,
            }),
            ..rows
        }
    };
    Opened {
        classes,
        has_labels: true,
        source: Box::new(Mapped {
            source: opened.source,
            change,
        }),
        ..opened
    }
}

/// Makes rows of two scores of those with a single one, that of the second of two classes.
fn with_both_classes(opened: Opened) -> Opened {
    let kind = opened.kind;
    let change = move |rows: RawRows| RawRows {
        scores: both_classes(kind, &rows.scores),
        ..rows
    };
    Opened {
        classes: 2,
        source: Box::new(Mapped {
            source: opened.source,
            change,
        }),
        ..opened
    }
}

/// The scores of two classes, given those of the second.
pub(crate) fn both_classes(kind: ScoreKind, second: &AnyArray) -> AnyArray {
    pairs(second, |score| match kind {
        ScoreKind::Logits => 0.0,
        ScoreKind::Probs => 1.0 - score,
        // ln(1 − p) from ln p; below −ln 2 the other form would cancel.
        ScoreKind::LogProbs if score > -std::f64::consts::LN_2 => (-score.exp_m1()).ln(),
        ScoreKind::LogProbs => (-score.exp()).ln_1p(),
    })
}

/// Rows of two values, of which the second is given.
fn pairs(second: &AnyArray, first: impl Fn(f64) -> f64) -> AnyArray {
    let values = to_f64(&second.values);
    let pairs: Vec<f64> = values.into_iter().flat_map(|v| [first(v), v]).collect();
    AnyArray {
        shape: vec![pairs.len() / 2, 2],
        dtype: ElementType::F64,
        values: Values::F64(pairs),
    }
}

/// A file with one array holds scores and nothing else; labels, if needed, must come from another file.
fn open_array(data: &DataRef, options: &ReadOptions, file: &dyn Archive) -> Result<Opened> {
    let path = data.path();
    if let Some(split) = data.split() {
        return Err(bundle::unknown_split(path, split, Vec::new()));
    }
    if options.labels == LabelNeed::Required {
        let expected = "a second file with the labels (this one holds a single array)";
        return Err(Error::no_labels(path, expected, describe(file.entries())));
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
    Error::check_name_count(&path, reader.shape().iter().product(), classes)?;
    let array = reader.read(usize::MAX)?;
    match array.values {
        Values::Text(names) => Ok(Some(names)),
        Values::Int(numbers) if numbers.iter().enumerate().all(|(i, &n)| n == i as i64) => Ok(None),
        Values::Int(numbers) => Ok(Some(numbers.iter().map(i64::to_string).collect())),
        _ => Err(Error::wrong_type(
            &path,
            reader.name(),
            array.dtype,
            "class names are text or integers",
        )),
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
        return Err(Error::wrong_type(
            scores.path(),
            scores.name(),
            dtype,
            match dtype.is_text() {
                true => "scores are numbers",
                false => "the scores of two classes in one column are floats",
            },
        ));
    }
    if let Some(labels) = &arrays.labels {
        check_labels(labels, rows, classes.max(2))?;
    }
    if let Some(weights) = &arrays.weights {
        if weights.dtype().is_text() {
            let (path, name) = (weights.path(), weights.name());
            let expected = "weights are numbers";
            return Err(Error::wrong_type(path, name, weights.dtype(), expected));
        }
        check_column(weights, rows, || format!("weights are one per row, {rows}"))?;
    }
    if let Some(groups) = &arrays.groups {
        check_column(groups, rows, || format!("groups are one per row, {rows}"))?;
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
    match *labels.shape() {
        [_, columns] if columns == classes && !labels.dtype().is_text() => {
            check_length(labels, rows)
        }
        _ => check_column(labels, rows, || {
            format!("labels are one per row: {rows}, {rows}×1, or a distribution, {rows}×{classes}")
        }),
    }
}

/// Checks that an array has one value per row.
fn check_column(array: &ArrayReader, rows: usize, expected: impl FnOnce() -> String) -> Result<()> {
    match *array.shape() {
        [_] | [_, 1] => check_length(array, rows),
        _ => Err(wrong_shape(array, expected())),
    }
}

fn check_length(array: &ArrayReader, rows: usize) -> Result<()> {
    match array.shape()[0] {
        found if found == rows => Ok(()),
        found => Err(length_mismatch(array, found, rows)),
    }
}

fn length_mismatch(array: &ArrayReader, found: usize, rows: usize) -> Error {
    Error::LengthMismatch {
        path: array.path().to_path_buf(),
        array: array.name().to_owned(),
        found,
        rows,
    }
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
    pub(crate) rows: Box<dyn RowSource>,
    pub(crate) labels: ArrayReader,
    /// How many rows were read.
    pub(crate) read: usize,
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
            return Err(length_mismatch(&self.labels, found, self.read));
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
        Reading::Table(open) => {
            let mut source = open(&DataRef::new(path), options, Wanted::Labels)?.source;
            let mut all = AnyArray::vector(ElementType::I64, Values::Int(Vec::new()));
            while let Some(rows) = source.next_rows(usize::MAX)? {
                let labels = rows.labels.expect("a table of labels has labels");
                match all.rows() {
                    0 => all = labels,
                    _ => all.append(labels),
                }
            }
            return Ok(ArrayReader::memory(path, "label", all));
        }
    };
    let entries = archive.entries();
    let choice = &options.columns;
    let chosen = choice.soft_labels.first().or(choice.label.as_ref());
    let index = match (chosen, entries) {
        (Some(name), _) => bundle::named(path, entries, name)?,
        (None, [_]) => 0,
        (None, several) => bundle::label_alone(path, several)?.ok_or_else(|| {
            let expected = "one array, one named `labels`, or --label-column";
            Error::no_labels(path, expected, describe(several))
        })?,
    };
    archive.reader(index)
}

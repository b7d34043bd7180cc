//! Blocks of rows, the one thing that every format can give.

use std::path::Path;

use ordercal::ScoreKind;

use crate::archive::{Archive, list};
use crate::array::{AnyArray, Values};
use crate::bundle;
use crate::error::{Error, Result};
use crate::npy::Npy;
use crate::npz::Npz;
use crate::pickle::Pickle;
use crate::raw::ArrayReader;
use crate::reader::{LabelNeed, ReadOptions};
use crate::safetensors::Safetensors;
use crate::source::{DataRef, Format};

/// Some rows as they are in the file; labels are not decoded yet.
#[derive(Debug)]
pub(crate) struct Block {
    /// N×K, floats.
    pub(crate) scores: AnyArray,
    pub(crate) labels: Option<AnyArray>,
    pub(crate) weights: Option<AnyArray>,
}

impl Block {
    /// Adds the rows of the next block of the same source.
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
    }
}

/// Something that gives rows from the first to the last.
pub(crate) trait BlockSource: Send {
    /// At most `max` rows; `None` after the last.
    fn next_block(&mut self, max: usize) -> Result<Option<Block>>;
}

/// A source and what is known of it before the first row.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn BlockSource>,
    pub(crate) kind: ScoreKind,
    pub(crate) classes: usize,
    pub(crate) rows: Option<usize>,
    pub(crate) has_labels: bool,
    pub(crate) class_names: Option<Vec<String>>,
    pub(crate) split: Option<String>,
}

/// Opens the data by the file's ending.
pub(crate) fn open(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let path = data.path();
    match Format::of(path)? {
        Format::Npy => open_npy(data, options),
        Format::Npz => open_bundle(data, options, &Npz::open(path)?, None),
        Format::Safetensors => {
            let file = Safetensors::open(path)?;
            let names = file.class_names().map(<[String]>::to_vec);
            open_bundle(data, options, &file, names)
        }
        Format::Pickle => open_bundle(data, options, &Pickle::open(path)?, None),
        format @ (Format::Csv | Format::CsvGz) => {
            crate::csv::open(data, options, format == Format::CsvGz)
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => crate::parquet::open(data, options),
        #[cfg(feature = "parquet")]
        Format::Arrow => crate::arrow::open(data, options),
        #[cfg(not(feature = "parquet"))]
        format @ (Format::Parquet | Format::Arrow) => Err(Error::FeatureOff {
            path: path.to_path_buf(),
            format,
            feature: "parquet",
        }),
    }
}

/// A `.npy` file is scores and nothing else; labels, if needed, must come from another file.
fn open_npy(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let path = data.path();
    if let Some(split) = data.split() {
        return Err(bundle::unknown_split(path, split, Vec::new()));
    }
    let file = Npy::open(path)?;
    if options.labels == LabelNeed::Required {
        return Err(Error::NoLabels {
            path: path.to_path_buf(),
            expected: "a second file with the labels (a .npy file holds one array)".into(),
            present: list(file.entries().iter().map(|e| e.describe())),
        });
    }
    open_arrays(ArrayBlocks {
        scores: file.reader(0)?,
        labels: None,
        weights: None,
    })
    .map(|opened| Opened {
        kind: options.kind.unwrap_or_default(),
        ..opened
    })
}

fn open_bundle(
    data: &DataRef,
    options: &ReadOptions,
    file: &dyn Archive,
    class_names: Option<Vec<String>>,
) -> Result<Opened> {
    let path = data.path();
    let pick = bundle::pick(
        path,
        file.entries(),
        data.split(),
        options.kind,
        options.labels,
    )?;
    let labels = pick
        .set
        .labels
        .filter(|_| options.labels != LabelNeed::Ignored);
    let weights = pick
        .set
        .weights
        .filter(|_| options.labels != LabelNeed::Ignored);
    let class_names = match pick.set.class_names {
        Some(index) => Some(read_names(file.reader(index)?)?),
        None => class_names,
    };
    let opened = open_arrays(ArrayBlocks {
        scores: file.reader(pick.scores)?,
        labels: labels.map(|index| file.reader(index)).transpose()?,
        weights: weights.map(|index| file.reader(index)).transpose()?,
    })?;
    Ok(Opened {
        kind: pick.kind,
        class_names,
        split: pick.set.split,
        ..opened
    })
}

fn read_names(mut reader: ArrayReader) -> Result<Vec<String>> {
    let path = reader.path().to_path_buf();
    let array = reader.read(usize::MAX)?;
    match array.values {
        Values::Text(names) => Ok(names),
        _ => Err(Error::WrongDtype {
            path,
            array: reader.name().to_owned(),
            found: array.dtype.to_string(),
            expected: "class names are text",
        }),
    }
}

/// Checks that arrays fit together, by their shapes, before anything is read.
pub(crate) fn open_arrays(arrays: ArrayBlocks) -> Result<Opened> {
    let scores = &arrays.scores;
    let &[rows, classes] = scores.shape() else {
        return Err(wrong_shape(
            scores,
            "scores are a matrix, one row per example, one column per class".into(),
        ));
    };
    if !scores.dtype().is_float() {
        return Err(Error::WrongDtype {
            path: scores.path().to_path_buf(),
            array: scores.name().to_owned(),
            found: scores.dtype().to_string(),
            expected: "scores are floats: convert them with .astype(\"float32\")",
        });
    }
    if let Some(labels) = &arrays.labels {
        check_labels(labels, rows, classes)?;
    }
    if let Some(weights) = &arrays.weights {
        check_weights(weights, rows)?;
    }
    Ok(Opened {
        kind: ScoreKind::default(),
        classes,
        rows: Some(rows),
        has_labels: arrays.labels.is_some(),
        class_names: None,
        split: None,
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
            format!("labels are one per row: {rows}, {rows}×1, or one-hot {rows}×{classes}"),
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

/// Arrays read side by side.
pub(crate) struct ArrayBlocks {
    pub(crate) scores: ArrayReader,
    pub(crate) labels: Option<ArrayReader>,
    pub(crate) weights: Option<ArrayReader>,
}

impl BlockSource for ArrayBlocks {
    fn next_block(&mut self, max: usize) -> Result<Option<Block>> {
        let scores = self.scores.read(max)?;
        let rows = scores.rows();
        if rows == 0 {
            return Ok(None);
        }
        let read =
            |array: &mut Option<ArrayReader>| array.as_mut().map(|a| a.read(rows)).transpose();
        Ok(Some(Block {
            scores,
            labels: read(&mut self.labels)?,
            weights: read(&mut self.weights)?,
        }))
    }
}

/// Rows of one source with labels from an array of another file.
pub(crate) struct Paired {
    rows: Box<dyn BlockSource>,
    labels: ArrayReader,
    read: usize,
}

impl Paired {
    pub(crate) fn new(rows: Box<dyn BlockSource>, labels: ArrayReader) -> Self {
        Self {
            rows,
            labels,
            read: 0,
        }
    }
}

impl BlockSource for Paired {
    fn next_block(&mut self, max: usize) -> Result<Option<Block>> {
        let block = self.rows.next_block(max)?;
        self.read += block.as_ref().map_or(0, |b| b.scores.rows());
        let found = self.labels.shape()[0];
        // A csv file says how many rows it has only when it ends.
        if self.read > found || (block.is_none() && self.read < found) {
            return Err(Error::LengthMismatch {
                path: self.labels.path().to_path_buf(),
                array: self.labels.name().to_owned(),
                found,
                rows: self.read,
            });
        }
        let Some(block) = block else {
            return Ok(None);
        };
        let labels = self.labels.read(block.scores.rows())?;
        Ok(Some(Block {
            labels: Some(labels),
            ..block
        }))
    }
}

/// A labels file that goes with a scores file: an array of any name if it is the only one, else `labels`.
pub(crate) fn open_labels(path: &Path) -> Result<ArrayReader> {
    let archive: Box<dyn Archive> = match Format::of(path)? {
        Format::Npy => Box::new(Npy::open(path)?),
        Format::Npz => Box::new(Npz::open(path)?),
        Format::Safetensors => Box::new(Safetensors::open(path)?),
        Format::Pickle => Box::new(Pickle::open(path)?),
        format @ (Format::Csv | Format::CsvGz) => {
            let column = crate::csv::read_labels(path, format == Format::CsvGz)?;
            return Ok(ArrayReader::memory(path, "label", column));
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let column = crate::parquet::read_labels(path)?;
            return Ok(ArrayReader::memory(path, "label", column));
        }
        #[cfg(feature = "parquet")]
        Format::Arrow => {
            let column = crate::arrow::read_labels(path)?;
            return Ok(ArrayReader::memory(path, "label", column));
        }
        #[cfg(not(feature = "parquet"))]
        format @ (Format::Parquet | Format::Arrow) => {
            return Err(Error::FeatureOff {
                path: path.to_path_buf(),
                format,
                feature: "parquet",
            });
        }
    };
    let entries = archive.entries();
    let index = match entries {
        [_] => 0,
        several => several
            .iter()
            .position(|e| e.name == "labels")
            .ok_or_else(|| Error::NoLabels {
                path: path.to_path_buf(),
                expected: "one array, or one named `labels`".into(),
                present: list(several.iter().map(|e| e.describe())),
            })?,
    };
    archive.reader(index)
}

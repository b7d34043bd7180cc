//! What can go wrong with a file.

use std::io;
use std::path::{Path, PathBuf};

use ordercal::words::{count, printable};

use crate::formats::Format;

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file cannot be read or written.
///
/// Every message starts with the name of the file. Rows and columns are counted from 0 in every format, as in
/// numpy. For csv files, messages also give the line, counted from 1 as editors do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist.
    #[error("{}: there is no such file", path.display())]
    NotFound { path: PathBuf },
    /// The path names a folder.
    #[error("{}: this is a folder; name a file", path.display())]
    IsDirectory { path: PathBuf },
    /// The operating system refused.
    #[error("{}: cannot {action} the file: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    /// The ending of the file is not that of a format that can be read or written.
    #[error("{}: the file's ending is not known; {hint}", path.display())]
    UnknownFormat { path: PathBuf, hint: String },
    /// This build was made without the code for the format.
    #[error("{}: this build has no support for {format} files; rebuild it with the feature `{feature}`", path.display())]
    FeatureOff {
        path: PathBuf,
        format: Format,
        feature: &'static str,
    },
    /// The file has no bytes.
    #[error("{}: the file is empty", path.display())]
    Empty { path: PathBuf },
    /// The first bytes are not those of the format.
    #[error("{}: the file is not in {format} format: it starts with the bytes {found:02x?}", path.display())]
    WrongMagic {
        path: PathBuf,
        format: Format,
        found: Vec<u8>,
    },
    /// The first bytes are not those of a compressed file.
    #[error("{}: the file is not compressed as its ending {ending} says: it starts with the bytes {found:02x?}", path.display())]
    NotPacked {
        path: PathBuf,
        ending: &'static str,
        found: Vec<u8>,
    },
    /// A compressed file that cannot be unpacked.
    #[error("{}: the file cannot be unpacked: {message}", path.display())]
    BadPacking { path: PathBuf, message: String },
    /// The file is shorter than it should be.
    #[error(
        "{}: {what} needs {needed} bytes from offset {offset}, but only {available} are there; \
         the file is cut short or damaged", path.display()
    )]
    Truncated {
        path: PathBuf,
        what: String,
        offset: u64,
        needed: u128,
        available: u64,
    },
    /// The file breaks the rules of its format at a known place.
    #[error("{}: byte {offset} of {what}: {problem}", path.display())]
    Malformed {
        path: PathBuf,
        what: String,
        offset: u64,
        problem: &'static str,
    },
    /// A library that decodes the format refused the file.
    #[error("{}: the {format} data cannot be decoded: {message}", path.display())]
    Damaged {
        path: PathBuf,
        format: Format,
        message: String,
    },
    /// A pickle asks for something outside the list of harmless numpy constructors.
    #[error(
        "{}: byte {offset}: the pickle asks for `{module}.{name}`, which is not run here; \
         only numpy arrays in tuples, lists and dicts are read", path.display()
    )]
    PickleForbidden {
        path: PathBuf,
        offset: u64,
        module: String,
        name: String,
    },
    /// An array of Python objects.
    #[error(
        "{}: `{array}` is an array of Python objects; \
         convert it with .astype(\"float32\") (scores) or .astype(str) (labels) and save it again", path.display()
    )]
    ObjectArray { path: PathBuf, array: String },
    /// An array or column of a type that does not fit its role.
    #[error("{}: `{array}` has type {found}, but {expected}", path.display())]
    WrongDtype {
        path: PathBuf,
        array: String,
        found: String,
        expected: &'static str,
    },
    /// An array of a shape that does not fit its role.
    #[error("{}: `{array}` has shape {shape:?}, but {expected}", path.display())]
    WrongShape {
        path: PathBuf,
        array: String,
        shape: Vec<usize>,
        expected: String,
    },
    /// Labels or weights of another length than the scores.
    #[error(
        "{}: `{array}` has {}, but the scores have {}",
        path.display(), count(*found, "row", "rows"), count(*rows, "row", "rows")
    )]
    LengthMismatch {
        path: PathBuf,
        array: String,
        found: usize,
        rows: usize,
    },
    /// No array or column with scores.
    #[error("{}: no scores found: expected {expected}; the file holds {present}", path.display())]
    NoScores {
        path: PathBuf,
        expected: String,
        present: String,
    },
    /// Labels are needed but there are none.
    #[error("{}: no labels found: expected {expected}; the file holds {present}", path.display())]
    NoLabels {
        path: PathBuf,
        expected: String,
        present: String,
    },
    /// There are several kinds of scores.
    #[error("{}: both `{first}` and `{second}` are there; choose one by saying the kind of scores", path.display())]
    AmbiguousScores {
        path: PathBuf,
        first: String,
        second: String,
    },
    /// There are several columns or arrays that may be the labels.
    #[error("{}: both `{first}` and `{second}` may be the labels; choose one with --label-column", path.display())]
    AmbiguousLabels {
        path: PathBuf,
        first: String,
        second: String,
    },
    /// A split that the file does not have.
    #[error("{}: there is no split `{split}`; {hint}", path.display())]
    UnknownSplit {
        path: PathBuf,
        split: String,
        hint: String,
        known: Vec<String>,
    },
    /// The file has several splits and none was picked.
    #[error("{}: the file holds the splits {}; pick one, as in {}#{}",
        path.display(), known.join(", "), path.display(), known[0])]
    SplitNeeded { path: PathBuf, known: Vec<String> },
    /// A file with models of groups in the place of one model.
    #[error(
        "{}: this file holds models of groups, not one model: `ordercal apply`, `evaluate` and `monitor` take it, and \
         ordercal.GroupedModel.load in Python",
        path.display()
    )]
    GroupedModels { path: PathBuf },
    /// Columns were asked for of a format that has none, or to be written to one.
    #[error("{}: a {format} file has no columns to hand through; use csv, jsonl, parquet or arrow", path.display())]
    NotATable { path: PathBuf, format: Format },
    /// A table without a column that must be there.
    #[error("{}: there is no column `{column}`; the columns are {present}", path.display())]
    MissingColumn {
        path: PathBuf,
        column: String,
        present: String,
    },
    /// Two columns or arrays with one name.
    #[error("{}: there are two of the name `{name}`", path.display())]
    Duplicate { path: PathBuf, name: String },
    /// A cell of a csv file that is not a number.
    #[error("{}: row {row} (line {line}), column `{column}`: `{text}` is not a number", path.display())]
    NotANumber {
        path: PathBuf,
        row: usize,
        line: u64,
        column: String,
        text: String,
    },
    /// A row of a csv file with too few or too many cells.
    #[error("{}: row {row} (line {line}): {found} cells, but the header has {expected} columns", path.display())]
    WrongFieldCount {
        path: PathBuf,
        row: usize,
        line: u64,
        expected: u64,
        found: u64,
    },
    /// A line that cannot be a row of a table.
    #[error("{}: {}: {problem}", path.display(), row_and_line(*row, *line))]
    BadLine {
        path: PathBuf,
        line: u64,
        row: Option<usize>,
        problem: String,
    },
    /// A missing value.
    #[error("{}: row {row}, column `{column}`: the value is missing (null)", path.display())]
    MissingValue {
        path: PathBuf,
        row: usize,
        column: String,
    },
    /// A row of a list column with another length than the first.
    #[error("{}: row {row}: `{column}` holds {found} values, but the first row holds {expected}", path.display())]
    RaggedRow {
        path: PathBuf,
        row: usize,
        column: String,
        found: usize,
        expected: usize,
    },
    /// A label that is a number but not an integer.
    #[error("{}: row {row}: the label {value:?} is not an integer", path.display())]
    LabelNotInteger {
        path: PathBuf,
        row: usize,
        value: f64,
    },
    /// A row of one-hot labels that is not a single 1 among zeros.
    #[error("{}: row {row}: a one-hot label must be a single 1 among zeros", path.display())]
    NotOneHot { path: PathBuf, row: usize },
    /// A label that is not among the class names.
    #[error("{}: row {row}: the label `{label}` is not a class name{hint}", path.display())]
    UnknownLabel {
        path: PathBuf,
        row: usize,
        label: String,
        hint: String,
    },
    /// A label is a name, and it is not known which class has it.
    #[error(
        "{}: row {row}: the label `{label}` is a name, and nothing says which column it belongs to; give the names in \
         the order of the columns (--class-names cat,dog, or a file with one per line), or add an array \
         `class_names`, or name the columns `logit_cat` and so on", path.display()
    )]
    ClassNamesNeeded {
        path: PathBuf,
        row: usize,
        label: String,
    },
    /// Class names that were given and are not those of the file.
    #[error(
        "{}: the file calls its classes {found}, but the names given are {given}; leave them out, or rename the columns",
        path.display()
    )]
    OtherClassNames {
        path: PathBuf,
        found: String,
        given: String,
    },
    /// Class names that do not match the columns of the scores.
    #[error(
        "{}: there are {found} class names, but the scores have {classes} columns; give one name per column",
        path.display()
    )]
    ClassNameCount {
        path: PathBuf,
        found: usize,
        classes: usize,
    },
    /// The file was read, but what it holds is not a valid dataset.
    #[error("{}{}: {source}", path.display(), split_suffix(split))]
    Data {
        path: PathBuf,
        split: Option<String>,
        source: ordercal::Error,
    },
    /// A format that starts with the number of rows, which was not given.
    #[error("{}: the {format} format starts with the number of rows, which is not known", path.display())]
    RowCountNeeded { path: PathBuf, format: Format },
    /// More or fewer rows were written than announced.
    #[error("{}: {} announced but {written} written",
        path.display(), count(*announced, "row was", "rows were"))]
    WrongRowCount {
        path: PathBuf,
        announced: usize,
        written: usize,
    },
    /// Rows of another width or type than the writer was made for.
    #[error("{}: the file has {expected} columns, but rows of {found} columns were given", path.display())]
    WrongBlock {
        path: PathBuf,
        expected: String,
        found: String,
    },
    /// A file that holds something else where a fitted model is expected.
    #[error("{}: this file holds no fitted model; make one with `ordercal fit`", path.display())]
    NotAModel { path: PathBuf },
    /// A model that a newer version of ordercal wrote.
    #[error(
        "{}: the model has format version {version}, and this version of ordercal reads up to {known}; \
         update ordercal", path.display()
    )]
    NewerModel {
        path: PathBuf,
        version: u32,
        known: u32,
    },
    /// A model whose parts do not fit together.
    #[error("{}: the model is damaged: {message}", path.display())]
    DamagedModel { path: PathBuf, message: String },
}

/// Text from a file for use in a message: without control characters, and not too long.
pub(crate) fn clean(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut clean: String = text.chars().take(LONGEST).map(printable).collect();
    if text.chars().nth(LONGEST).is_some() {
        clean.push('…');
    }
    clean
}

fn row_and_line(row: Option<usize>, line: u64) -> String {
    match row {
        Some(row) => format!("row {row} (line {line})"),
        None => format!("line {line}"),
    }
}

fn split_suffix(split: &Option<String>) -> String {
    split.as_ref().map_or(String::new(), |s| format!("#{s}"))
}

impl Error {
    /// A file that was read but does not hold valid data.
    pub(crate) fn data(path: &Path, source: ordercal::Error) -> Self {
        Self::Data {
            path: path.to_path_buf(),
            split: None,
            source,
        }
    }

    /// A part of a file that is longer than what is left of it.
    pub(crate) fn truncated(
        path: &Path,
        what: impl Into<String>,
        offset: u64,
        needed: u128,
        available: u64,
    ) -> Self {
        Self::Truncated {
            path: path.to_path_buf(),
            what: what.into(),
            offset,
            needed,
            available,
        }
    }

    pub(crate) fn wrong_magic(path: &Path, format: Format, found: Vec<u8>) -> Self {
        Self::WrongMagic {
            path: path.to_path_buf(),
            format,
            found,
        }
    }

    pub(crate) fn wrong_type(
        path: &Path,
        array: impl Into<String>,
        found: impl ToString,
        expected: &'static str,
    ) -> Self {
        Self::WrongDtype {
            path: path.to_path_buf(),
            array: array.into(),
            found: found.to_string(),
            expected,
        }
    }

    pub(crate) fn duplicate(path: &Path, name: impl Into<String>) -> Self {
        Self::Duplicate {
            path: path.to_path_buf(),
            name: name.into(),
        }
    }

    pub(crate) fn no_labels(path: &Path, expected: impl Into<String>, present: String) -> Self {
        Self::NoLabels {
            path: path.to_path_buf(),
            expected: expected.into(),
            present,
        }
    }

    pub(crate) fn missing_column(
        path: &Path,
        column: impl Into<String>,
        present: impl Into<String>,
    ) -> Self {
        Self::MissingColumn {
            path: path.to_path_buf(),
            column: column.into(),
            present: present.into(),
        }
    }

    /// Fails unless there is a name for every class.
    pub(crate) fn check_name_count(path: &Path, found: usize, classes: usize) -> Result<()> {
        if found == classes {
            return Ok(());
        }
        Err(Self::ClassNameCount {
            path: path.to_path_buf(),
            found,
            classes,
        })
    }

    /// Wraps what a decoder said.
    pub(crate) fn damaged(path: &Path, format: Format, message: &str) -> Self {
        Self::Damaged {
            path: path.to_path_buf(),
            format,
            message: clean(message),
        }
    }

    /// Wraps what the operating system said; missing files and folders have variants of their own.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound if action == "read" => Self::NotFound { path },
            io::ErrorKind::IsADirectory => Self::IsDirectory { path },
            _ => Self::Io {
                path,
                action,
                source,
            },
        }
    }
}

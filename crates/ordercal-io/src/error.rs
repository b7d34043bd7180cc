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
#[non_exhaustive]
pub enum Error {
    /// The file does not exist.
    #[error("{}: there is no such file", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The path names a folder.
    #[error("{}: this is a folder; name a file", path.display())]
    IsDirectory {
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot {action} the file: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `read`, `create`, `write`, …
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The ending of the file is not that of a format that can be read or written.
    #[error("{}: the file's ending is not known; {hint}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The known endings.
        hint: String,
    },
    /// This build was made without the code for the format.
    #[error("{}: this build has no support for {format} files; rebuild it with the feature `{feature}`", path.display())]
    FeatureOff {
        /// The file.
        path: PathBuf,
        /// The format.
        format: Format,
        /// The cargo feature to switch on.
        feature: &'static str,
    },
    /// The file has no bytes.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The first bytes are not those of the format.
    #[error("{}: the file is not in {format} format: it starts with the bytes {found:02x?}", path.display())]
    WrongMagic {
        /// The file.
        path: PathBuf,
        /// What the ending says it is.
        format: Format,
        /// The first bytes of the file.
        found: Vec<u8>,
    },
    /// The first bytes are not those of a compressed file.
    #[error("{}: the file is not compressed as its ending {ending} says: it starts with the bytes {found:02x?}", path.display())]
    NotPacked {
        /// The file.
        path: PathBuf,
        /// The ending.
        ending: &'static str,
        /// The first bytes of the file.
        found: Vec<u8>,
    },
    /// A compressed file that cannot be unpacked.
    #[error("{}: the file cannot be unpacked: {message}", path.display())]
    BadPacking {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The file is shorter than it should be.
    #[error(
        "{}: {what} needs {needed} bytes from offset {offset}, but only {available} are there; \
         the file is cut short or damaged", path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Which part: an array's name, a header.
        what: String,
        /// Where it starts.
        offset: u64,
        /// How many bytes it needs.
        needed: u128,
        /// How many there are.
        available: u64,
    },
    /// The file breaks the rules of its format at a known place.
    #[error("{}: byte {offset} of {what}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which part: an array's name, a header, the pickle stream.
        what: String,
        /// Where in that part, or in the file if the part is the file.
        offset: u64,
        /// The rule that was broken.
        problem: &'static str,
    },
    /// A library that decodes the format refused the file.
    #[error("{}: the {format} data cannot be decoded: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The format.
        format: Format,
        /// What the decoder said.
        message: String,
    },
    /// A pickle asks for something outside the list of harmless numpy constructors.
    #[error(
        "{}: byte {offset}: the pickle asks for `{module}.{name}`, which is not run here; \
         only numpy arrays in tuples, lists and dicts are read", path.display()
    )]
    PickleForbidden {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// The module asked for.
        module: String,
        /// The name asked for.
        name: String,
    },
    /// An array of Python objects.
    #[error(
        "{}: `{array}` is an array of Python objects; \
         convert it with .astype(\"float32\") (scores) or .astype(str) (labels) and save it again", path.display()
    )]
    ObjectArray {
        /// The file.
        path: PathBuf,
        /// The array.
        array: String,
    },
    /// An array or column of a type that does not fit its role.
    #[error("{}: `{array}` has type {found}, but {expected}", path.display())]
    WrongDtype {
        /// The file.
        path: PathBuf,
        /// The array or column.
        array: String,
        /// Its type.
        found: String,
        /// What is needed.
        expected: &'static str,
    },
    /// An array of a shape that does not fit its role.
    #[error("{}: `{array}` has shape {shape:?}, but {expected}", path.display())]
    WrongShape {
        /// The file.
        path: PathBuf,
        /// The array.
        array: String,
        /// Its shape.
        shape: Vec<usize>,
        /// What is needed.
        expected: String,
    },
    /// Labels or weights of another length than the scores.
    #[error(
        "{}: `{array}` has {}, but the scores have {}",
        path.display(), count(*found, "row", "rows"), count(*rows, "row", "rows")
    )]
    LengthMismatch {
        /// The file.
        path: PathBuf,
        /// The labels or weights.
        array: String,
        /// Their length.
        found: usize,
        /// The number of rows of scores.
        rows: usize,
    },
    /// No array or column with scores.
    #[error("{}: no scores found: expected {expected}; the file holds {present}", path.display())]
    NoScores {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        expected: String,
        /// What is in the file.
        present: String,
    },
    /// Labels are needed but there are none.
    #[error("{}: no labels found: expected {expected}; the file holds {present}", path.display())]
    NoLabels {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        expected: String,
        /// What is in the file.
        present: String,
    },
    /// There are several kinds of scores.
    #[error("{}: both `{first}` and `{second}` are there; choose one by saying the kind of scores", path.display())]
    AmbiguousScores {
        /// The file.
        path: PathBuf,
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// There are several columns or arrays that may be the labels.
    #[error("{}: both `{first}` and `{second}` may be the labels; choose one with --label-column", path.display())]
    AmbiguousLabels {
        /// The file.
        path: PathBuf,
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A split that the file does not have.
    #[error("{}: there is no split `{split}`; {hint}", path.display())]
    UnknownSplit {
        /// The file.
        path: PathBuf,
        /// The split asked for.
        split: String,
        /// The splits there are, and the nearest, in words.
        hint: String,
        /// The splits there are.
        known: Vec<String>,
    },
    /// The file has several splits and none was picked.
    #[error("{}: the file holds the splits {}; pick one, as in {}#{}",
        path.display(), known.join(", "), path.display(), known[0])]
    SplitNeeded {
        /// The file.
        path: PathBuf,
        /// The splits there are.
        known: Vec<String>,
    },
    /// A file with models of groups in the place of one model.
    #[error(
        "{}: this file holds models of groups, not one model: `ordercal apply`, `evaluate` and `monitor` take it, and \
         ordercal.GroupedModel.load in Python",
        path.display()
    )]
    GroupedModels {
        /// The file.
        path: PathBuf,
    },
    /// Columns were asked for of a format that has none, or to be written to one.
    #[error("{}: a {format} file has no columns to hand through; use csv, jsonl, parquet or arrow", path.display())]
    NotATable {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// A table without a column that must be there.
    #[error("{}: there is no column `{column}`; the columns are {present}", path.display())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The columns there are.
        present: String,
    },
    /// Two columns or arrays with one name.
    #[error("{}: there are two of the name `{name}`", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A cell of a csv file that is not a number.
    #[error("{}: row {row} (line {line}), column `{column}`: `{text}` is not a number", path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The cell.
        text: String,
    },
    /// A row of a csv file with too few or too many cells.
    #[error("{}: row {row} (line {line}): {found} cells, but the header has {expected} columns", path.display())]
    WrongFieldCount {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The line, from 1.
        line: u64,
        /// How many columns the header has.
        expected: u64,
        /// How many cells there are.
        found: u64,
    },
    /// A line of a csv file that cannot be a line of a table.
    #[error("{}: {}: {problem}", path.display(), row_and_line(*row, *line))]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The row; `None` for the header.
        row: Option<usize>,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A line of a JSON-lines file that is no object.
    #[error("{}: row {row} (line {line}): {message}", path.display())]
    BadJson {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// A missing value.
    #[error("{}: row {row}, column `{column}`: the value is missing (null)", path.display())]
    MissingValue {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The column.
        column: String,
    },
    /// A row of a list column with another length than the first.
    #[error("{}: row {row}: `{column}` holds {found} values, but the first row holds {expected}", path.display())]
    RaggedRow {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The list column.
        column: String,
        /// The length of this row.
        found: usize,
        /// The length of the first row.
        expected: usize,
    },
    /// A label that is a number but not an integer.
    #[error("{}: row {row}: the label {value:?} is not an integer", path.display())]
    LabelNotInteger {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The label.
        value: f64,
    },
    /// A row of one-hot labels that is not a single 1 among zeros.
    #[error("{}: row {row}: a one-hot label must be a single 1 among zeros", path.display())]
    NotOneHot {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
    },
    /// A label that is not among the class names.
    #[error("{}: row {row}: the label `{label}` is not a class name{hint}", path.display())]
    UnknownLabel {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The label.
        label: String,
        /// The nearest class name in words, or nothing.
        hint: String,
    },
    /// A label is a name, and it is not known which class has it.
    #[error(
        "{}: row {row}: the label `{label}` is a name, and nothing says which column it belongs to; give the names in \
         the order of the columns (--class-names cat,dog, or a file with one per line), or add an array \
         `class_names`, or name the columns `logit_cat` and so on", path.display()
    )]
    ClassNamesNeeded {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The label.
        label: String,
    },
    /// Class names that were given and are not those of the file.
    #[error(
        "{}: the file calls its classes {found}, but the names given are {given}; leave them out, or rename the columns",
        path.display()
    )]
    OtherClassNames {
        /// The file.
        path: PathBuf,
        /// The names of the file.
        found: String,
        /// The names that were given.
        given: String,
    },
    /// Class names that do not match the columns of the scores.
    #[error(
        "{}: there are {found} class names, but the scores have {classes} columns; give one name per column",
        path.display()
    )]
    ClassNameCount {
        /// The file.
        path: PathBuf,
        /// How many names there are.
        found: usize,
        /// How many classes the scores have.
        classes: usize,
    },
    /// The file was read, but what it holds is not a valid dataset.
    #[error("{}{}: {source}", path.display(), split_suffix(split))]
    Data {
        /// The file.
        path: PathBuf,
        /// The split, if one was picked.
        split: Option<String>,
        /// What the library found.
        source: ordercal::Error,
    },
    /// A format that starts with the number of rows, which was not given.
    #[error("{}: the {format} format starts with the number of rows, which is not known", path.display())]
    RowCountNeeded {
        /// The file.
        path: PathBuf,
        /// The format.
        format: Format,
    },
    /// More or fewer rows were written than announced.
    #[error("{}: {} announced but {written} written",
        path.display(), count(*announced, "row was", "rows were"))]
    WrongRowCount {
        /// The file.
        path: PathBuf,
        /// How many were announced.
        announced: usize,
        /// How many were written.
        written: usize,
    },
    /// Rows of another width or type than the writer was made for.
    #[error("{}: the file has {expected} columns, but rows of {found} columns were given", path.display())]
    WrongBlock {
        /// The file.
        path: PathBuf,
        /// The number and type of the file's columns.
        expected: String,
        /// The number and type of the columns given.
        found: String,
    },
    /// A file that holds something else where a fitted model is expected.
    #[error("{}: this file holds no fitted model; make one with `ordercal fit`", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
    },
    /// A model that a newer version of ordercal wrote.
    #[error(
        "{}: the model has format version {version}, and this version of ordercal reads up to {known}; \
         update ordercal", path.display()
    )]
    NewerModel {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// A model whose parts do not fit together.
    #[error("{}: the model is damaged: {message}", path.display())]
    DamagedModel {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
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
    /// The file this is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::NotFound { path }
            | Self::IsDirectory { path }
            | Self::Io { path, .. }
            | Self::UnknownFormat { path, .. }
            | Self::FeatureOff { path, .. }
            | Self::Empty { path }
            | Self::WrongMagic { path, .. }
            | Self::NotPacked { path, .. }
            | Self::BadPacking { path, .. }
            | Self::Truncated { path, .. }
            | Self::Malformed { path, .. }
            | Self::Damaged { path, .. }
            | Self::PickleForbidden { path, .. }
            | Self::ObjectArray { path, .. }
            | Self::WrongDtype { path, .. }
            | Self::WrongShape { path, .. }
            | Self::LengthMismatch { path, .. }
            | Self::NoScores { path, .. }
            | Self::NoLabels { path, .. }
            | Self::AmbiguousScores { path, .. }
            | Self::AmbiguousLabels { path, .. }
            | Self::NotATable { path, .. }
            | Self::GroupedModels { path }
            | Self::UnknownSplit { path, .. }
            | Self::SplitNeeded { path, .. }
            | Self::MissingColumn { path, .. }
            | Self::Duplicate { path, .. }
            | Self::NotANumber { path, .. }
            | Self::WrongFieldCount { path, .. }
            | Self::BadLine { path, .. }
            | Self::BadJson { path, .. }
            | Self::MissingValue { path, .. }
            | Self::RaggedRow { path, .. }
            | Self::LabelNotInteger { path, .. }
            | Self::NotOneHot { path, .. }
            | Self::UnknownLabel { path, .. }
            | Self::ClassNamesNeeded { path, .. }
            | Self::OtherClassNames { path, .. }
            | Self::ClassNameCount { path, .. }
            | Self::Data { path, .. }
            | Self::RowCountNeeded { path, .. }
            | Self::WrongRowCount { path, .. }
            | Self::WrongBlock { path, .. }
            | Self::NotAModel { path }
            | Self::NewerModel { path, .. }
            | Self::DamagedModel { path, .. } => path,
        }
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

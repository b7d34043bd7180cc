//! Writing calibrated scores in chunks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use derive_setters::Setters;
use ndarray::ArrayView2;
use ordercal::ScoreKind;

use crate::atomic::AtomicFile;
use crate::error::{Error, Result, clean};
use crate::formats::{Format, OutputLayout};
use crate::ids::{IdType, IdValues};

/// The type of floats in a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OutputType {
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit floats.
    F64,
}

impl OutputType {
    /// Bytes per number.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }
}

/// What a file of scores will hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Setters)]
#[setters(prefix = "with_", into)]
#[non_exhaustive]
pub struct OutputSpec {
    /// What the scores are: the name of the array or of the columns says it.
    #[setters(skip)]
    pub kind: ScoreKind,
    /// K, the number of classes.
    #[setters(skip)]
    pub classes: usize,
    /// N, if it is known; see [`Format::needs_row_count`].
    pub rows: Option<usize>,
    /// The float type.
    pub dtype: OutputType,
    /// The format, if the file's ending does not tell it.
    pub format: Option<Format>,
    /// The names of the classes, by which columns are called.
    pub class_names: Option<Vec<String>>,
    /// Names and types of columns that come before the scores: only in tables.
    pub ids: Vec<(String, IdType)>,
}

impl OutputSpec {
    /// 32-bit floats, any number of rows.
    pub fn new(kind: ScoreKind, classes: usize) -> Self {
        Self {
            kind,
            classes,
            ..Self::default()
        }
    }

    /// The format of a file of this name.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] if neither the ending nor the format of this specification tells it.
    pub fn output_format(&self, path: &Path) -> Result<Format> {
        Format::find_output(path, self.format)
    }

    /// The name of an array of such scores.
    pub(crate) fn array_name(&self) -> &'static str {
        match self.kind {
            ScoreKind::Logits => "logits",
            ScoreKind::LogProbs => "log_probs",
            ScoreKind::Probs => "probs",
        }
    }

    /// The names of columns of such scores: `prob_cat` where classes have names, `prob_0` elsewhere. Names that are
    /// numbers would be read back as positions, so positions are written instead.
    pub(crate) fn column_names(&self) -> Vec<String> {
        let prefix = self.array_name().trim_end_matches('s');
        let is_number = |name: &String| name.parse::<usize>().is_ok();
        match &self.class_names {
            Some(names) if !names.iter().all(is_number) => {
                let names = names.iter();
                names
                    .map(|name| format!("{prefix}_{}", clean(name)))
                    .collect()
            }
            _ => (0..self.classes).map(|k| format!("{prefix}_{k}")).collect(),
        }
    }
}

/// Writes a file of scores, which appears under its name when [`ScoreWriter::finish`] succeeds.
pub struct ScoreWriter {
    path: PathBuf,
    spec: OutputSpec,
    written: usize,
    ids: Vec<IdValues>,
    sink: Box<dyn ScoreSink>,
}

impl ScoreWriter {
    /// Starts a file; the ending says the format.
    ///
    /// # Errors
    /// For an ending that is not written, a row count that is needed and missing, or a file that cannot be
    /// created.
    pub fn create(path: &Path, spec: OutputSpec) -> Result<Self> {
        let format = Format::find_output(path, spec.format)?;
        if let Some(names) = &spec.class_names {
            Error::check_name_count(path, names.len(), spec.classes)?;
        }
        if format.needs_row_count() && spec.rows.is_none() {
            return Err(Error::RowCountNeeded {
                path: path.to_path_buf(),
                format,
            });
        }
        let write = format.codec().write.as_ref();
        let write = write.expect("only formats that are written are formats of outputs");
        if !spec.ids.is_empty() && write.layout == OutputLayout::Array {
            return Err(Error::NotATable {
                path: path.to_path_buf(),
                format,
            });
        }
        Ok(Self {
            path: path.to_path_buf(),
            sink: (write.create)(AtomicFile::create(path)?, &spec)?,
            spec,
            written: 0,
            ids: Vec::new(),
        })
    }

    /// Gives the values that come before the scores of the rows that are written next.
    pub fn set_ids(&mut self, ids: Vec<IdValues>) {
        self.ids = ids;
    }

    /// Adds rows to a file of 32-bit floats.
    ///
    /// # Errors
    /// For rows of another width, a file of 64-bit floats, or a disk that is full.
    pub fn write_f32(&mut self, rows: ArrayView2<'_, f32>) -> Result<()> {
        self.write(rows.dim(), OutputType::F32, ScoreRows::F32(rows))
    }

    /// Adds rows to a file of 64-bit floats.
    ///
    /// # Errors
    /// For rows of another width, a file of 32-bit floats, or a disk that is full.
    pub fn write_f64(&mut self, rows: ArrayView2<'_, f64>) -> Result<()> {
        self.write(rows.dim(), OutputType::F64, ScoreRows::F64(rows))
    }

    fn write(
        &mut self,
        (count, classes): (usize, usize),
        dtype: OutputType,
        rows: ScoreRows<'_>,
    ) -> Result<()> {
        if classes != self.spec.classes || dtype != self.spec.dtype {
            return Err(Error::WrongBlock {
                path: self.path.clone(),
                expected: format!("{} {}", self.spec.classes, self.spec.dtype.name()),
                found: format!("{classes} {}", dtype.name()),
            });
        }
        let ids = std::mem::take(&mut self.ids);
        let types = ids.iter().map(IdValues::id_type);
        if !types.eq(self.spec.ids.iter().map(|(_, id_type)| *id_type))
            || ids.iter().any(|values| values.len() != count)
        {
            return Err(Error::WrongBlock {
                path: self.path.clone(),
                expected: format!("{} handed-through", self.spec.ids.len()),
                found: format!("{} handed-through", ids.len()),
            });
        }
        self.written += count;
        self.sink.write(rows, &ids)
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If the rows are not as many as announced, or the disk is full; nothing is left behind then.
    pub fn finish(self) -> Result<()> {
        match self.spec.rows {
            Some(announced) if announced != self.written => Err(Error::WrongRowCount {
                path: self.path,
                announced,
                written: self.written,
            }),
            _ => self.sink.finish()?.commit(),
        }
    }
}

/// Rows of the type that the file is made of.
#[derive(Clone, Copy)]
pub(crate) enum ScoreRows<'a> {
    F32(ArrayView2<'a, f32>),
    F64(ArrayView2<'a, f64>),
}

/// The part of a writer that knows the format.
pub(crate) trait ScoreSink: Send {
    /// Adds rows and what comes before their scores; widths, lengths and types were checked.
    fn write(&mut self, rows: ScoreRows<'_>, ids: &[IdValues]) -> Result<()>;

    /// Writes what follows the last row, and returns the file.
    fn finish(self: Box<Self>) -> Result<AtomicFile>;
}

/// A format whose rows are encoded one after the other.
pub(crate) struct EncodedSink<T> {
    path: PathBuf,
    target: T,
    /// Closes what surrounds the file.
    finish: fn(T) -> io::Result<AtomicFile>,
    encode: Encode,
    /// Reused from chunk to chunk.
    buffer: Vec<u8>,
}

/// Appends encoded rows to a buffer.
type Encode = Box<dyn Fn(ScoreRows<'_>, &[IdValues], &mut Vec<u8>) + Send>;

impl<T: Write + Send + 'static> EncodedSink<T> {
    /// Writes what comes before the first row.
    pub(crate) fn start(
        path: PathBuf,
        mut target: T,
        finish: fn(T) -> io::Result<AtomicFile>,
        header: &[u8],
        encode: impl Fn(ScoreRows<'_>, &[IdValues], &mut Vec<u8>) + Send + 'static,
    ) -> Result<Box<dyn ScoreSink>> {
        let written = target.write_all(header);
        written.map_err(|e| Error::io(&path, "write", e))?;
        Ok(Box::new(Self {
            path,
            target,
            finish,
            encode: Box::new(encode),
            buffer: Vec::new(),
        }))
    }
}

impl EncodedSink<AtomicFile> {
    /// Starts a file of numbers without a container.
    pub(crate) fn flat(file: AtomicFile, header: &[u8]) -> Result<Box<dyn ScoreSink>> {
        Self::start(file.path().to_path_buf(), file, Ok, header, little_endian)
    }
}

impl<T: Write + Send> ScoreSink for EncodedSink<T> {
    fn write(&mut self, rows: ScoreRows<'_>, ids: &[IdValues]) -> Result<()> {
        self.buffer.clear();
        (self.encode)(rows, ids, &mut self.buffer);
        let written = self.target.write_all(&self.buffer);
        written.map_err(|e| Error::io(&self.path, "write", e))
    }

    fn finish(self: Box<Self>) -> Result<AtomicFile> {
        (self.finish)(self.target).map_err(|e| Error::io(&self.path, "write", e))
    }
}

/// The rows as little-endian numbers.
pub(crate) fn little_endian(rows: ScoreRows<'_>, _: &[IdValues], buffer: &mut Vec<u8>) {
    match rows {
        ScoreRows::F32(rows) => buffer.extend(rows.iter().flat_map(|v| v.to_le_bytes())),
        ScoreRows::F64(rows) => buffer.extend(rows.iter().flat_map(|v| v.to_le_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn rows_that_were_not_announced_leave_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let spec = OutputSpec::new(ScoreKind::Probs, 2).with_rows(2);
        let mut writer = ScoreWriter::create(&path, spec).unwrap();
        writer.write_f32(array![[0.5, 0.5]].view()).unwrap();
        let error = writer.write_f64(array![[0.5, 0.5]].view()).unwrap_err();
        assert!(matches!(error, Error::WrongBlock { .. }), "{error}");
        let error = writer.finish().unwrap_err();
        assert!(matches!(
            error,
            Error::WrongRowCount {
                announced: 2,
                written: 1,
                ..
            }
        ));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn formats_that_start_with_the_row_count_ask_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let spec = OutputSpec::new(ScoreKind::Probs, 2);
        for name in ["a.npy", "a.npz", "a.safetensors"] {
            let error = ScoreWriter::create(&dir.path().join(name), spec.clone());
            assert!(
                matches!(error.err(), Some(Error::RowCountNeeded { .. })),
                "{name}"
            );
        }
        let error = ScoreWriter::create(&dir.path().join("a.pkl"), spec);
        assert!(matches!(error.err(), Some(Error::UnknownFormat { .. })));
    }
}

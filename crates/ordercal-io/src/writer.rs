//! Writing calibrated scores chunk by chunk, in the format that the file's ending says.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use ndarray::ArrayView2;
use ordercal::ScoreKind;

use crate::atomic::AtomicFile;
use crate::error::{Error, Result};
use crate::source::Format;
use crate::stored_zip::StoredZip;

/// The float type of a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OutputType {
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit floats.
    F64,
}

impl OutputType {
    fn size(self) -> usize {
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

/// What a file of scores is going to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputSpec {
    /// What the scores are: the name of the array or of the columns says it.
    pub kind: ScoreKind,
    /// K, the number of classes.
    pub classes: usize,
    /// N, if it is known; see [`Format::needs_row_count`].
    pub rows: Option<usize>,
    /// The float type.
    pub dtype: OutputType,
}

impl OutputSpec {
    /// 32-bit floats, any number of rows.
    pub fn new(kind: ScoreKind, classes: usize) -> Self {
        Self {
            kind,
            classes,
            rows: None,
            dtype: OutputType::F32,
        }
    }

    /// Announces the number of rows.
    #[must_use]
    pub fn with_rows(self, rows: usize) -> Self {
        Self {
            rows: Some(rows),
            ..self
        }
    }

    /// Sets the float type.
    #[must_use]
    pub fn with_dtype(self, dtype: OutputType) -> Self {
        Self { dtype, ..self }
    }

    /// The array that holds such scores, as the readers of this crate look for it.
    pub(crate) fn array_name(&self) -> &'static str {
        match self.kind {
            ScoreKind::Logits => "logits",
            ScoreKind::LogProbs => "log_probs",
            ScoreKind::Probs => "probs",
        }
    }

    /// The columns that hold such scores.
    pub(crate) fn column_names(&self) -> Vec<String> {
        let name = self.array_name().trim_end_matches('s');
        (0..self.classes).map(|k| format!("{name}_{k}")).collect()
    }
}

/// A file of scores that is being written. It appears under its name when [`ScoreWriter::finish`] succeeds.
///
/// ```
/// use ndarray::array;
/// use ordercal::ScoreKind;
/// use ordercal_io::{DataRef, OutputSpec, ScoreWriter, load};
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("probs.csv");
/// let mut writer = ScoreWriter::create(&path, OutputSpec::new(ScoreKind::Probs, 2))?;
/// writer.write_f32(array![[0.25, 0.75]].view())?;
/// writer.write_f32(array![[0.5, 0.5]].view())?;
/// writer.finish()?;
///
/// let back = load(&DataRef::new(&path), None)?;
/// assert_eq!((back.rows(), back.kind()), (2, ScoreKind::Probs));
/// # Ok::<(), ordercal_io::Error>(())
/// ```
pub struct ScoreWriter {
    path: PathBuf,
    spec: OutputSpec,
    written: usize,
    sink: Sink,
    /// Reused from chunk to chunk.
    buffer: Vec<u8>,
}

enum Sink {
    Raw(AtomicFile),
    Npz(Box<StoredZip<AtomicFile>>),
    Csv(AtomicFile),
    CsvGz(Box<GzEncoder<AtomicFile>>),
    #[cfg(feature = "parquet")]
    Batches(crate::batch_writer::BatchWriter),
}

impl ScoreWriter {
    /// Starts a file; the ending says the format.
    ///
    /// # Errors
    /// For an ending that is not written, a row count that is needed and missing, or a file that cannot be
    /// created.
    pub fn create(path: &Path, spec: OutputSpec) -> Result<Self> {
        let format = Format::of_output(path)?;
        let rows = match spec.rows {
            Some(rows) => rows,
            None if format.needs_row_count() => {
                return Err(Error::RowCountNeeded {
                    path: path.to_path_buf(),
                    format,
                });
            }
            None => 0,
        };
        #[cfg(not(feature = "parquet"))]
        if matches!(format, Format::Parquet | Format::Arrow) {
            return Err(Error::FeatureOff {
                path: path.to_path_buf(),
                format,
                feature: "parquet",
            });
        }
        let mut file = AtomicFile::create(path)?;
        let fail = |e: io::Error| Error::io(path, "write", e);
        let sink = match format {
            Format::Npy => {
                file.write_all(&npy_header(&spec, rows)).map_err(fail)?;
                Sink::Raw(file)
            }
            Format::Safetensors => {
                file.write_all(&safetensors_header(&spec, rows))
                    .map_err(fail)?;
                Sink::Raw(file)
            }
            Format::Npz => {
                // Stored, as numpy.savez does: floats hardly deflate, and stored ones can be sought in.
                let header = npy_header(&spec, rows);
                let size = header.len() + rows * spec.classes * spec.dtype.size();
                let name = format!("{}.npy", spec.array_name());
                let mut zip = StoredZip::new(file, name, size as u64).map_err(fail)?;
                zip.write_all(&header).map_err(fail)?;
                Sink::Npz(Box::new(zip))
            }
            Format::Csv => {
                writeln!(file, "{}", spec.column_names().join(",")).map_err(fail)?;
                Sink::Csv(file)
            }
            Format::CsvGz => {
                let mut gz = GzEncoder::new(file, Compression::default());
                writeln!(gz, "{}", spec.column_names().join(",")).map_err(fail)?;
                Sink::CsvGz(Box::new(gz))
            }
            #[cfg(feature = "parquet")]
            _ => Sink::Batches(crate::batch_writer::BatchWriter::new(file, format, &spec)?),
            #[cfg(not(feature = "parquet"))]
            _ => unreachable!("refused above"),
        };
        Ok(Self {
            path: path.to_path_buf(),
            spec,
            written: 0,
            sink,
            buffer: Vec::new(),
        })
    }

    /// Adds rows to a file of 32-bit floats.
    ///
    /// # Errors
    /// For rows of another width, a file of 64-bit floats, or a disk that is full.
    pub fn write_f32(&mut self, rows: ArrayView2<'_, f32>) -> Result<()> {
        self.check(rows.dim(), OutputType::F32)?;
        match &mut self.sink {
            #[cfg(feature = "parquet")]
            Sink::Batches(writer) => return writer.write_f32(rows),
            Sink::Csv(_) | Sink::CsvGz(_) => csv_rows(&mut self.buffer, rows),
            Sink::Raw(_) | Sink::Npz(_) => {
                self.buffer.clear();
                self.buffer
                    .extend(rows.iter().flat_map(|v| v.to_le_bytes()));
            }
        }
        self.flush_buffer()
    }

    /// Adds rows to a file of 64-bit floats.
    ///
    /// # Errors
    /// For rows of another width, a file of 32-bit floats, or a disk that is full.
    pub fn write_f64(&mut self, rows: ArrayView2<'_, f64>) -> Result<()> {
        self.check(rows.dim(), OutputType::F64)?;
        match &mut self.sink {
            #[cfg(feature = "parquet")]
            Sink::Batches(writer) => return writer.write_f64(rows),
            Sink::Csv(_) | Sink::CsvGz(_) => csv_rows(&mut self.buffer, rows),
            Sink::Raw(_) | Sink::Npz(_) => {
                self.buffer.clear();
                self.buffer
                    .extend(rows.iter().flat_map(|v| v.to_le_bytes()));
            }
        }
        self.flush_buffer()
    }

    fn check(&mut self, (rows, classes): (usize, usize), dtype: OutputType) -> Result<()> {
        if classes != self.spec.classes || dtype != self.spec.dtype {
            return Err(Error::WrongBlock {
                path: self.path.clone(),
                expected: format!("{} {}", self.spec.classes, self.spec.dtype.name()),
                found: format!("{classes} {}", dtype.name()),
            });
        }
        self.written += rows;
        Ok(())
    }

    fn flush_buffer(&mut self) -> Result<()> {
        let bytes = &self.buffer;
        let done = match &mut self.sink {
            Sink::Raw(file) | Sink::Csv(file) => file.write_all(bytes),
            Sink::Npz(zip) => zip.write_all(bytes),
            Sink::CsvGz(gz) => gz.write_all(bytes),
            #[cfg(feature = "parquet")]
            Sink::Batches(_) => Ok(()),
        };
        done.map_err(|e| Error::io(&self.path, "write", e))
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If the rows are not as many as announced, or the disk is full; nothing is left behind then.
    pub fn finish(self) -> Result<()> {
        if let Some(announced) = self.spec.rows
            && announced != self.written
        {
            return Err(Error::WrongRowCount {
                path: self.path,
                announced,
                written: self.written,
            });
        }
        let fail = |e: io::Error| Error::io(&self.path, "write", e);
        let file = match self.sink {
            Sink::Raw(file) | Sink::Csv(file) => file,
            Sink::Npz(zip) => zip.finish().map_err(fail)?,
            Sink::CsvGz(gz) => gz.finish().map_err(fail)?,
            #[cfg(feature = "parquet")]
            Sink::Batches(writer) => writer.finish()?,
        };
        file.commit()
    }
}

/// Numbers as the shortest text that reads back as the same number.
fn csv_rows<T: std::fmt::Debug>(buffer: &mut Vec<u8>, rows: ArrayView2<'_, T>) {
    buffer.clear();
    for row in rows.rows() {
        for (column, value) in row.iter().enumerate() {
            if column > 0 {
                buffer.push(b',');
            }
            write!(buffer, "{value:?}").expect("memory can be written to");
        }
        buffer.push(b'\n');
    }
}

/// Version 1 of the header, padded so that the values start at a multiple of 64, as numpy writes it.
fn npy_header(spec: &OutputSpec, rows: usize) -> Vec<u8> {
    let size = spec.dtype.size();
    let mut dict = format!(
        "{{'descr': '<f{size}', 'fortran_order': False, 'shape': ({rows}, {}), }}",
        spec.classes
    );
    let unpadded = 10 + dict.len() + 1;
    dict.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    dict.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((dict.len() as u16).to_le_bytes());
    header.extend(dict.as_bytes());
    header
}

/// The header of one tensor, padded so that the values start at a multiple of 8.
fn safetensors_header(spec: &OutputSpec, rows: usize) -> Vec<u8> {
    let size = rows * spec.classes * spec.dtype.size();
    let mut json = format!(
        "{{\"{}\":{{\"dtype\":\"F{}\",\"shape\":[{rows},{}],\"data_offsets\":[0,{size}]}}}}",
        spec.array_name(),
        spec.dtype.size() * 8,
        spec.classes
    );
    json.push_str(&" ".repeat(json.len().next_multiple_of(8) - json.len()));
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json.as_bytes());
    header
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
            let error = ScoreWriter::create(&dir.path().join(name), spec);
            assert!(
                matches!(error.err(), Some(Error::RowCountNeeded { .. })),
                "{name}"
            );
        }
        let error = ScoreWriter::create(&dir.path().join("a.pkl"), spec);
        assert!(matches!(error.err(), Some(Error::UnknownFormat { .. })));
    }
}

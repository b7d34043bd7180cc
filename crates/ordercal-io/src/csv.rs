//! Tables as text, plain or gzipped: a header with the names of the columns, then one line per row.
//!
//! Numbers are read as `f64`, so that no digit is lost.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::csv::{ByteRecord, ErrorKind, ReaderBuilder, Trim};
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use ndarray::ArrayView2;

use crate::array::{AnyArray, ElementType, Values};
use crate::columns::{self, ScoreColumns, TableColumns};
use crate::data_ref::{self, DataRef};
use crate::error::{Error, Result, clean};
use crate::formats::{Codec, Format, Reading, Writing};
use crate::reader::ReadOptions;
use crate::row_source::{Opened, RawRows, RowSource};
use crate::writer::{ByteTarget, EncodedSink, OutputSpec, ScoreRows, ScoreSink, write_bytes};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table {
        open: |data, options| open(data, options, Format::Csv),
        labels: |path| read_labels(path, Format::Csv),
    },
    write: Some(Writing {
        needs_row_count: false,
        create: |file, spec| create(file, spec),
    }),
};

pub(crate) const GZIPPED: Codec = Codec {
    read: Reading::Table {
        open: |data, options| open(data, options, Format::CsvGz),
        labels: |path| read_labels(path, Format::CsvGz),
    },
    write: Some(Writing {
        needs_row_count: false,
        create: |file, spec| create(GzEncoder::new(file, Compression::default()), spec),
    }),
};

/// The longest row in bytes. Each row is in memory as a whole.
const LONGEST_ROW: u64 = 64 << 20;

/// An open table and the names of its columns.
struct CsvTable {
    path: PathBuf,
    format: Format,
    reader: ::csv::Reader<RowGuard>,
    names: Vec<String>,
    record: ByteRecord,
    /// The row that was read last or is being read; `None` for the header.
    row: Option<usize>,
    row_end: Arc<AtomicU64>,
}

impl CsvTable {
    fn open(path: &Path, format: Format) -> Result<Self> {
        let (file, _) = data_ref::open(path)?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let inner: Box<dyn Read + Send> = if format == Format::CsvGz {
            use io::BufRead;
            let start = file.fill_buf().map_err(|e| Error::io(path, "read", e))?;
            if !start.starts_with(&[0x1f, 0x8b]) {
                return Err(Error::WrongMagic {
                    path: path.to_path_buf(),
                    format,
                    found: start[..start.len().min(8)].to_vec(),
                });
            }
            Box::new(MultiGzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let row_end = Arc::new(AtomicU64::new(0));
        let guard = RowGuard {
            inner,
            read: 0,
            row_end: Arc::clone(&row_end),
        };
        let reader = ReaderBuilder::new()
            .trim(Trim::All)
            .buffer_capacity(1 << 16)
            .from_reader(guard);
        let mut table = Self {
            path: path.to_path_buf(),
            format,
            reader,
            names: Vec::new(),
            record: ByteRecord::new(),
            row: None,
            row_end,
        };
        let header = table.reader.byte_headers().cloned();
        let header = header.map_err(|e| table.error(e))?;
        for name in &header {
            let name = String::from_utf8(name.to_vec()).map_err(|_| Error::BadLine {
                path: path.to_path_buf(),
                line: 1,
                row: None,
                problem: "the header is not UTF-8 text",
            })?;
            table.names.push(clean(&name));
        }
        Ok(table)
    }

    /// Reads the next row; false after the last.
    fn advance(&mut self) -> Result<bool> {
        self.row = Some(self.row.map_or(0, |row| row + 1));
        let more = self.reader.read_byte_record(&mut self.record);
        let more = more.map_err(|e| self.error(e))?;
        let end = self.reader.position().byte();
        self.row_end.store(end, Ordering::Relaxed);
        Ok(more)
    }

    fn line(&self) -> u64 {
        self.record.position().map_or(0, ::csv::Position::line)
    }

    fn bad_line(&self, line: u64, problem: &'static str) -> Error {
        Error::BadLine {
            path: self.path.clone(),
            line,
            row: self.row,
            problem,
        }
    }

    fn number(&self, column: usize) -> Result<f64> {
        let cell = &self.record[column];
        std::str::from_utf8(cell)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::NotANumber {
                path: self.path.clone(),
                row: self.row.unwrap_or(0),
                line: self.line(),
                column: self.names[column].clone(),
                text: clean(&String::from_utf8_lossy(&cell[..cell.len().min(40)])),
            })
    }

    fn text(&self, column: usize) -> Result<String> {
        let text = std::str::from_utf8(&self.record[column]);
        let text = text.map_err(|_| self.bad_line(self.line(), "the label is not UTF-8 text"))?;
        if text.is_empty() {
            return Err(self.bad_line(self.line(), "the label is missing"));
        }
        Ok(text.to_owned())
    }

    fn error(&self, error: ::csv::Error) -> Error {
        let path = self.path.clone();
        let line = self.reader.position().line();
        match error.into_kind() {
            ErrorKind::Io(e) => match e.kind() {
                io::ErrorKind::FileTooLarge => {
                    self.bad_line(line, "the row is longer than 64 MiB; is a quote left open?")
                }
                io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::UnexpectedEof => {
                    let message = format!("line {line}: {e}");
                    Error::damaged(&path, self.format, &message)
                }
                _ => Error::io(&path, "read", e),
            },
            ErrorKind::UnequalLengths {
                pos,
                expected_len,
                len,
            } => Error::WrongFieldCount {
                path,
                row: self.row.unwrap_or(0),
                line: pos.map_or(0, |p| p.line()),
                expected: expected_len,
                found: len,
            },
            _ => self.bad_line(line, "the line cannot be understood"),
        }
    }
}

/// Opens a table of scores.
fn open(data: &DataRef, options: &ReadOptions, format: Format) -> Result<Opened> {
    let table = CsvTable::open(data.path(), format)?;
    let columns = columns::find(data, &table.names, false, options)?;
    let ScoreColumns::Wide(scores) = columns.scores.clone() else {
        unreachable!("a csv file has no lists");
    };
    Ok(Opened {
        kind: columns.kind,
        classes: scores.len(),
        rows: None,
        has_labels: columns.label.is_some(),
        class_names: columns.class_names.clone(),
        split: None,
        ignored: columns.ignored.clone(),
        source: Box::new(CsvSource {
            table,
            columns,
            scores,
        }),
    })
}

/// Reads the only column, or the one named `label`.
fn read_labels(path: &Path, format: Format) -> Result<AnyArray> {
    let mut table = CsvTable::open(path, format)?;
    let column = columns::label_column(path, &table.names)?;
    let mut labels = Vec::new();
    while table.advance()? {
        labels.push(table.text(column)?);
    }
    Ok(AnyArray::vector(ElementType::Text, Values::Text(labels)))
}

struct CsvSource {
    table: CsvTable,
    columns: TableColumns,
    scores: Vec<usize>,
}

impl RowSource for CsvSource {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        let table = &mut self.table;
        let mut scores = Vec::new();
        let mut labels = Vec::new();
        let mut weights = Vec::new();
        let mut rows = 0;
        while rows < max && table.advance()? {
            for &column in &self.scores {
                scores.push(table.number(column)?);
            }
            if let Some(column) = self.columns.label {
                labels.push(table.text(column)?);
            }
            if let Some(column) = self.columns.weight {
                weights.push(table.number(column)?);
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let has =
            |column: Option<usize>, dtype, values| column.map(|_| AnyArray::vector(dtype, values));
        Ok(Some(RawRows {
            scores: AnyArray {
                shape: vec![rows, self.scores.len()],
                dtype: ElementType::F64,
                values: Values::F64(scores),
            },
            labels: has(self.columns.label, ElementType::Text, Values::Text(labels)),
            weights: has(self.columns.weight, ElementType::F64, Values::F64(weights)),
        }))
    }
}

/// Fails once a row is too long: a few kilobytes of gzip can hold a row of gigabytes.
struct RowGuard {
    inner: Box<dyn Read + Send>,
    read: u64,
    /// Where the last complete row ended.
    row_end: Arc<AtomicU64>,
}

impl Read for RowGuard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        if self.read - self.row_end.load(Ordering::Relaxed).min(self.read) > LONGEST_ROW {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(count)
    }
}

/// Starts a table with one column per class.
fn create<T: ByteTarget + 'static>(mut file: T, spec: &OutputSpec) -> Result<Box<dyn ScoreSink>> {
    let names = spec.column_names().into_iter().map(quoted);
    let header = format!("{}\n", names.collect::<Vec<_>>().join(","));
    write_bytes(&mut file, header.as_bytes())?;
    Ok(EncodedSink::boxed(file, |rows, buffer| match rows {
        ScoreRows::F32(rows) => write_text(rows, buffer),
        ScoreRows::F64(rows) => write_text(rows, buffer),
    }))
}

/// A name as a cell: in quotes if it would otherwise be several cells.
fn quoted(name: String) -> String {
    if name.contains([',', '"']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name
    }
}

/// Numbers as the shortest text that reads back as the same number.
fn write_text<T: std::fmt::Debug>(rows: ArrayView2<'_, T>, buffer: &mut Vec<u8>) {
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

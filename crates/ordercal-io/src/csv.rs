//! Tables as text: a header with the names of the columns, if there is one, then one line per row.
//!
//! Numbers are read as `f64`, so that no digit is lost.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::csv::{ByteRecord, ErrorKind, ReaderBuilder, Trim};
use ndarray::ArrayView2;

use crate::array::Values;
use crate::atomic::AtomicFile;
use crate::columns::{self, Header, ScoreColumns};
use crate::data_ref::{self, DataRef};
use crate::error::{Error, Result, clean};
use crate::formats::{Codec, OutputLayout, Reading, Writing};
use crate::ids::{IdType, IdValues};
use crate::packing::{PackedFile, Packing};
use crate::reader::ReadOptions;
use crate::row_source::{Opened, Wanted};
use crate::spool::is_damage;
use crate::text_table::{self, TextTable};
use crate::writer::{EncodedSink, OutputSpec, ScoreRows, ScoreSink};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table(open),
    write: Some(Writing {
        layout: OutputLayout::Text,
        create,
    }),
};

/// The longest row in bytes. Each row is in memory as a whole.
const LONGEST_ROW: u64 = 64 << 20;

/// What separates columns, unless the user says otherwise.
fn usual_delimiter(path: &Path) -> u8 {
    match Packing::of(path).1.ends_with(".tsv") {
        true => b'\t',
        false => b',',
    }
}

/// An open table and the names of its columns.
struct CsvTable {
    path: PathBuf,
    reader: ::csv::Reader<RowGuard>,
    names: Vec<String>,
    /// Whether the names are in the file.
    named: bool,
    record: ByteRecord,
    /// Whether the record is a row that was read to find the names.
    pending: bool,
    /// The row that was read last or is being read; `None` for the header.
    row: Option<usize>,
    row_end: Arc<AtomicU64>,
}

impl CsvTable {
    fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        let row_end = Arc::new(AtomicU64::new(0));
        let guard = RowGuard {
            inner: data_ref::open_stream(path)?,
            read: 0,
            row_end: Arc::clone(&row_end),
        };
        let choice = &options.columns;
        let reader = ReaderBuilder::new()
            .trim(Trim::All)
            .has_headers(false)
            .delimiter(choice.delimiter.unwrap_or_else(|| usual_delimiter(path)))
            .buffer_capacity(1 << 16)
            .from_reader(guard);
        let mut table = Self {
            path: path.to_path_buf(),
            reader,
            names: Vec::new(),
            named: true,
            record: ByteRecord::new(),
            pending: false,
            row: None,
            row_end,
        };
        let first = table.reader.read_byte_record(&mut table.record);
        first.map_err(|e| table.error(e))?;
        if !choice.header.unwrap_or_else(|| is_header(&table.record)) {
            table.names = (0..table.record.len()).map(|i| i.to_string()).collect();
            table.named = false;
            table.pending = true;
            return Ok(table);
        }
        for name in &table.record {
            let name = String::from_utf8(name.to_vec()).map_err(|_| Error::BadLine {
                path: path.to_path_buf(),
                line: 1,
                row: None,
                problem: "the header is not UTF-8 text".to_owned(),
            })?;
            table.names.push(clean(&name));
        }
        Ok(table)
    }

    fn line(&self) -> u64 {
        self.record.position().map_or(0, ::csv::Position::line)
    }

    fn bad_line(&self, line: u64, problem: &str) -> Error {
        Error::BadLine {
            path: self.path.clone(),
            line,
            row: self.row,
            problem: problem.to_owned(),
        }
    }

    fn error(&self, error: ::csv::Error) -> Error {
        let path = self.path.clone();
        let line = self.reader.position().line();
        match error.into_kind() {
            ErrorKind::Io(e) => match e.kind() {
                io::ErrorKind::FileTooLarge => {
                    self.bad_line(line, "the row is longer than 64 MiB; is a quote left open?")
                }
                _ if is_damage(&e) => Error::BadPacking {
                    path,
                    message: format!("line {line}: {e}"),
                },
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

impl TextTable for CsvTable {
    fn advance(&mut self) -> Result<bool> {
        self.row = Some(self.row.map_or(0, |row| row + 1));
        if std::mem::take(&mut self.pending) {
            return Ok(!self.record.is_empty());
        }
        let more = self.reader.read_byte_record(&mut self.record);
        let more = more.map_err(|e| self.error(e))?;
        let end = self.reader.position().byte();
        self.row_end.store(end, Ordering::Relaxed);
        Ok(more)
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

    fn label(&self, column: usize) -> Result<String> {
        let text = std::str::from_utf8(&self.record[column]);
        let text = text.map_err(|_| self.bad_line(self.line(), "the label is not UTF-8 text"))?;
        if text.is_empty() {
            return Err(self.bad_line(self.line(), "the label is missing"));
        }
        Ok(text.to_owned())
    }

    fn numbers(&self, _: usize, _: usize, _: &mut Vec<f64>) -> Result<()> {
        unreachable!("a csv file has no lists")
    }

    fn push_id(&self, column: usize, to: &mut Values) -> Result<()> {
        if let Values::Text(ids) = to {
            ids.push(String::from_utf8_lossy(&self.record[column]).into_owned());
        }
        Ok(())
    }
}

/// Whether a first line holds names: not if all of it is numbers, unless they count 0, 1, 2 as pandas' names do.
fn is_header(record: &ByteRecord) -> bool {
    let is_number = |cell: &[u8]| {
        let text = std::str::from_utf8(cell);
        text.is_ok_and(|text| text.parse::<f64>().is_ok())
    };
    let counts = |(place, cell): (usize, &[u8])| cell == place.to_string().as_bytes();
    !record.iter().all(is_number) || (record.len() > 1 && record.iter().enumerate().all(counts))
}

fn open(data: &DataRef, options: &ReadOptions, wanted: Wanted) -> Result<Opened> {
    let table = CsvTable::open(data.path(), options)?;
    let header = Header {
        names: &table.names,
        named: table.named,
        is_list: &|_| false,
    };
    let columns = columns::find(data, &header, options, wanted)?;
    let classes = match &columns.scores {
        ScoreColumns::Wide(columns) => columns.len(),
        ScoreColumns::List(_) => unreachable!("a csv file has no lists"),
    };
    let ids = columns.ids.iter();
    let ids = ids.map(|&column| (table.names[column].clone(), IdType::Text));
    let ids = ids.collect();
    Ok(text_table::open(table, columns, classes, ids))
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
fn create(file: AtomicFile, spec: &OutputSpec) -> Result<Box<dyn ScoreSink>> {
    let delimiter = usual_delimiter(file.path());
    let path = file.path().to_path_buf();
    let file = Packing::create(file)?;
    let mut header = Vec::new();
    let ids = spec.ids.iter().map(|(name, _)| name.clone());
    for (column, name) in ids.chain(spec.column_names()).enumerate() {
        if column > 0 {
            header.push(delimiter);
        }
        write_quoted(&name, delimiter, &mut header);
    }
    header.push(b'\n');
    let encode = move |rows: ScoreRows<'_>, ids: &[IdValues], buffer: &mut Vec<u8>| match rows {
        ScoreRows::F32(rows) => write_text(rows, ids, delimiter, buffer),
        ScoreRows::F64(rows) => write_text(rows, ids, delimiter, buffer),
    };
    EncodedSink::start(path, file, PackedFile::finish, &header, encode)
}

/// Numbers as the shortest text that reads back as the same number.
fn write_text<T: std::fmt::Debug>(
    rows: ArrayView2<'_, T>,
    ids: &[IdValues],
    delimiter: u8,
    buffer: &mut Vec<u8>,
) {
    let works = "memory can be written to";
    for (place, row) in rows.rows().into_iter().enumerate() {
        for values in ids {
            match values {
                IdValues::Integer(values) => write!(buffer, "{}", values[place]).expect(works),
                IdValues::Float(values) => write!(buffer, "{:?}", values[place]).expect(works),
                IdValues::Text(values) => write_quoted(&values[place], delimiter, buffer),
            }
            buffer.push(delimiter);
        }
        for (column, value) in row.iter().enumerate() {
            if column > 0 {
                buffer.push(delimiter);
            }
            write!(buffer, "{value:?}").expect(works);
        }
        buffer.push(b'\n');
    }
}

/// Text in quotes if it has to be.
fn write_quoted(text: &str, delimiter: u8, buffer: &mut Vec<u8>) {
    let special = |b: u8| matches!(b, b'"' | b'\n' | b'\r') || b == delimiter;
    if text.trim() == text && !text.is_empty() && !text.bytes().any(special) {
        buffer.extend(text.as_bytes());
        return;
    }
    buffer.push(b'"');
    buffer.extend(text.replace('"', "\"\"").as_bytes());
    buffer.push(b'"');
}

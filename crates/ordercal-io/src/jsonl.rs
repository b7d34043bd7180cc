//! Tables as JSON lines: one object per line, with the names of columns as keys.
//!
//! JSON has no infinity, so the score of a masked class is the text `"-inf"`, which is read and written.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

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
use crate::spool::read_error;
use crate::text_table::{self, TextTable};
use crate::writer::{EncodedSink, OutputSpec, ScoreRows, ScoreSink};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table(open),
    write: Some(Writing {
        layout: OutputLayout::Text,
        create,
    }),
};

/// The longest line in bytes. Each line is in memory as a whole.
const LONGEST_LINE: u64 = 64 << 20;

/// The keys and values of a line, in its order, which is that of the classes.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// An open table and the names of its columns, which are the keys of the first line.
struct JsonTable {
    path: PathBuf,
    reader: BufReader<Box<dyn Read + Send>>,
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// The values of the current row, in the order of `names`.
    values: Vec<Option<Value>>,
    /// Whether the current row was only read to find the names.
    pending: bool,
    row: usize,
    line: u64,
    buffer: Vec<u8>,
}

impl JsonTable {
    fn open(path: &Path) -> Result<Self> {
        let mut table = Self {
            path: path.to_path_buf(),
            reader: BufReader::with_capacity(1 << 16, data_ref::open_stream(path)?),
            names: Vec::new(),
            places: HashMap::new(),
            values: Vec::new(),
            pending: false,
            row: 0,
            line: 0,
            buffer: Vec::new(),
        };
        let Some(Object(entries)) = table.next_object()? else {
            return Err(Error::data(path, ordercal::Error::NoRows));
        };
        for (name, value) in entries {
            let name = clean(&name);
            if table
                .places
                .insert(name.clone(), table.names.len())
                .is_some()
            {
                return Err(Error::duplicate(path, name));
            }
            table.names.push(name);
            table.values.push(Some(value));
        }
        table.pending = true;
        Ok(table)
    }

    /// The object of the next line that is not empty.
    fn next_object(&mut self) -> Result<Option<Object>> {
        loop {
            self.buffer.clear();
            let mut line = (&mut self.reader).take(LONGEST_LINE + 1);
            let count = line.read_until(b'\n', &mut self.buffer);
            let count = count.map_err(|e| read_error(&self.path, e))?;
            if count == 0 {
                return Ok(None);
            }
            self.line += 1;
            if count as u64 > LONGEST_LINE {
                return Err(self.bad_line("the line is longer than 64 MiB"));
            }
            if !self.buffer.trim_ascii().is_empty() {
                let object = serde_json::from_slice(&self.buffer);
                return object.map(Some).map_err(|e| self.bad_line(&e.to_string()));
            }
        }
    }

    fn bad_line(&self, message: &str) -> Error {
        Error::BadLine {
            path: self.path.clone(),
            line: self.line,
            row: Some(self.row),
            problem: clean(message),
        }
    }

    fn value(&self, column: usize) -> Result<&Value> {
        match &self.values[column] {
            None | Some(Value::Null) => Err(Error::MissingValue {
                path: self.path.clone(),
                row: self.row,
                column: self.names[column].clone(),
            }),
            Some(value) => Ok(value),
        }
    }

    fn not_a_number(&self, column: usize, value: &Value) -> Error {
        let text: String = value.to_string().chars().take(40).collect();
        Error::NotANumber {
            path: self.path.clone(),
            row: self.row,
            line: self.line,
            column: self.names[column].clone(),
            text: clean(&text),
        }
    }

    fn id_type(&self, column: usize) -> IdType {
        match &self.values[column] {
            Some(Value::Number(n)) if n.is_i64() => IdType::Integer,
            Some(Value::Number(_)) => IdType::Float,
            _ => IdType::Text,
        }
    }
}

impl TextTable for JsonTable {
    fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.pending) {
            return Ok(true);
        }
        self.row += 1;
        let Some(Object(entries)) = self.next_object()? else {
            return Ok(false);
        };
        self.values.fill(None);
        for (place, (name, value)) in entries.into_iter().enumerate() {
            // Nearly always the keys are those of the first line, in the same order.
            let same = self.names.get(place).is_some_and(|known| *known == name);
            let place = if same {
                Some(place)
            } else {
                self.places.get(&name).copied()
            };
            if let Some(place) = place {
                self.values[place] = Some(value);
            }
        }
        Ok(true)
    }

    fn number(&self, column: usize) -> Result<f64> {
        let value = self.value(column)?;
        number(value).ok_or_else(|| self.not_a_number(column, value))
    }

    fn numbers(&self, column: usize, expected: usize, to: &mut Vec<f64>) -> Result<()> {
        let list = self.value(column)?;
        let list = list
            .as_array()
            .ok_or_else(|| self.not_a_number(column, list))?;
        if list.len() != expected {
            return Err(Error::RaggedRow {
                path: self.path.clone(),
                row: self.row,
                column: self.names[column].clone(),
                found: list.len(),
                expected,
            });
        }
        for value in list {
            to.push(number(value).ok_or_else(|| self.not_a_number(column, value))?);
        }
        Ok(())
    }

    fn label(&self, column: usize) -> Result<String> {
        let value = self.value(column)?;
        text(value).ok_or_else(|| self.bad_line("a label must be a number or text"))
    }

    fn push_id(&self, column: usize, to: &mut Values) -> Result<()> {
        let value = self.value(column)?;
        let wrong = || self.not_a_number(column, value);
        match to {
            Values::Int(ids) => ids.push(value.as_i64().ok_or_else(wrong)?),
            Values::F64(ids) => ids.push(value.as_f64().ok_or_else(wrong)?),
            Values::Text(ids) => ids.push(text(value).unwrap_or_else(|| value.to_string())),
            _ => unreachable!("ids are of one of three types"),
        }
        Ok(())
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(u8::from(*value).to_string()),
        _ => None,
    }
}

fn open(data: &DataRef, options: &ReadOptions, wanted: Wanted) -> Result<Opened> {
    let table = JsonTable::open(data.path())?;
    let is_list = |column: usize| matches!(table.values[column], Some(Value::Array(_)));
    let header = Header {
        names: &table.names,
        named: true,
        is_list: &is_list,
    };
    let columns = columns::find(data, &header, options, wanted)?;
    let classes = match &columns.scores {
        ScoreColumns::Wide(columns) => columns.len(),
        ScoreColumns::List(column) => table.value(*column)?.as_array().map_or(0, Vec::len),
    };
    let ids = columns.ids.iter();
    let ids = ids.map(|&column| (table.names[column].clone(), table.id_type(column)));
    let ids = ids.collect();
    Ok(text_table::open(table, columns, classes, ids))
}

/// Starts a file. With class names every class has a key, otherwise the scores are a list.
fn create(file: AtomicFile, spec: &OutputSpec) -> Result<Box<dyn ScoreSink>> {
    let path = file.path().to_path_buf();
    let file = Packing::create(file)?;
    let key = |name: &str| Value::from(name).to_string();
    let ids: Vec<String> = spec.ids.iter().map(|(name, _)| key(name)).collect();
    let keys_of = |names: Vec<String>| names.iter().map(|name| key(name)).collect();
    let scores = (spec.class_names.is_some()).then(|| keys_of(spec.column_names()));
    let keys = Keys {
        ids,
        scores,
        list: key(spec.array_name()),
    };
    let encode = move |rows: ScoreRows<'_>, ids: &[IdValues], buffer: &mut Vec<u8>| match rows {
        ScoreRows::F32(rows) => keys.write(&rows, ids, buffer),
        ScoreRows::F64(rows) => keys.write(&rows, ids, buffer),
    };
    EncodedSink::start(path, file, PackedFile::finish, b"", encode)
}

/// The keys of a file that is written, as JSON text.
struct Keys {
    ids: Vec<String>,
    /// One for each class, or a list.
    scores: Option<Vec<String>>,
    list: String,
}

impl Keys {
    fn write<T: fmt::Debug>(
        &self,
        rows: &ndarray::ArrayView2<'_, T>,
        ids: &[IdValues],
        buffer: &mut Vec<u8>,
    ) {
        let works = "memory can be written to";
        for (place, row) in rows.rows().into_iter().enumerate() {
            buffer.push(b'{');
            for (key, values) in self.ids.iter().zip(ids) {
                let value = match values {
                    IdValues::Integer(values) => Value::from(values[place]),
                    IdValues::Float(values) => Value::from(values[place]),
                    IdValues::Text(values) => Value::from(values[place].as_str()),
                };
                write!(buffer, "{key}:{value},").expect(works);
            }
            if self.scores.is_none() {
                write!(buffer, "{}:[", self.list).expect(works);
            }
            for (class, value) in row.iter().enumerate() {
                if class > 0 {
                    buffer.push(b',');
                }
                if let Some(keys) = &self.scores {
                    write!(buffer, "{}:", keys[class]).expect(works);
                }
                // The shortest text that reads back as the same number.
                match format!("{value:?}").as_str() {
                    "-inf" => buffer.extend(b"\"-inf\""),
                    number => buffer.extend(number.as_bytes()),
                }
            }
            buffer.extend(match self.scores {
                Some(_) => &b"}\n"[..],
                None => b"]}\n",
            });
        }
    }
}

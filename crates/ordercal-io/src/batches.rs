//! The record batches of Parquet and Arrow files.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use serde_json::Value;

use crate::array::{AnyArray, ElementType, Values};
use crate::columns::{self, Header, ScoreColumns, TableColumns};
use crate::data_ref::DataRef;
use crate::error::{Error, Result, clean};
use crate::formats::Format;
use crate::ids::IdType;
use crate::labels::to_f64;
use crate::reader::ReadOptions;
use crate::row_source::{Opened, RawRows, RowSource};

/// What the decoders of both formats give.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The names of a table's columns.
pub(crate) fn column_names(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter();
    fields.map(|field| clean(field.name())).collect()
}

thread_local! {
    /// Whether this thread is inside a decoder, whose panics become errors and are not printed.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Installs, once, a panic hook that is silent for panics inside a decoder.
fn silence_decoders() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                usual(panic);
            }
        }));
    });
}

/// Runs a decoder. The decoders of both formats panic on some damaged files; here that is an error like any other.
pub(crate) fn guarded<T, E: ToString>(
    path: &Path,
    format: Format,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    silence_decoders();
    DECODING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    let message = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the decoder panicked".to_owned(),
    };
    Err(Error::damaged(path, format, &message))
}

/// Finds the columns of a table.
pub(crate) fn find_columns(
    data: &DataRef,
    options: &ReadOptions,
    schema: &Schema,
) -> Result<TableColumns> {
    let header = Header {
        names: &column_names(schema),
        named: true,
        is_list: &|column| is_list(schema.field(column).data_type()),
    };
    columns::find(data, &header, options)
}

fn is_list(dtype: &DataType) -> bool {
    matches!(
        dtype,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    )
}

/// What a column is handed through as.
fn id_type(dtype: &DataType) -> IdType {
    match dtype {
        DataType::Dictionary(_, values) => id_type(values),
        dtype if dtype.is_integer() || *dtype == DataType::Boolean => IdType::Integer,
        dtype if dtype.is_numeric() => IdType::Float,
        _ => IdType::Text,
    }
}

/// Opens a table of scores whose batches are ready to be read.
pub(crate) fn open(
    data: &DataRef,
    options: &ReadOptions,
    format: Format,
    schema: &Schema,
    batches: Batches,
    rows: Option<usize>,
) -> Result<Opened> {
    let names = column_names(schema);
    let columns = find_columns(data, options, schema)?;
    let ids = columns.ids.iter().map(|&column| {
        let field = schema.field(column);
        (names[column].clone(), id_type(field.data_type()))
    });
    let ids = ids.collect();
    let mut source = BatchSource {
        path: data.path().to_path_buf(),
        format,
        batches,
        names,
        columns,
        classes: None,
        current: None,
        row: 0,
    };
    // The schema does not say how long lists are, so the first batch is read now.
    let classes = match &source.columns.scores {
        ScoreColumns::Wide(columns) => columns.len(),
        ScoreColumns::List(column) => {
            let column = *column;
            if !source.refill()? {
                return Err(Error::Data {
                    path: source.path,
                    split: None,
                    source: ordercal::Error::NoRows,
                });
            }
            source.first_list_length(column)?
        }
    };
    source.classes = Some(classes);
    let class_names = match source.columns.class_names.clone() {
        None => source.categories(schema)?,
        names => names,
    };
    Ok(Opened {
        kind: source.columns.kind,
        classes,
        rows,
        has_labels: source.columns.label.is_some(),
        class_names,
        split: None,
        ignored: source.columns.ignored.clone(),
        ids,
        source: Box::new(source),
    })
}

/// Whether a column was a categorical one in pandas, which describes its columns in the schema's metadata.
fn is_categorical(schema: &Schema, name: &str) -> bool {
    let described = || -> Option<bool> {
        let text = schema.metadata().get("pandas")?;
        let pandas: Value = serde_json::from_str(text).ok()?;
        let mut columns = pandas.get("columns")?.as_array()?.iter();
        let column = columns.find(|column| column["field_name"] == name)?;
        Some(column["pandas_type"] == "categorical")
    };
    described().unwrap_or(false)
}

/// Reads the labels of a table that holds nothing else of use.
pub(crate) fn read_labels(
    path: &Path,
    format: Format,
    schema: &Schema,
    mut batches: Batches,
    chosen: Option<&String>,
) -> Result<AnyArray> {
    let names = column_names(schema);
    let column = columns::label_column(path, &names, chosen)?;
    let mut all: Option<AnyArray> = None;
    let mut row = 0;
    while let Some(batch) = guarded(path, format, || batches.next().transpose())? {
        let place = ColumnPlace {
            path,
            column: &names[column],
            row,
        };
        let labels = flat(batch.column(column), &place)?;
        row += batch.num_rows();
        match &mut all {
            Some(all) => all.append(labels),
            None => all = Some(labels),
        }
    }
    Ok(all.unwrap_or_else(|| AnyArray::vector(ElementType::I64, Values::Int(Vec::new()))))
}

struct BatchSource {
    path: PathBuf,
    format: Format,
    batches: Batches,
    names: Vec<String>,
    columns: TableColumns,
    classes: Option<usize>,
    /// The rest of the last batch that was read.
    current: Option<RecordBatch>,
    row: usize,
}

impl BatchSource {
    /// Reads the next batch if the current one is used up; false after the last.
    fn refill(&mut self) -> Result<bool> {
        while self.current.as_ref().is_none_or(|b| b.num_rows() == 0) {
            let batches = &mut self.batches;
            let next = guarded(&self.path, self.format, || batches.next().transpose())?;
            match next {
                Some(batch) => self.current = Some(batch),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn place(&self, column: usize) -> ColumnPlace<'_> {
        ColumnPlace {
            path: &self.path,
            column: &self.names[column],
            row: self.row,
        }
    }

    fn first_list_length(&self, column: usize) -> Result<usize> {
        let batch = self.current.as_ref().expect("refilled just before");
        Ok(list(&batch.column(column).slice(0, 1), &self.place(column), None)?.shape[1])
    }

    /// The categories of labels that pandas wrote, in their declared order. Other dictionaries may be in the order in
    /// which values occur, which says nothing about the columns.
    fn categories(&mut self, schema: &Schema) -> Result<Option<Vec<String>>> {
        let Some(label) = self.columns.label else {
            return Ok(None);
        };
        if !is_categorical(schema, &self.names[label]) || !self.refill()? {
            return Ok(None);
        }
        let batch = self.current.as_ref().expect("refilled just before");
        let column = batch.column(label);
        if !matches!(column.data_type(), DataType::Dictionary(..)) {
            return Ok(None);
        }
        let categories = Arc::clone(column.as_any_dictionary().values());
        match values(&categories, &self.place(label))?.1 {
            Values::Text(names) if Some(names.len()) == self.classes => Ok(Some(names)),
            _ => Ok(None),
        }
    }

    fn rows_of(&self, batch: &RecordBatch) -> Result<RawRows> {
        let scores = match &self.columns.scores {
            ScoreColumns::List(column) => {
                let place = self.place(*column);
                check_number(list(batch.column(*column), &place, self.classes)?, &place)?
            }
            ScoreColumns::Wide(columns) => {
                let columns = columns.iter().map(|&column| {
                    let array = flat(batch.column(column), &self.place(column))?;
                    check_number(array, &self.place(column))
                });
                interleave(columns.collect::<Result<_>>()?, batch.num_rows())
            }
        };
        let labels = self.columns.label.map(|column| {
            let array = batch.column(column);
            if is_list(array.data_type()) {
                let classes = self.classes.map(|classes| classes.max(2));
                list(array, &self.place(column), classes)
            } else {
                flat(array, &self.place(column))
            }
        });
        let weights = self.columns.weight.map(|column| {
            let place = self.place(column);
            match flat(batch.column(column), &place)? {
                array if array.dtype.is_text() => {
                    Err(place.wrong_type("text", "weights are numbers"))
                }
                array => Ok(array),
            }
        });
        let ids = self.columns.ids.iter();
        let ids = ids.map(|&column| flat(batch.column(column), &self.place(column)));
        Ok(RawRows {
            scores,
            labels: labels.transpose()?,
            weights: weights.transpose()?,
            ids: ids.collect::<Result<_>>()?,
        })
    }
}

impl RowSource for BatchSource {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        if !self.refill()? {
            return Ok(None);
        }
        let batch = self.current.take().expect("refilled just before");
        let rows = batch.num_rows().min(max);
        let next = self.rows_of(&batch.slice(0, rows))?;
        self.current = Some(batch.slice(rows, batch.num_rows() - rows));
        self.row += rows;
        Ok(Some(next))
    }
}

/// A column and the row at which reading it starts, for errors.
struct ColumnPlace<'a> {
    path: &'a Path,
    column: &'a str,
    row: usize,
}

impl ColumnPlace<'_> {
    fn wrong_type(&self, found: &str, expected: &'static str) -> Error {
        Error::WrongDtype {
            path: self.path.to_path_buf(),
            array: self.column.to_owned(),
            found: clean(found),
            expected,
        }
    }

    fn missing(&self, row: usize) -> Error {
        Error::MissingValue {
            path: self.path.to_path_buf(),
            row: self.row + row,
            column: self.column.to_owned(),
        }
    }
}

/// The row of the first null, if a row has `per_row` values.
fn first_null(array: &dyn Array, per_row: usize) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|n| n.null_count() > 0)?;
    let position = (0..array.len()).find(|&i| nulls.is_null(i))?;
    Some(position / per_row.max(1))
}

fn check_number(array: AnyArray, place: &ColumnPlace<'_>) -> Result<AnyArray> {
    if array.dtype.is_text() {
        return Err(place.wrong_type("text", "scores are numbers"));
    }
    Ok(array)
}

/// A column of single values.
fn flat(array: &ArrayRef, place: &ColumnPlace<'_>) -> Result<AnyArray> {
    let (dtype, values) = values(array, place)?;
    if let Some(row) = first_null(array, 1) {
        return Err(place.missing(row));
    }
    Ok(AnyArray::vector(dtype, values))
}

fn values(array: &ArrayRef, place: &ColumnPlace<'_>) -> Result<(ElementType, Values)> {
    macro_rules! ints {
        ($type:ty) => {
            Values::Int(
                array
                    .as_primitive::<$type>()
                    .values()
                    .iter()
                    .map(|&v| i64::try_from(v).unwrap_or(i64::MAX))
                    .collect(),
            )
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            array.as_primitive::<$type>().values().to_vec()
        };
    }
    macro_rules! decimals {
        ($type:ty, $scale:expr) => {{
            let unit = 10_f64.powi(i32::from(*$scale));
            let values = array.as_primitive::<$type>().values().iter();
            let values = values.map(|&v| v as f64 / unit).collect();
            (ElementType::F64, Values::F64(values))
        }};
    }
    let texts = |texts: &mut dyn Iterator<Item = Option<&str>>| {
        Values::Text(texts.map(|t| t.unwrap_or_default().to_owned()).collect())
    };
    Ok(match array.data_type() {
        DataType::Float16 => (ElementType::F16, Values::F16(floats!(Float16Type))),
        DataType::Float32 => (ElementType::F32, Values::F32(floats!(Float32Type))),
        DataType::Float64 => (ElementType::F64, Values::F64(floats!(Float64Type))),
        DataType::Int8 => (ElementType::I8, ints!(Int8Type)),
        DataType::Int16 => (ElementType::I16, ints!(Int16Type)),
        DataType::Int32 => (ElementType::I32, ints!(Int32Type)),
        DataType::Int64 => (ElementType::I64, ints!(Int64Type)),
        DataType::UInt8 => (ElementType::U8, ints!(UInt8Type)),
        DataType::UInt16 => (ElementType::U16, ints!(UInt16Type)),
        DataType::UInt32 => (ElementType::U32, ints!(UInt32Type)),
        DataType::UInt64 => (ElementType::U64, ints!(UInt64Type)),
        DataType::Decimal32(_, scale) => decimals!(Decimal32Type, scale),
        DataType::Decimal64(_, scale) => decimals!(Decimal64Type, scale),
        DataType::Decimal128(_, scale) => decimals!(Decimal128Type, scale),
        DataType::Boolean => {
            let bits = array.as_boolean().values().iter();
            (
                ElementType::Bool,
                Values::Int(bits.map(i64::from).collect()),
            )
        }
        DataType::Utf8 => (
            ElementType::Text,
            texts(&mut array.as_string::<i32>().iter()),
        ),
        DataType::LargeUtf8 => (
            ElementType::Text,
            texts(&mut array.as_string::<i64>().iter()),
        ),
        DataType::Utf8View => (ElementType::Text, texts(&mut array.as_string_view().iter())),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let (dtype, values) = values(dictionary.values(), place)?;
            if let Some(row) = first_null(array, 1) {
                return Err(place.missing(row));
            }
            let keys = dictionary.normalized_keys();
            if keys.iter().any(|&key| key >= values.len()) {
                return Err(place.wrong_type("dictionary", "a key of it is out of range"));
            }
            (dtype, values.gather(keys.into_iter()))
        }
        other => {
            return Err(place.wrong_type(
                &format!("{other}"),
                "only floats, integers, booleans and text are read",
            ));
        }
    })
}

/// A column of lists, all of the same length, as a matrix. The length is `expected`, or that of the first list.
fn list(array: &ArrayRef, place: &ColumnPlace<'_>, expected: Option<usize>) -> Result<AnyArray> {
    if let Some(row) = first_null(array, 1) {
        return Err(place.missing(row));
    }
    let rows = array.len();
    let (child, start, lengths): (&ArrayRef, usize, Vec<usize>) = match array.data_type() {
        DataType::FixedSizeList(_, length) => {
            let array = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or(0);
            let start = array.value_offset_at(0);
            (array.values(), start, vec![length; rows])
        }
        DataType::List(_) => {
            let array = array.as_list::<i32>();
            let ends = array.value_offsets();
            let lengths = ends.windows(2).map(|w| (w[1] - w[0]) as usize);
            (array.values(), ends[0] as usize, lengths.collect())
        }
        DataType::LargeList(_) => {
            let array = array.as_list::<i64>();
            let ends = array.value_offsets();
            let lengths = ends.windows(2).map(|w| (w[1] - w[0]) as usize);
            (array.values(), ends[0] as usize, lengths.collect())
        }
        other => {
            return Err(place.wrong_type(
                &format!("{other}"),
                "scores are lists of floats, or one column per class",
            ));
        }
    };
    let expected = expected.or(lengths.first().copied()).unwrap_or(0);
    if let Some(row) = lengths.iter().position(|&length| length != expected) {
        return Err(Error::RaggedRow {
            path: place.path.to_path_buf(),
            row: place.row + row,
            column: place.column.to_owned(),
            found: lengths[row],
            expected,
        });
    }
    let child = child.slice(start, rows * expected);
    if let Some(row) = first_null(&child, expected) {
        return Err(place.missing(row));
    }
    let (dtype, values) = values(&child, place)?;
    Ok(AnyArray {
        shape: vec![rows, expected],
        dtype,
        values,
    })
}

/// Columns of scores as a matrix: in their own type if they share one, else as `f64`.
fn interleave(columns: Vec<AnyArray>, rows: usize) -> AnyArray {
    let shape = vec![rows, columns.len()];
    let dtype = columns.first().map_or(ElementType::F64, |c| c.dtype);
    macro_rules! weave {
        ($variant:ident) => {{
            let columns: Option<Vec<&Vec<_>>> = columns
                .iter()
                .map(|column| match &column.values {
                    Values::$variant(values) => Some(values),
                    _ => None,
                })
                .collect();
            columns.map(|columns| {
                let cells = (0..rows).flat_map(|row| columns.iter().map(move |c| c[row]));
                Values::$variant(cells.collect())
            })
        }};
    }
    let same = match dtype {
        ElementType::F16 => weave!(F16),
        ElementType::F32 => weave!(F32),
        _ => weave!(F64),
    };
    let (dtype, values) = match same {
        Some(values) => (dtype, values),
        None => {
            let columns: Vec<Vec<f64>> = columns.iter().map(|c| to_f64(&c.values)).collect();
            let cells = (0..rows).flat_map(|row| columns.iter().map(move |c| c[row]));
            (ElementType::F64, Values::F64(cells.collect()))
        }
    };
    AnyArray {
        shape,
        dtype,
        values,
    }
}

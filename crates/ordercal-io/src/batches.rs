//! The record batches of Parquet and Arrow files.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use serde_json::Value;

use crate::array::{AnyArray, Values};
use crate::arrow_columns::{
    ColumnPlace, check_number, column_names, flat, interleave, is_list, list_values, values,
    weights_of,
};
use crate::columns::{ScoreColumns, TableColumns};
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::ids::IdType;
use crate::row_source::{Opened, RawRows, RowSource};

/// What the decoders of both formats give.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

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
    format: Format,
    columns: TableColumns,
    schema: &Schema,
    batches: Batches,
    rows: Option<usize>,
) -> Result<Opened> {
    let names = column_names(schema);
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
                return Err(Error::data(&source.path, ordercal::Error::NoRows));
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
            if is_list(array.data_type()) && self.classes != Some(0) {
                let classes = self.classes.map(|classes| classes.max(2));
                list(array, &self.place(column), classes)
            } else {
                flat(array, &self.place(column))
            }
        });
        let weights = self.columns.weight;
        let weights = weights.map(|column| weights_of(batch.column(column), &self.place(column)));
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

/// A column of lists, all of the same length, as a matrix. The length is `expected`, or that of the first list.
fn list(array: &ArrayRef, place: &ColumnPlace<'_>, expected: Option<usize>) -> Result<AnyArray> {
    let (child, width) = list_values(array, place, expected)?;
    let (dtype, values) = values(&child, place)?;
    Ok(AnyArray {
        shape: vec![array.len(), width],
        dtype,
        values,
    })
}

//! Writing Parquet and Arrow files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use ndarray::ArrayView2;

use crate::atomic::AtomicFile;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::ids::{IdType, IdValues};
use crate::writer::{OutputSpec, OutputType, ScoreRows, ScoreSink};

/// Values in a row group: enough to compress well, few enough to be buffered in memory.
const GROUP_VALUES: usize = 1 << 22;

struct BatchWriter {
    path: PathBuf,
    schema: SchemaRef,
    writer: Encoder,
}

enum Encoder {
    Parquet(Box<ArrowWriter<AtomicFile>>),
    Arrow(Box<FileWriter<AtomicFile>>),
}

/// Starts a file with one column per class.
pub(crate) fn create(
    file: AtomicFile,
    format: Format,
    spec: &OutputSpec,
) -> Result<Box<dyn ScoreSink>> {
    let path = file.path().to_path_buf();
    let dtype = match spec.dtype {
        OutputType::F32 => DataType::Float32,
        OutputType::F64 => DataType::Float64,
    };
    let ids = spec.ids.iter().map(|(name, id_type)| {
        let dtype = match id_type {
            IdType::Integer => DataType::Int64,
            IdType::Float => DataType::Float64,
            IdType::Text => DataType::Utf8,
        };
        Field::new(name, dtype, false)
    });
    let names = spec.column_names().into_iter();
    let scores = names.map(|name| Field::new(name, dtype.clone(), false));
    let fields: Vec<Field> = ids.chain(scores).collect();
    let schema = Arc::new(Schema::new(fields));
    let writer = if format == Format::Parquet {
        let rows = (GROUP_VALUES / spec.classes.max(1)).max(1024);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            // Scores hardly repeat, so that dictionary encoding would only cost time.
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(rows))
            .build();
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties));
        Encoder::Parquet(Box::new(writer.map_err(|e| write_error(&path, e))?))
    } else {
        let writer = FileWriter::try_new(file, &schema);
        Encoder::Arrow(Box::new(writer.map_err(|e| write_error(&path, e))?))
    };
    Ok(Box::new(BatchWriter {
        path,
        schema,
        writer,
    }))
}

impl ScoreSink for BatchWriter {
    fn write(&mut self, rows: ScoreRows<'_>, ids: &[IdValues]) -> Result<()> {
        let mut columns: Vec<ArrayRef> = ids.iter().map(id_column).collect();
        columns.extend(match rows {
            ScoreRows::F32(rows) => score_columns::<Float32Type>(rows),
            ScoreRows::F64(rows) => score_columns::<Float64Type>(rows),
        });
        let path = &self.path;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(|e| write_error(path, e))?;
        match &mut self.writer {
            Encoder::Parquet(w) => w.write(&batch).map_err(|e| write_error(path, e)),
            Encoder::Arrow(w) => w.write(&batch).map_err(|e| write_error(path, e)),
        }
    }

    fn finish(self: Box<Self>) -> Result<AtomicFile> {
        let path = self.path;
        match self.writer {
            Encoder::Parquet(w) => w.into_inner().map_err(|e| write_error(&path, e)),
            Encoder::Arrow(w) => w.into_inner().map_err(|e| write_error(&path, e)),
        }
    }
}

fn id_column(values: &IdValues) -> ArrayRef {
    match values {
        IdValues::Integer(values) => Arc::new(Int64Array::from(values.clone())),
        IdValues::Float(values) => Arc::new(Float64Array::from(values.clone())),
        IdValues::Text(values) => Arc::new(StringArray::from_iter_values(values)),
    }
}

fn score_columns<T: ArrowPrimitiveType>(rows: ArrayView2<'_, T::Native>) -> Vec<ArrayRef> {
    let columns = rows.columns().into_iter().map(|column| {
        let values = column.iter().copied();
        Arc::new(PrimitiveArray::<T>::from_iter_values(values)) as ArrayRef
    });
    columns.collect()
}

/// While writing, encoders fail only if the disk does.
fn write_error(path: &Path, error: impl Into<ArrowError>) -> Error {
    let error = match error.into() {
        ArrowError::IoError(_, error) => error,
        other => std::io::Error::other(other),
    };
    Error::io(path, "write", error)
}

//! Parquet: read in batches, and only the columns that are needed.

use std::path::Path;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use arrow_schema::SchemaRef;

use crate::arrow_columns::find_columns;
use crate::batch_writer;
use crate::batches::{self, Batches, guarded};
use crate::columns::TableColumns;
use crate::data_ref::{self, DataRef};
use crate::error::{Error, Result};
use crate::formats::{Codec, Format, OutputLayout, Reading, Writing};
use crate::reader::ReadOptions;
use crate::row_source::{Opened, Wanted};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table(open),
    write: Some(Writing {
        layout: OutputLayout::Table,
        create: |file, spec| batch_writer::create(file, Format::Parquet, spec),
    }),
};

/// Rows in a batch, and values, which lists may have millions of in a row.
const BATCH_ROWS: usize = 8192;
const BATCH_VALUES: usize = 1 << 22;

/// A file may hold this many values in any case, …
const FEW_VALUES: u64 = 1 << 24;

/// … and above that this many for each of its bytes. Only runs of one value take less than an eighth of a byte.
const VALUES_PER_BYTE: u64 = 64;

type Builder = ParquetRecordBatchReaderBuilder<std::fs::File>;

fn builder(path: &Path) -> Result<Builder> {
    let (file, _, magic) = data_ref::open_with_magic(path)?;
    if !magic.starts_with(b"PAR1") {
        return Err(Error::wrong_magic(path, Format::Parquet, magic));
    }
    guarded(path, Format::Parquet, || Builder::try_new(file))
}

fn project(path: &Path, builder: Builder, columns: Vec<usize>) -> Result<(SchemaRef, Batches)> {
    let schema_metadata = builder.schema().metadata().clone();
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
    let metadata = builder.metadata();
    let (mut rows, mut values, mut bytes) = (0_u64, 0_u64, 0_u64);
    for group in metadata.row_groups() {
        rows = rows.saturating_add(group.num_rows().max(0) as u64);
        for (leaf, column) in group.columns().iter().enumerate() {
            if mask.leaf_included(leaf) {
                values = values.saturating_add(column.num_values().max(0) as u64);
                bytes = bytes.saturating_add(column.compressed_size().max(0) as u64);
            }
        }
    }
    if values > FEW_VALUES.saturating_add(bytes.saturating_mul(VALUES_PER_BYTE)) {
        let message = format!(
            "it claims {values} values in {bytes} bytes, more than {VALUES_PER_BYTE} for each byte; if that is meant, \
             write it again without compression"
        );
        return Err(Error::damaged(path, Format::Parquet, &message));
    }
    let per_row = usize::try_from(values / rows.max(1)).unwrap_or(usize::MAX);
    let batch = (BATCH_VALUES / per_row.max(1)).clamp(1, BATCH_ROWS);
    let builder = builder.with_projection(mask).with_batch_size(batch);
    let reader = guarded(path, Format::Parquet, || builder.build())?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let schema = schema.as_ref().clone().with_metadata(schema_metadata);
    Ok((schema.into(), Box::new(reader)))
}

fn open(data: &DataRef, options: &ReadOptions, wanted: Wanted) -> Result<Opened> {
    let path = data.path();
    let builder = builder(path)?;
    let columns = find_columns(data, options, wanted, builder.schema())?;
    let rows = builder.metadata().file_metadata().num_rows();
    let rows = usize::try_from(rows).ok();
    let (schema, batches) = project(path, builder, columns.columns())?;
    // The batches have only the columns that are read.
    let read = TableColumns {
        ignored: columns.ignored,
        ..find_columns(data, options, wanted, &schema)?
    };
    batches::open(data, Format::Parquet, read, &schema, batches, rows)
}

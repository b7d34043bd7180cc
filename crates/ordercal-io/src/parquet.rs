//! Parquet: read in batches, and only the columns that are needed.

use std::path::Path;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use arrow_schema::SchemaRef;

use crate::array::AnyArray;
use crate::batch_writer;
use crate::batches::{self, Batches, column_names, guarded};
use crate::columns;
use crate::data_ref::{self, DataRef};
use crate::error::{Error, Result};
use crate::formats::{Codec, Format, Reading, Writing};
use crate::reader::ReadOptions;
use crate::row_source::Opened;

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table {
        open,
        labels: read_labels,
    },
    write: Some(Writing {
        needs_row_count: false,
        create: |file, spec| batch_writer::create(file, Format::Parquet, spec),
    }),
};

const BATCH_ROWS: usize = 8192;

type Builder = ParquetRecordBatchReaderBuilder<std::fs::File>;

fn builder(path: &Path) -> Result<Builder> {
    let (mut file, size) = data_ref::open(path)?;
    let mut magic = [0_u8; 4];
    if size >= 4 {
        use std::io::{Read, Seek};
        file.read_exact(&mut magic)
            .and_then(|()| file.rewind())
            .map_err(|e| Error::io(path, "read", e))?;
    }
    if magic != *b"PAR1" {
        return Err(Error::WrongMagic {
            path: path.to_path_buf(),
            format: Format::Parquet,
            found: magic.to_vec(),
        });
    }
    guarded(path, Format::Parquet, || Builder::try_new(file))
}

fn project(path: &Path, builder: Builder, columns: Vec<usize>) -> Result<(SchemaRef, Batches)> {
    let metadata = builder.schema().metadata().clone();
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
    let builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    let reader = guarded(path, Format::Parquet, || builder.build())?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let schema = schema.as_ref().clone().with_metadata(metadata);
    Ok((schema.into(), Box::new(reader)))
}

/// Opens a table of scores.
fn open(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let path = data.path();
    let builder = builder(path)?;
    let names = column_names(builder.schema());
    let columns = columns::find(data, &names, true, options)?;
    let rows = builder.metadata().file_metadata().num_rows();
    let rows = usize::try_from(rows).ok();
    let (schema, batches) = project(path, builder, columns.columns())?;
    let opened = batches::open(data, options, Format::Parquet, &schema, batches, rows)?;
    // The batches have only the columns that are read.
    Ok(Opened {
        ignored: columns.ignored,
        ..opened
    })
}

/// Reads the only column, or the one named `label`.
fn read_labels(path: &Path) -> Result<AnyArray> {
    let builder = builder(path)?;
    let column = columns::label_column(path, &column_names(builder.schema()))?;
    let (schema, batches) = project(path, builder, vec![column])?;
    batches::read_labels(path, Format::Parquet, &schema, batches)
}

//! Arrow IPC, both the file format and the stream format.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::SchemaRef;

use crate::array::AnyArray;
use crate::arrow_check::{check_file, check_stream};
use crate::batch_writer;
use crate::batches::{self, Batches, guarded};
use crate::data_ref::{self, DataRef};
use crate::error::{Error, Result};
use crate::formats::{Codec, Format, OutputLayout, Reading, Writing};
use crate::reader::ReadOptions;
use crate::row_source::Opened;

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table {
        open,
        labels: read_labels,
    },
    write: Some(Writing {
        needs_row_count: false,
        layout: OutputLayout::Table,
        create: |file, spec| batch_writer::create(file, Format::Arrow, spec),
    }),
};

/// Opens either format: files start with a magic number, streams with the marker of their first message.
fn open_batches(path: &Path) -> Result<(SchemaRef, Batches)> {
    let (mut file, size) = data_ref::open(path)?;
    let mut magic = [0_u8; 8];
    let length = size.min(8) as usize;
    file.read_exact(&mut magic[..length])
        .map_err(|e| Error::io(path, "read", e))?;
    if magic.starts_with(b"ARROW1") {
        check_file(path, &mut file, size)?;
        rewind(path, &mut file)?;
        let reader = BufReader::new(file);
        let reader = guarded(path, Format::Arrow, || FileReader::try_new(reader, None))?;
        return Ok((reader.schema(), Box::new(reader)));
    }
    if magic.starts_with(b"FEA1") {
        let message = "this is version 1 of Feather; save it again with pyarrow 0.17 or newer";
        return Err(Error::damaged(path, Format::Arrow, message));
    }
    if magic[..4] != [0xff; 4] {
        return Err(Error::WrongMagic {
            path: path.to_path_buf(),
            format: Format::Arrow,
            found: magic[..length].to_vec(),
        });
    }
    check_stream(path, &mut file, size)?;
    rewind(path, &mut file)?;
    let reader = BufReader::new(file);
    let reader = guarded(path, Format::Arrow, || StreamReader::try_new(reader, None))?;
    Ok((reader.schema(), Box::new(reader)))
}

fn rewind(path: &Path, file: &mut File) -> Result<()> {
    file.rewind().map_err(|e| Error::io(path, "read", e))
}

/// Opens a table of scores.
fn open(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let (schema, batches) = open_batches(data.path())?;
    batches::open(data, options, Format::Arrow, &schema, batches, None)
}

/// Reads the labels of a table that holds nothing else of use.
fn read_labels(path: &Path, options: &ReadOptions) -> Result<AnyArray> {
    let (schema, batches) = open_batches(path)?;
    let chosen = options.columns.label.as_ref();
    batches::read_labels(path, Format::Arrow, &schema, batches, chosen)
}

//! Arrow IPC, both the file format and the stream format.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;

use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::SchemaRef;

use crate::arrow_check::{check_file, check_stream};
use crate::arrow_columns::find_columns;
use crate::batch_writer;
use crate::batches::{self, Batches, guarded};
use crate::data_ref::{self, DataRef};
use crate::error::{Error, Result};
use crate::formats::{Codec, Format, OutputLayout, Reading, Writing};
use crate::reader::ReadOptions;
use crate::row_source::{Opened, Wanted};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Table(open),
    write: Some(Writing {
        layout: OutputLayout::Table,
        create: |file, spec| batch_writer::create(file, Format::Arrow, spec),
    }),
};

/// Opens either format: files start with a magic number, streams with the marker of their first message.
fn open_batches(path: &Path) -> Result<(SchemaRef, Batches)> {
    let (mut file, size, magic) = data_ref::open_with_magic(path)?;
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
    if !magic.starts_with(&[0xff; 4]) {
        return Err(Error::wrong_magic(path, Format::Arrow, magic));
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

fn open(data: &DataRef, options: &ReadOptions, wanted: Wanted) -> Result<Opened> {
    let (schema, batches) = open_batches(data.path())?;
    let columns = find_columns(data, options, wanted, &schema)?;
    batches::open(data, Format::Arrow, columns, &schema, batches, None)
}

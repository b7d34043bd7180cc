//! `.arrow`, `.feather`: Arrow IPC, both the file format and the stream format.

use std::io::{BufReader, Read, Seek};
use std::path::Path;

use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::SchemaRef;

use crate::array::AnyArray;
use crate::batches::{self, Batches, guarded};
use crate::blocks::Opened;
use crate::error::{Error, Result};
use crate::reader::ReadOptions;
use crate::source::{self, DataRef, Format};

/// Opens either format: files start with a magic, streams with the size of their first message.
fn open_batches(path: &Path) -> Result<(SchemaRef, Batches)> {
    let (mut file, size) = source::open(path)?;
    let mut magic = [0_u8; 8];
    let length = size.min(8) as usize;
    file.read_exact(&mut magic[..length])
        .and_then(|()| file.rewind())
        .map_err(|e| Error::io(path, "read", e))?;
    if magic.starts_with(b"ARROW1") {
        let reader = BufReader::new(file);
        let reader = guarded(path, Format::Arrow, || FileReader::try_new(reader, None))?;
        return Ok((reader.schema(), Box::new(reader)));
    }
    // A stream starts with a marker and the size of the schema, which must be in the file.
    let schema_size = u32::from_le_bytes([magic[4], magic[5], magic[6], magic[7]]);
    if magic[..4] != [0xff; 4] || u64::from(schema_size) > size {
        return Err(Error::WrongMagic {
            path: path.to_path_buf(),
            format: Format::Arrow,
            found: magic[..length].to_vec(),
        });
    }
    let reader = BufReader::new(file);
    let reader = guarded(path, Format::Arrow, || StreamReader::try_new(reader, None))?;
    Ok((reader.schema(), Box::new(reader)))
}

/// Opens a table of scores.
pub(crate) fn open(data: &DataRef, options: &ReadOptions) -> Result<Opened> {
    let (schema, batches) = open_batches(data.path())?;
    batches::open(data, options, Format::Arrow, &schema, batches, None)
}

/// The labels of a table that holds nothing else, or has a column `label`.
pub(crate) fn read_labels(path: &Path) -> Result<AnyArray> {
    let (schema, batches) = open_batches(path)?;
    batches::read_labels(path, Format::Arrow, &schema, batches)
}

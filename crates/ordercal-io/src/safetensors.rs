//! Tensors with names: a JSON header with the position of each, then their bytes.

use std::io::Read;
use std::path::Path;

use ::safetensors::tensor::{Dtype, Metadata};

use crate::archive::UnreadableType;
use crate::array::ElementType;
use crate::array_reader::{FlatFile, Layout};
use crate::data_ref;
use crate::error::{Error, Result};
use crate::formats::{Codec, Format, OutputLayout, Reading, Writing};
use crate::writer::{EncodedSink, OutputSpec};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Archive(|path| Ok(Box::new(open(path)?))),
    write: Some(Writing {
        layout: OutputLayout::Array,
        create: |file, spec| EncodedSink::flat(file, &header(spec)),
    }),
};

/// The format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;

/// Opens a file and checks the sizes in its header.
pub(crate) fn open(path: &Path) -> Result<FlatFile> {
    let (mut file, size) = data_ref::open(path)?;
    let truncated = |offset: u64, needed: u64, available: u64| {
        Error::truncated(path, "the header", offset, u128::from(needed), available)
    };
    if size < 8 {
        return Err(truncated(0, 8, size));
    }
    let mut length = [0_u8; 8];
    file.read_exact(&mut length)
        .map_err(|e| Error::io(path, "read", e))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER {
        return Err(Error::Malformed {
            path: path.to_path_buf(),
            what: "the header".into(),
            offset: 0,
            problem: "the header claims to be longer than 100 MB, so this is no safetensors file",
        });
    }
    if length > size - 8 {
        return Err(truncated(8, length, size - 8));
    }
    let mut header = vec![0_u8; length as usize];
    file.read_exact(&mut header)
        .map_err(|e| Error::io(path, "read", e))?;
    let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| {
        let message = format!("the header is wrong: {e}");
        Error::damaged(path, Format::Safetensors, &message)
    })?;
    let start = 8 + length;
    let mut file = FlatFile::new(path, size);
    let names = metadata.metadata().as_ref();
    let names = names.and_then(|metadata| metadata.get("class_names"));
    file.class_names = names.and_then(|names| serde_json::from_str(names).ok());
    for name in metadata.offset_keys() {
        let info = metadata.info(&name).expect("the key was just listed");
        let layout = dtype_of(info.dtype).map(|dtype| Layout {
            dtype,
            big_endian: false,
            fortran: false,
            shape: info.shape.clone(),
        });
        let offset = start + info.data_offsets.0 as u64;
        file.add(&name, layout, info.shape.clone(), offset)?;
    }
    Ok(file)
}

fn dtype_of(dtype: Dtype) -> Result<ElementType, UnreadableType> {
    Ok(match dtype {
        Dtype::BOOL => ElementType::Bool,
        Dtype::I8 => ElementType::I8,
        Dtype::I16 => ElementType::I16,
        Dtype::I32 => ElementType::I32,
        Dtype::I64 => ElementType::I64,
        Dtype::U8 => ElementType::U8,
        Dtype::U16 => ElementType::U16,
        Dtype::U32 => ElementType::U32,
        Dtype::U64 => ElementType::U64,
        Dtype::F16 => ElementType::F16,
        Dtype::BF16 => ElementType::Bf16,
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
        other => return Err(UnreadableType::Other(format!("{other:?}"))),
    })
}

/// The header of one tensor, padded so that the values start at a multiple of 8.
fn header(spec: &OutputSpec) -> Vec<u8> {
    let rows = spec.rows.unwrap_or(0);
    let size = spec.dtype.size();
    let mut json = format!(
        "{{\"{}\":{{\"dtype\":\"F{}\",\"shape\":[{rows},{}],\"data_offsets\":[0,{}]}}}}",
        spec.array_name(),
        size * 8,
        spec.classes,
        rows * spec.classes * size
    );
    json.push_str(&" ".repeat(json.len().next_multiple_of(8) - json.len()));
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json.as_bytes());
    header
}

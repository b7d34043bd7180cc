//! Tensors that `torch.save` wrote: a zip archive with a pickle and, beside it, the bytes of each storage.
//!
//! The pickle is run by the same interpreter as others, which can build tensors and containers and nothing else.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use crate::data_ref;
use crate::error::{Error, Result};
use crate::formats::{Codec, Format, Reading};
use crate::pickle::{Pickle, StorageBytes};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Archive(|path| Ok(Box::new(open(path)?))),
    write: None,
};

/// The longest pickle: it holds no values, only shapes.
const LONGEST_PICKLE: u64 = 64 << 20;

fn open(path: &Path) -> Result<Pickle> {
    let (mut file, size) = data_ref::open(path)?;
    let mut magic = Vec::new();
    (&mut file)
        .take(4)
        .read_to_end(&mut magic)
        .map_err(|e| Error::io(path, "read", e))?;
    if magic.first() == Some(&0x80) {
        return Err(refuse(
            path,
            "it is in the format of PyTorch before 1.6; load it and save it again with a newer version",
        ));
    }
    if !magic.starts_with(b"PK") {
        return Err(Error::WrongMagic {
            path: path.to_path_buf(),
            format: Format::Torch,
            found: magic,
        });
    }
    let archive = ZipArchive::new(BufReader::new(file));
    let mut archive = archive.map_err(|e| refuse(path, &e.to_string()))?;
    let mut members = BTreeMap::new();
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index);
        let member = member.map_err(|e| refuse(path, &e.to_string()))?;
        let name = member.name().map_err(|e| refuse(path, &e.to_string()))?;
        if member.compression() != CompressionMethod::Stored || member.encrypted() {
            return Err(refuse(
                path,
                "a part of it is compressed, as torch.save does not do",
            ));
        }
        let bytes = StorageBytes {
            start: member.data_start().unwrap_or(u64::MAX),
            length: member.compressed_size(),
        };
        let end = bytes.start.checked_add(bytes.length);
        if end.is_none_or(|end| end > size) {
            return Err(Error::Truncated {
                path: path.to_path_buf(),
                what: format!("`{}`", crate::error::clean(&name)),
                offset: bytes.start,
                needed: u128::from(bytes.length),
                available: size.saturating_sub(bytes.start),
            });
        }
        members.insert(name.to_string(), bytes);
    }
    let (folder, pickle) = members
        .iter()
        .find_map(|(name, bytes)| Some((name.strip_suffix("data.pkl")?.to_owned(), *bytes)))
        .ok_or_else(|| refuse(path, "it has no data.pkl, so torch.save did not write it"))?;
    if pickle.length > LONGEST_PICKLE {
        return Err(refuse(path, "its data.pkl is longer than 64 MiB"));
    }
    if let Some(order) = members.get(&format!("{folder}byteorder"))
        && order.length <= 16
        && order.read(path, 0, order.length)? == b"big"
    {
        return Err(refuse(path, "its numbers are big-endian"));
    }
    let storages = format!("{folder}data/");
    let storages = members.into_iter().filter_map(|(name, bytes)| {
        let key = name.strip_prefix(&storages)?;
        Some((key.to_owned(), bytes))
    });
    Pickle::with_storages(
        path,
        pickle.read(path, 0, pickle.length)?,
        storages.collect(),
    )
}

fn refuse(path: &Path, message: &str) -> Error {
    Error::damaged(path, Format::Torch, message)
}

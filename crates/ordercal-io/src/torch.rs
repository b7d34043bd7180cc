//! Tensors that `torch.save` wrote: a zip archive with a pickle and, beside it, the bytes of each storage.
//!
//! The pickle is run by the same interpreter as others, which can build tensors and containers and nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::formats::{Codec, Format, Reading};
use crate::npz::zip_members;
use crate::pickle::{Pickle, StorageBytes};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Archive(|path| Ok(Box::new(open(path)?))),
    write: None,
};

/// The longest pickle: it holds no values, only shapes.
const LONGEST_PICKLE: u64 = 64 << 20;

fn open(path: &Path) -> Result<Pickle> {
    let members = zip_members(path, Format::Torch).map_err(|error| match error {
        Error::WrongMagic { found, .. } if found.first() == Some(&0x80) => refuse(
            path,
            "it is in the format of PyTorch before 1.6; load it and save it again with a newer version",
        ),
        error => error,
    })?;
    if members.iter().any(|(_, member)| member.deflated) {
        let problem = "a part of it is compressed, as torch.save does not do";
        return Err(refuse(path, problem));
    }
    let members = members.into_iter().map(|(name, member)| {
        let bytes = StorageBytes {
            start: member.start,
            length: member.packed,
        };
        (name, bytes)
    });
    let members: BTreeMap<String, StorageBytes> = members.collect();
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

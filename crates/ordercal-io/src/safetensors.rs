//! `.safetensors`: a JSON header with the place of each tensor, then their bytes.

use std::io::Read;
use std::path::{Path, PathBuf};

use ::safetensors::tensor::{Dtype as TensorType, Metadata};

use crate::archive::{Archive, Entry, Foreign};
use crate::array::Dtype;
use crate::error::{Error, Result, clean};
use crate::raw::{ArrayReader, Layout};
use crate::source::{self, Format};

/// The format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;

/// An opened `.safetensors` file.
pub(crate) struct Safetensors {
    path: PathBuf,
    entries: Vec<Entry>,
    starts: Vec<u64>,
    class_names: Option<Vec<String>>,
}

impl Safetensors {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (mut file, size) = source::open(path)?;
        let truncated = |offset: u64, needed: u64, available: u64| Error::Truncated {
            path: path.to_path_buf(),
            what: "the header".into(),
            offset,
            needed: u128::from(needed),
            available,
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
        Self::from_metadata(path, &metadata, 8 + length, size)
    }

    fn from_metadata(path: &Path, metadata: &Metadata, start: u64, size: u64) -> Result<Self> {
        let mut file = Self {
            path: path.to_path_buf(),
            entries: Vec::new(),
            starts: Vec::new(),
            class_names: metadata
                .metadata()
                .as_ref()
                .and_then(|m| m.get("class_names"))
                .and_then(|names| serde_json::from_str(names).ok()),
        };
        for name in metadata.offset_keys() {
            let info = metadata.info(&name).expect("the key was just listed");
            let (from, to) = info.data_offsets;
            let available = size - start;
            if to as u64 > available {
                return Err(Error::Truncated {
                    path: path.to_path_buf(),
                    what: format!("`{}`", clean(&name)),
                    offset: start + from as u64,
                    needed: (to - from) as u128,
                    available: available.saturating_sub(from as u64),
                });
            }
            file.starts.push(start + from as u64);
            let dtype = dtype_of(info.dtype);
            file.entries
                .push(Entry::new(&name, dtype, info.shape.clone()));
        }
        Ok(file)
    }

    /// The names in the metadata under `class_names`, a JSON list.
    pub(crate) fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }
}

impl Archive for Safetensors {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn reader(&self, index: usize) -> Result<ArrayReader> {
        let entry = &self.entries[index];
        let layout = Layout {
            dtype: entry.dtype_or_error(&self.path)?,
            big_endian: false,
            fortran: false,
            shape: entry.shape.clone(),
        };
        let (file, size) = source::open(&self.path)?;
        let start = self.starts[index];
        layout.check_fits(&self.path, &entry.name, start, size.saturating_sub(start))?;
        ArrayReader::file(&self.path, &entry.name, layout, file, start)
    }
}

fn dtype_of(dtype: TensorType) -> Result<Dtype, Foreign> {
    Ok(match dtype {
        TensorType::BOOL => Dtype::Bool,
        TensorType::I8 => Dtype::I8,
        TensorType::I16 => Dtype::I16,
        TensorType::I32 => Dtype::I32,
        TensorType::I64 => Dtype::I64,
        TensorType::U8 => Dtype::U8,
        TensorType::U16 => Dtype::U16,
        TensorType::U32 => Dtype::U32,
        TensorType::U64 => Dtype::U64,
        TensorType::F16 => Dtype::F16,
        TensorType::BF16 => Dtype::Bf16,
        TensorType::F32 => Dtype::F32,
        TensorType::F64 => Dtype::F64,
        other => return Err(Foreign::Other(format!("{other:?}"))),
    })
}

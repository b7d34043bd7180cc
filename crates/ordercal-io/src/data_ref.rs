//! Which data is meant: a file, or one split of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::packing::Packing;
use crate::spool::{self, STDIN};

/// A file, and which of its splits is meant: what a user types as `FILE` or `FILE#SPLIT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DataRef {
    path: PathBuf,
    split: Option<String>,
}

impl DataRef {
    /// A file as a whole.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            split: None,
        }
    }

    /// The same file with one of its splits picked.
    #[must_use]
    pub fn with_split(self, split: impl Into<String>) -> Self {
        Self {
            split: Some(split.into()),
            ..self
        }
    }

    /// Parses `FILE` or `FILE#SPLIT`; `-` is standard input. If a file exists whose name is the whole text, with the `#`, that file is meant.
    pub fn parse(text: impl AsRef<OsStr>) -> Self {
        let text = text.as_ref();
        if text == "-" {
            return Self::new(STDIN);
        }
        if let Some((path, split)) = split_at_hash(text)
            && path == "-"
        {
            return Self::new(STDIN).with_split(split);
        }
        if Path::new(text).exists() {
            return Self::new(text);
        }
        match split_at_hash(text) {
            Some((path, split)) if !path.is_empty() && !split.is_empty() => {
                Self::new(path).with_split(split)
            }
            _ => Self::new(text),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The split, if one was picked.
    pub fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }
}

impl fmt::Display for DataRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.split {
            Some(split) => write!(f, "#{split}"),
            None => Ok(()),
        }
    }
}

/// Splits at the last `#`. The name of the file may be any bytes, that of the split must be UTF-8.
#[cfg(unix)]
fn split_at_hash(text: &OsStr) -> Option<(OsString, String)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    let hash = bytes.iter().rposition(|&b| b == b'#')?;
    let split = String::from_utf8(bytes[hash + 1..].to_vec()).ok()?;
    Some((OsStr::from_bytes(&bytes[..hash]).to_os_string(), split))
}

#[cfg(not(unix))]
fn split_at_hash(text: &OsStr) -> Option<(OsString, String)> {
    let (path, split) = text.to_str()?.rsplit_once('#')?;
    Some((path.into(), split.to_owned()))
}

/// Opens a file to read and returns its size. Folders and empty files are refused, for all formats alike. Of a pipe
/// or a compressed file a plain copy is opened.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    open_as(path, &spool::plain_file(path)?)
}

/// Opens a file to read from front to back; a compressed one is unpacked on the way.
pub(crate) fn open_stream(path: &Path) -> Result<Box<dyn Read + Send>> {
    let packing = Packing::of(path).0;
    if packing == Packing::None || !path.is_file() {
        return Ok(Box::new(open(path)?.0));
    }
    let (file, size) = open_as(path, path)?;
    packing.unpack(path, file, size)
}

/// Opens `plain`; errors name `path`.
pub(crate) fn open_as(path: &Path, plain: &Path) -> Result<(File, u64)> {
    let file = File::open(plain).map_err(|e| Error::io(path, "read", e))?;
    let metadata = file.metadata().map_err(|e| Error::io(path, "read", e))?;
    if metadata.is_dir() {
        return Err(Error::IsDirectory {
            path: path.to_path_buf(),
        });
    }
    if metadata.is_file() && metadata.len() == 0 {
        return Err(Error::Empty {
            path: path.to_path_buf(),
        });
    }
    Ok((file, metadata.len()))
}

/// Opens a file to read, and returns its size and its first bytes, at most eight.
pub(crate) fn open_with_magic(path: &Path) -> Result<(File, u64, Vec<u8>)> {
    let (mut file, size) = open(path)?;
    let mut magic = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut magic)
        .and_then(|_| file.rewind())
        .map_err(|e| Error::io(path, "read", e))?;
    Ok((file, size, magic))
}

/// Reads a whole file, for formats that are decoded in memory.
pub(crate) fn read_all(path: &Path) -> Result<Vec<u8>> {
    let (mut file, size) = open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.read_to_end(&mut bytes)
        .map_err(|e| Error::io(path, "read", e))?;
    if bytes.is_empty() {
        return Err(Error::Empty {
            path: path.to_path_buf(),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_splits_unless_the_file_is_called_so() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("run#3.npz");
        std::fs::write(&odd, b"x").unwrap();
        assert_eq!(DataRef::parse(&odd), DataRef::new(&odd));

        let mut text = odd.clone().into_os_string();
        text.push("#calib");
        assert_eq!(
            DataRef::parse(&text),
            DataRef::new(&odd).with_split("calib")
        );
        assert_eq!(DataRef::parse("a.npz"), DataRef::new("a.npz"));
        assert_eq!(DataRef::parse("a.npz#"), DataRef::new("a.npz#"));
        let stdin = DataRef::parse("-#test");
        assert_eq!(stdin, DataRef::new(STDIN).with_split("test"));
    }

    #[test]
    #[cfg(unix)]
    fn a_name_that_is_not_utf8_still_has_a_split() {
        use std::os::unix::ffi::OsStrExt;
        let data = DataRef::parse(OsStr::from_bytes(b"\xff.npz#test"));
        assert_eq!(data.path().as_os_str().as_bytes(), b"\xff.npz");
        assert_eq!(data.split(), Some("test"));
    }
}

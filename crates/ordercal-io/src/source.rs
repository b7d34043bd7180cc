//! Where data is: a file, perhaps with the name of one of the sets in it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file, and which of its splits is meant: what a user types as `FILE` or `FILE#SPLIT`.
///
/// ```
/// use ordercal_io::DataRef;
///
/// let data = DataRef::parse("runs/resnet.npz#test");
/// assert_eq!(data.path().to_str(), Some("runs/resnet.npz"));
/// assert_eq!(data.split(), Some("test"));
/// assert_eq!(data.to_string(), "runs/resnet.npz#test");
/// ```
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

    /// Reads `FILE` or `FILE#SPLIT`. A file that exists under the whole text, `#` and all, is that file.
    pub fn parse(text: impl AsRef<OsStr>) -> Self {
        let text = text.as_ref();
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

/// Splits at the last `#`; the file's name may be any bytes, the split's must be UTF-8.
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

/// The file formats, each told by the file's ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One numpy array, `.npy`.
    Npy,
    /// A zip of numpy arrays, `.npz`.
    Npz,
    /// A table as text, `.csv`.
    Csv,
    /// The same, gzipped, `.csv.gz`.
    CsvGz,
    /// `.parquet`.
    Parquet,
    /// Arrow IPC, file or stream, `.arrow`, `.feather` or `.ipc`.
    Arrow,
    /// `.safetensors`.
    Safetensors,
    /// Pickled numpy arrays, `.p`, `.pkl` or `.pickle`.
    Pickle,
}

/// Every ending with its format.
const ENDINGS: [(&str, Format); 12] = [
    (".npy", Format::Npy),
    (".npz", Format::Npz),
    (".csv", Format::Csv),
    (".csv.gz", Format::CsvGz),
    (".parquet", Format::Parquet),
    (".arrow", Format::Arrow),
    (".feather", Format::Arrow),
    (".ipc", Format::Arrow),
    (".safetensors", Format::Safetensors),
    (".p", Format::Pickle),
    (".pkl", Format::Pickle),
    (".pickle", Format::Pickle),
];

/// The endings of all files that can be read, separated by spaces.
pub fn readable_endings() -> String {
    join_endings(|_| true)
}

/// The endings of all files that can be written, separated by spaces.
pub fn writable_endings() -> String {
    join_endings(|format| format != Format::Pickle)
}

fn join_endings(wanted: impl Fn(Format) -> bool) -> String {
    let endings = ENDINGS.iter().filter(|(_, format)| wanted(*format));
    endings
        .map(|(ending, _)| *ending)
        .collect::<Vec<_>>()
        .join(" ")
}

impl Format {
    /// The format of a file to read, by its ending.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] for any other ending.
    pub fn of(path: &Path) -> Result<Self> {
        Self::by_ending(path).ok_or_else(|| Error::UnknownFormat {
            path: path.to_path_buf(),
            hint: format!("data is read from {}", readable_endings()),
        })
    }

    /// The format of a file to write, by its ending.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] for any other ending, and for pickles, which are only read.
    pub fn of_output(path: &Path) -> Result<Self> {
        Self::by_ending(path)
            .filter(|&format| format != Self::Pickle)
            .ok_or_else(|| Error::UnknownFormat {
                path: path.to_path_buf(),
                hint: format!("scores are written to {}", writable_endings()),
            })
    }

    /// Whether a writer must be told the number of rows before the first row.
    pub fn needs_row_count(self) -> bool {
        matches!(self, Self::Npy | Self::Npz | Self::Safetensors)
    }

    fn by_ending(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let has = |ending: &str| name.len() > ending.len() && name.ends_with(ending);
        let found = ENDINGS.iter().find(|(ending, _)| has(ending));
        found.map(|(_, format)| *format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Csv => "csv",
            Self::CsvGz => "gzipped csv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Safetensors => "safetensors",
            Self::Pickle => "pickle",
        })
    }
}

/// Opens a file to read and gives its size; folders and empty files are refused here, once for all formats.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
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

/// The whole of a file, for the formats that are decoded in memory.
pub(crate) fn read_all(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
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
    }

    #[test]
    #[cfg(unix)]
    fn a_name_that_is_not_utf8_still_has_a_split() {
        use std::os::unix::ffi::OsStrExt;
        let data = DataRef::parse(OsStr::from_bytes(b"\xff.npz#test"));
        assert_eq!(data.path().as_os_str().as_bytes(), b"\xff.npz");
        assert_eq!(data.split(), Some("test"));
    }

    #[test]
    fn endings_name_formats() {
        for (name, format) in [
            ("a.npy", Format::Npy),
            ("A.NPZ", Format::Npz),
            ("a.csv", Format::Csv),
            ("a.csv.gz", Format::CsvGz),
            ("a.b.parquet", Format::Parquet),
            ("a.feather", Format::Arrow),
            ("a.p", Format::Pickle),
        ] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format, "{name}");
        }
        for name in ["a", "a.txt", "a.gz", "a.txt.gz", ".npy", ""] {
            let error = Format::of(Path::new(name)).unwrap_err();
            assert!(matches!(error, Error::UnknownFormat { .. }), "{name}");
        }
        assert!(Format::of_output(Path::new("a.pkl")).is_err());
    }
}

//! The file formats. Dispatch, messages and help texts all follow from the table in this file.

use std::fmt;
use std::path::Path;

use crate::archive::Archive;
use crate::array::AnyArray;
use crate::atomic::AtomicFile;
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::reader::ReadOptions;
use crate::row_source::Opened;
use crate::writer::{OutputSpec, ScoreSink};
#[cfg(feature = "parquet")]
use crate::{arrow, parquet};
use crate::{csv, npy, npz, pickle, safetensors};

#[cfg(not(feature = "parquet"))]
use feature_off::{self as arrow, self as parquet};

/// What the library can do with a format; each format's module has one.
pub(crate) struct Codec {
    pub(crate) read: Reading,
    /// `None` for a format that is only read.
    pub(crate) write: Option<Writing>,
}

/// How a format is read.
pub(crate) enum Reading {
    /// A single array without a name.
    Array(fn(&Path) -> Result<Box<dyn Archive>>),
    /// Arrays with names, perhaps of several splits.
    Archive(fn(&Path) -> Result<Box<dyn Archive>>),
    /// Columns with names.
    Table {
        /// Starts reading rows.
        open: fn(&DataRef, &ReadOptions) -> Result<Opened>,
        /// Reads the only column, or the one named `label`.
        labels: fn(&Path) -> Result<AnyArray>,
    },
}

/// How a format is written.
pub(crate) struct Writing {
    /// Whether the file starts with the number of rows.
    pub(crate) needs_row_count: bool,
    /// Writes what comes before the first row. If `needs_row_count`, `spec.rows` is known.
    pub(crate) create: fn(AtomicFile, &OutputSpec) -> Result<Box<dyn ScoreSink>>,
}

macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident $name:literal $endings:expr, $codec:expr;)*) => {
        /// The file formats, each told by the file's ending.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: &[Self] = &[$(Self::$format),*];

            /// The endings of its files, the usual one first.
            pub fn endings(self) -> &'static [&'static str] {
                match self {
                    $(Self::$format => &$endings,)*
                }
            }

            pub(crate) fn codec(self) -> &'static Codec {
                match self {
                    $(Self::$format => &$codec,)*
                }
            }
        }

        impl fmt::Display for Format {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$format => $name,)*
                })
            }
        }
    };
}

formats! {
    /// One numpy array.
    Npy "npy" [".npy"], npy::CODEC;
    /// A zip of numpy arrays.
    Npz "npz" [".npz"], npz::CODEC;
    /// A table as text.
    Csv "csv" [".csv"], csv::CODEC;
    /// A table as text, gzipped.
    CsvGz "gzipped csv" [".csv.gz"], csv::GZIPPED;
    /// Apache Parquet.
    Parquet "parquet" [".parquet"], parquet::CODEC;
    /// Arrow IPC, file or stream.
    Arrow "arrow" [".arrow", ".feather", ".ipc"], arrow::CODEC;
    /// Tensors with names.
    Safetensors "safetensors" [".safetensors"], safetensors::CODEC;
    /// Pickled numpy arrays.
    Pickle "pickle" [".p", ".pkl", ".pickle"], pickle::CODEC;
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
    /// [`Error::UnknownFormat`] for any other ending, and for formats that are only read.
    pub fn of_output(path: &Path) -> Result<Self> {
        Self::by_ending(path)
            .filter(|format| format.is_written())
            .ok_or_else(|| Error::UnknownFormat {
                path: path.to_path_buf(),
                hint: format!("scores are written to {}", writable_endings()),
            })
    }

    /// Whether the library writes the format.
    pub fn is_written(self) -> bool {
        self.codec().write.is_some()
    }

    /// Whether a writer must be told the number of rows before the first row.
    pub fn needs_row_count(self) -> bool {
        let write = self.codec().write.as_ref();
        write.is_some_and(|write| write.needs_row_count)
    }

    /// Whether a file can hold several splits.
    pub fn has_splits(self) -> bool {
        matches!(self.codec().read, Reading::Archive(_))
    }

    fn by_ending(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let has = |ending: &&str| name.len() > ending.len() && name.ends_with(*ending);
        let of = |format: &&Self| format.endings().iter().any(has);
        Self::ALL.iter().find(of).copied()
    }
}

/// The endings of all files that can be read, separated by spaces.
///
/// ```
/// assert!(ordercal_io::readable_endings().starts_with(".npy .npz .csv .csv.gz "));
/// ```
pub fn readable_endings() -> String {
    join_endings(|_| true)
}

/// The endings of all files that can be written, separated by spaces.
///
/// ```
/// assert!(!ordercal_io::writable_endings().contains(".pkl"));
/// ```
pub fn writable_endings() -> String {
    join_endings(Format::is_written)
}

fn join_endings(wanted: impl Fn(Format) -> bool) -> String {
    let formats = Format::ALL.iter().filter(|format| wanted(**format));
    let endings: Vec<&str> = formats.flat_map(|f| f.endings()).copied().collect();
    endings.join(" ")
}

/// Stands in for formats whose code was left out of the build.
#[cfg(not(feature = "parquet"))]
mod feature_off {
    use std::path::Path;

    use super::{Codec, Format, Reading, Writing};
    use crate::error::Error;

    pub(super) const CODEC: Codec = Codec {
        read: Reading::Table {
            open: |data, _| Err(refuse(data.path())),
            labels: |path| Err(refuse(path)),
        },
        write: Some(Writing {
            needs_row_count: false,
            create: |file, _| Err(refuse(file.path())),
        }),
    };

    fn refuse(path: &Path) -> Error {
        match Format::of(path) {
            Ok(format) => Error::FeatureOff {
                path: path.to_path_buf(),
                format,
                feature: "parquet",
            },
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_formats() {
        for (name, format) in [
            ("a.npy", Format::Npy),
            ("A.NPZ", Format::Npz),
            ("a.csv", Format::Csv),
            ("a.csv.gz", Format::CsvGz),
            ("a.b.parquet", Format::Parquet),
            ("a.feather", Format::Arrow),
            ("a.ipc", Format::Arrow),
            ("a.p", Format::Pickle),
        ] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format, "{name}");
        }
        for name in ["a", "a.txt", "a.gz", "a.txt.gz", ".npy", ".csv.gz", ""] {
            let error = Format::of(Path::new(name)).unwrap_err();
            assert!(matches!(error, Error::UnknownFormat { .. }), "{name}");
        }
        assert!(Format::of_output(Path::new("a.pkl")).is_err());
    }

    #[test]
    fn the_documentation_lists_every_ending() {
        for text in [include_str!("lib.rs"), include_str!("../README.md")] {
            for ending in Format::ALL.iter().flat_map(|format| format.endings()) {
                assert!(text.contains(&format!("`{ending}`")), "{ending}");
            }
        }
    }

    #[test]
    fn an_unknown_ending_lists_every_known_one() {
        let read = Format::of(Path::new("a.txt")).unwrap_err().to_string();
        let written = Format::of_output(Path::new("a.txt"))
            .unwrap_err()
            .to_string();
        for format in Format::ALL {
            for ending in format.endings() {
                let names = |text: &str| text.split([' ', ';']).any(|word| word == *ending);
                assert!(names(&read), "{read}");
                assert_eq!(names(&written), format.is_written(), "{written}");
            }
        }
    }
}

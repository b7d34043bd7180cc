//! The file formats. Dispatch, messages and help texts all follow from the table in this file.

use std::fmt;
use std::path::Path;

use crate::archive::Archive;
use crate::atomic::AtomicFile;
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::packing::Packing;
use crate::reader::ReadOptions;
use crate::row_source::{Opened, Wanted};
use crate::writer::{OutputSpec, ScoreSink};
#[cfg(feature = "parquet")]
use crate::{arrow, parquet};
use crate::{csv, jsonl, npy, npz, pickle, safetensors, torch};

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
    Table(fn(&DataRef, &ReadOptions, Wanted) -> Result<Opened>),
}

/// How a format is written.
pub(crate) struct Writing {
    /// Whether it is a table of text, which may be compressed and take columns that are handed through.
    pub(crate) layout: OutputLayout,
    /// Writes what comes before the first row. If `needs_row_count`, `spec.rows` is known.
    pub(crate) create: fn(AtomicFile, &OutputSpec) -> Result<Box<dyn ScoreSink>>,
}

/// What a file that is written looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLayout {
    /// One array, which starts with the number of rows.
    Array,
    /// Columns.
    Table,
    /// Columns as text, which may be compressed.
    Text,
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

            /// The name of the format.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
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
    Csv "csv" [".csv", ".tsv"], csv::CODEC;
    /// A JSON object per line.
    Jsonl "jsonl" [".jsonl", ".ndjson"], jsonl::CODEC;
    /// Apache Parquet.
    Parquet "parquet" [".parquet"], parquet::CODEC;
    /// Arrow IPC, file or stream.
    Arrow "arrow" [".arrow", ".arrows", ".feather", ".ipc"], arrow::CODEC;
    /// Tensors with names.
    Safetensors "safetensors" [".safetensors"], safetensors::CODEC;
    /// Pickled numpy arrays.
    Pickle "pickle" [".p", ".pkl", ".pickle"], pickle::CODEC;
    /// Tensors that PyTorch saved.
    Torch "pt" [".pt", ".pth"], torch::CODEC;
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Format {
    /// The format of a file to read, by its ending.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] for any other ending.
    pub fn of(path: &Path) -> Result<Self> {
        Self::find(path, None)
    }

    /// The format of a file to read, by its ending, or `otherwise` if that tells nothing.
    pub(crate) fn find(path: &Path, otherwise: Option<Self>) -> Result<Self> {
        let found = Self::by_ending(path).or(otherwise);
        found.ok_or_else(|| Error::UnknownFormat {
            path: path.to_path_buf(),
            hint: format!(
                "say what it is with --format, or use one of {}",
                readable_endings()
            ),
        })
    }

    /// Whether the file's ending tells its format.
    pub fn is_told_by(path: &Path) -> bool {
        Self::by_ending(path).is_some()
    }

    /// The format of a name, such as `csv`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
    }

    /// The format of a file to write, by its ending.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] for any other ending, and for formats that are only read.
    pub fn of_output(path: &Path) -> Result<Self> {
        Self::find_output(path, None)
    }

    /// The format of a file to write, by its ending, or `otherwise` if that tells nothing.
    pub(crate) fn find_output(path: &Path, otherwise: Option<Self>) -> Result<Self> {
        let packed = Packing::of(path).0 != Packing::None;
        let fits = |format: &Self| match &format.codec().write {
            Some(writing) => !packed || writing.layout == OutputLayout::Text,
            None => false,
        };
        let found = Self::by_ending(path).or(otherwise).filter(fits);
        found.ok_or_else(|| Error::UnknownFormat {
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
        write.is_some_and(|write| write.layout == OutputLayout::Array)
    }

    /// Whether a file can hold several splits.
    pub fn has_splits(self) -> bool {
        matches!(self.codec().read, Reading::Archive(_))
    }

    fn by_ending(path: &Path) -> Option<Self> {
        let (_, name) = Packing::of(path);
        let has = |ending: &&str| name.len() > ending.len() && name.ends_with(*ending);
        let of = |format: &&Self| format.endings().iter().any(has);
        Self::ALL.iter().find(of).copied()
    }
}

/// The endings of all files that can be read, separated by spaces.
pub fn readable_endings() -> String {
    let packed = Packing::endings().join(" or ");
    format!("{} (and {packed} of each)", join_endings(|_| true))
}

/// The endings of all files that can be written, separated by spaces.
pub fn writable_endings() -> String {
    let is_text = |format: Format| {
        let write = format.codec().write.as_ref();
        write.is_some_and(|write| write.layout == OutputLayout::Text)
    };
    let packed = Packing::endings().join(" or ");
    let text = join_endings(is_text);
    format!(
        "{} (and {packed} of {text})",
        join_endings(Format::is_written)
    )
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

    use super::{Codec, Format, OutputLayout, Reading, Writing};
    use crate::error::Error;

    pub(super) const CODEC: Codec = Codec {
        read: Reading::Table(|data, _, _| Err(refuse(data.path()))),
        write: Some(Writing {
            layout: OutputLayout::Table,
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
            ("a.csv.gz", Format::Csv),
            ("a.tsv.zst", Format::Csv),
            ("a.npy.gz", Format::Npy),
            ("a.ndjson", Format::Jsonl),
            ("a.arrows", Format::Arrow),
            ("a.pt", Format::Torch),
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
        for name in ["a.pkl", "a.npy.gz", "a.parquet.zst"] {
            assert!(Format::of_output(Path::new(name)).is_err(), "{name}");
        }
        assert!(Format::of_output(Path::new("a.jsonl.gz")).is_ok());
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(*format));
        }
        let stdin = Path::new("/dev/stdin");
        assert_eq!(Format::find(stdin, Some(Format::Npz)).unwrap(), Format::Npz);
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
                let names =
                    |text: &str| text.split([' ', ';', '(', ')']).any(|word| word == *ending);
                assert!(names(&read), "{read}");
                assert_eq!(names(&written), format.is_written(), "{written}");
            }
        }
    }
}

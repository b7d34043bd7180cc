//! Compression around a whole file: `.gz` or `.zst` after any other ending.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::atomic::AtomicFile;
use crate::error::{Error, Result};

/// A compressed file may hold this many bytes in any case, …
const SMALL: u64 = 64 << 20;

/// … and above that this many times its own size. Scores as text shrink to a third or a tenth.
const LARGEST_EXPANSION: u64 = 200;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// The compressions with the ending and the first bytes of their files.
    const ALL: [(Self, &str, &[u8]); 2] = [
        (Self::Gzip, ".gz", &[0x1f, 0x8b]),
        (Self::Zstd, ".zst", &[0x28, 0xb5, 0x2f, 0xfd]),
    ];

    /// The endings of compressed files.
    pub(crate) fn endings() -> [&'static str; 2] {
        Self::ALL.map(|(_, ending, _)| ending)
    }

    /// The compression that the file's name tells, and the name without it, in lower case.
    pub(crate) fn of(path: &Path) -> (Self, String) {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().to_ascii_lowercase();
        for (packing, ending, _) in Self::ALL {
            if let Some(inner) = name.strip_suffix(ending) {
                return (packing, inner.to_owned());
            }
        }
        (Self::None, name)
    }

    /// The bytes inside a compressed file, which must not be many times as many as the file's.
    pub(crate) fn unpack(self, path: &Path, file: File, size: u64) -> Result<Box<dyn Read + Send>> {
        let mut file = BufReader::with_capacity(1 << 16, file);
        let start = file.fill_buf().map_err(|e| Error::io(path, "read", e))?;
        let magic = Self::ALL.iter().find(|(packing, ..)| *packing == self);
        if let Some((_, ending, magic)) = magic
            && !start.starts_with(magic)
        {
            return Err(Error::NotPacked {
                path: path.to_path_buf(),
                ending,
                found: start[..start.len().min(8)].to_vec(),
            });
        }
        let inner: Box<dyn Read + Send> = match self {
            Self::None => return Ok(Box::new(file)),
            Self::Gzip => Box::new(MultiGzDecoder::new(file)),
            Self::Zstd => zstd_decoder(path, file)?,
        };
        let left = SMALL.saturating_add(size.saturating_mul(LARGEST_EXPANSION));
        Ok(Box::new(Bounded { inner, left }))
    }

    /// Starts a file that is compressed as its name says.
    pub(crate) fn create(file: AtomicFile) -> Result<PackedFile> {
        Ok(match Self::of(file.path()).0 {
            Self::None => PackedFile::Plain(file),
            Self::Gzip => PackedFile::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            Self::Zstd => zstd_encoder(file)?,
        })
    }
}

#[cfg(feature = "parquet")]
fn zstd_decoder(path: &Path, file: BufReader<File>) -> Result<Box<dyn Read + Send>> {
    let decoder = zstd::Decoder::with_buffer(file);
    Ok(Box::new(decoder.map_err(|e| Error::io(path, "read", e))?))
}

#[cfg(feature = "parquet")]
fn zstd_encoder(file: AtomicFile) -> Result<PackedFile> {
    let path = file.path().to_path_buf();
    let encoder = zstd::Encoder::new(file, 0);
    let encoder = encoder.map_err(|e| Error::io(&path, "write", e))?;
    Ok(PackedFile::Zstd(Box::new(encoder)))
}

#[cfg(not(feature = "parquet"))]
fn zstd_decoder(path: &Path, _: BufReader<File>) -> Result<Box<dyn Read + Send>> {
    Err(no_zstd(path))
}

#[cfg(not(feature = "parquet"))]
fn zstd_encoder(file: AtomicFile) -> Result<PackedFile> {
    Err(no_zstd(file.path()))
}

#[cfg(not(feature = "parquet"))]
fn no_zstd(path: &Path) -> Error {
    Error::UnknownFormat {
        path: path.to_path_buf(),
        hint: "this build has no support for .zst; rebuild it with the feature `parquet`".into(),
    }
}

/// Fails once more bytes come out of a compressed file than it may hold.
struct Bounded {
    inner: Box<dyn Read + Send>,
    left: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                let problem = format!(
                    "it holds more than {LARGEST_EXPANSION} times the bytes of the file; \
                     if that is meant, unpack it first"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        Ok(count)
    }
}

/// A file that is written, perhaps through a compressor.
pub(crate) enum PackedFile {
    Plain(AtomicFile),
    Gzip(Box<GzEncoder<AtomicFile>>),
    #[cfg(feature = "parquet")]
    Zstd(Box<zstd::Encoder<'static, AtomicFile>>),
}

impl PackedFile {
    /// Ends the compression.
    pub(crate) fn finish(self) -> io::Result<AtomicFile> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(file) => file.finish(),
            #[cfg(feature = "parquet")]
            Self::Zstd(file) => file.finish(),
        }
    }

    fn inner(&mut self) -> &mut (dyn Write + Send) {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(file) => file,
            #[cfg(feature = "parquet")]
            Self::Zstd(file) => file,
        }
    }
}

impl Write for PackedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_compression() {
        for (name, packing, inner) in [
            ("a.csv", Packing::None, "a.csv"),
            ("A.NPY.GZ", Packing::Gzip, "a.npy"),
            ("a.jsonl.zst", Packing::Zstd, "a.jsonl"),
        ] {
            assert_eq!(Packing::of(Path::new(name)), (packing, inner.to_owned()));
        }
    }

    #[test]
    fn what_grows_too_much_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv.gz");
        let mut gz = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        let zeros = vec![0; 1 << 20];
        for _ in 0..100 {
            gz.write_all(&zeros).unwrap();
        }
        gz.finish().unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        let file = File::open(&path).unwrap();
        let mut unpacked = Packing::Gzip.unpack(&path, file, size).unwrap();
        let error = io::copy(&mut unpacked, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

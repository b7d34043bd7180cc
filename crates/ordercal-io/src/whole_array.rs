//! Reading a large array at once, its pieces on all cores: most of the time is that of new pages of memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::Crc;
use half::{bf16, f16};
use rayon::prelude::*;

use crate::array::{ElementType, Values};

/// Bytes that are read and decoded together.
const PIECE: usize = 1 << 19;
/// Smaller arrays are read by one thread.
pub(crate) const LARGE: usize = 1 << 22;

/// Where the values of an array are in a file, one after the other.
pub(crate) struct WholeArray {
    /// Where the first is.
    pub(crate) start: u64,
    /// The checksum of what is before them, and that of all.
    pub(crate) checksum: Option<(Crc, u32)>,
}

impl WholeArray {
    /// Reads all values. `open` gives a handle of the file to each thread. `None` if values of this type are read by one
    /// thread only.
    ///
    /// # Errors
    /// If the file cannot be read, or the checksum is wrong ([`io::ErrorKind::InvalidData`]).
    pub(crate) fn read(
        self,
        open: impl Fn() -> io::Result<File> + Sync,
        dtype: ElementType,
        big_endian: bool,
        count: usize,
    ) -> io::Result<Option<Values>> {
        macro_rules! values {
            ($kind:ident, $type:ty) => {{
                // Two calls, so that each is compiled for its order of bytes.
                let values = if big_endian {
                    self.decode(open, count, <$type>::from_be_bytes)
                } else {
                    self.decode(open, count, <$type>::from_le_bytes)
                };
                Values::$kind(values?)
            }};
        }
        Ok(Some(match dtype {
            ElementType::F16 => values!(F16, f16),
            ElementType::Bf16 => values!(Bf16, bf16),
            ElementType::F32 => values!(F32, f32),
            ElementType::F64 => values!(F64, f64),
            ElementType::I64 => values!(Int, i64),
            _ => return Ok(None),
        }))
    }

    fn decode<T: Copy + Default + Send, const SIZE: usize>(
        self,
        open: impl Fn() -> io::Result<File> + Sync,
        count: usize,
        decode: impl Fn([u8; SIZE]) -> T + Sync,
    ) -> io::Result<Vec<T>> {
        // Memory that the system clears when a thread first touches it.
        let mut values = vec![T::default(); count];
        let checked = self.checksum.is_some();
        let read = |state: &mut io::Result<(File, Vec<u8>)>, (piece, values): (usize, &mut [T])| {
            let (file, buffer) = state.as_mut().map_err(|e| io::Error::from(e.kind()))?;
            file.seek(SeekFrom::Start(self.start + (piece * PIECE) as u64))?;
            buffer.resize(values.len() * SIZE, 0);
            file.read_exact(buffer)?;
            let mut crc = Crc::new();
            if checked {
                crc.update(buffer);
            }
            for (value, raw) in values.iter_mut().zip(buffer.chunks_exact(SIZE)) {
                *value = decode(raw.try_into().expect("chunks have the type's size"));
            }
            Ok(crc)
        };
        let pieces = values.par_chunks_mut(PIECE / SIZE).enumerate();
        let sums = pieces.map_init(|| Ok((open()?, Vec::new())), read);
        let sums: Vec<Crc> = sums.collect::<io::Result<_>>()?;
        if let Some((mut all, expected)) = self.checksum {
            for sum in &sums {
                all.combine(sum);
            }
            if all.sum() != expected {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "wrong checksum"));
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one thread reads them.
    fn slow(bytes: &[u8], dtype: ElementType, big_endian: bool) -> Values {
        Values::decode(bytes, dtype, big_endian)
    }

    #[test]
    fn pieces_give_what_one_thread_gives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values");
        // Two pieces and a part of a third; no NaN, which differs from itself.
        let bytes: Vec<u8> = (0..2 * PIECE + 4096 + 24)
            .map(|i: usize| (i * i / 7 % 100) as u8)
            .collect();
        std::fs::write(&path, &bytes).unwrap();
        let start = 24;
        let crc = |bytes: &[u8]| {
            let mut crc = Crc::new();
            crc.update(bytes);
            crc
        };
        for dtype in [
            ElementType::F16,
            ElementType::Bf16,
            ElementType::F32,
            ElementType::F64,
            ElementType::I64,
        ] {
            for big_endian in [false, true] {
                let read = |expected: u32| {
                    let array = WholeArray {
                        start: start as u64,
                        checksum: Some((crc(&bytes[..start]), expected)),
                    };
                    let count = (bytes.len() - start) / dtype.size();
                    array.read(|| File::open(&path), dtype, big_endian, count)
                };
                let sum = crc(&bytes).sum();
                let found = read(sum).unwrap().expect("a type of scores or labels");
                assert!(found == slow(&bytes[start..], dtype, big_endian), "{dtype}");
                let error = read(sum ^ 1).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            }
        }
        let array = WholeArray {
            start: 0,
            checksum: None,
        };
        let error = array.read(|| File::open(&path), ElementType::F32, false, bytes.len());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

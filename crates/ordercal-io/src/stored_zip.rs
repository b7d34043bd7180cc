//! A zip archive of one stored member, written as a stream: an `.npz` file with one array.
//!
//! The size is known in advance, so that only the checksum has to be filled in at the end. Sizes are always in
//! 64 bits (zip64), as numpy writes them.

use std::io::{self, Seek, SeekFrom, Write};

use flate2::Crc;

/// Version 4.5 of the format, the first with 64-bit sizes.
const VERSION: u16 = 45;
/// The first of January 1980, so that the same rows give the same bytes.
const DATE: u16 = 0x21;
/// Where the checksum is in the local header.
const CHECKSUM_AT: u64 = 14;

/// Writes the member's bytes to `W`; [`StoredZip::finish`] adds the directory.
pub(crate) struct StoredZip<W> {
    inner: W,
    name: String,
    size: u64,
    crc: Crc,
}

impl<W: Write + Seek> StoredZip<W> {
    /// Starts the only member, of exactly `size` bytes.
    pub(crate) fn new(mut inner: W, name: String, size: u64) -> io::Result<Self> {
        let mut header = words(&[0x4b50, 0x0403]);
        header.extend(member(0, &name, 20));
        header.extend(name.as_bytes());
        header.extend(sizes(size, &[]));
        inner.write_all(&header)?;
        Ok(Self {
            inner,
            name,
            size,
            crc: Crc::new(),
        })
    }

    /// Writes the directory and the checksum, and returns the file.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let crc = self.crc.sum();
        let directory_at = self.inner.stream_position()?;
        // The directory.
        let mut tail = words(&[0x4b50, 0x0201, VERSION]);
        tail.extend(member(crc, &self.name, 28));
        // No comment; disk 0; no attributes; the offset of the member is in the 64-bit field.
        tail.extend(words(&[0, 0, 0, 0, 0, 0xffff, 0xffff]));
        tail.extend(self.name.as_bytes());
        tail.extend(sizes(self.size, &[0]));
        let directory_size = tail.len() as u64;
        // Its end in 64 bits, where that is, and its end in 32 bits.
        tail.extend(words(&[0x4b50, 0x0606, 44, 0, 0, 0]));
        tail.extend(words(&[VERSION, VERSION, 0, 0, 0, 0]));
        for count in [1, 1, directory_size, directory_at] {
            tail.extend(count.to_le_bytes());
        }
        tail.extend(words(&[0x4b50, 0x0706, 0, 0]));
        tail.extend((directory_at + directory_size).to_le_bytes());
        tail.extend(words(&[1, 0, 0x4b50, 0x0605, 0, 0, 1, 1]));
        tail.extend((directory_size as u32).to_le_bytes());
        let at = u32::try_from(directory_at).unwrap_or(u32::MAX);
        tail.extend(at.to_le_bytes());
        tail.extend([0; 2]);
        self.inner.write_all(&tail)?;

        self.inner.seek(SeekFrom::Start(CHECKSUM_AT))?;
        self.inner.write_all(&crc.to_le_bytes())?;
        Ok(self.inner)
    }
}

impl<W: Write> Write for StoredZip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.crc.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Numbers of 16 bits, of which most fields of the format are made.
fn words(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What the local header and the directory have in common, from the version on.
fn member(crc: u32, name: &str, extra: u16) -> Vec<u8> {
    // No flags; stored; midnight.
    let mut fields = words(&[VERSION, 0, 0, 0, DATE]);
    fields.extend(crc.to_le_bytes());
    // Both sizes are in the 64-bit field.
    fields.extend([0xff; 8]);
    fields.extend(words(&[name.len() as u16, extra]));
    fields
}

/// The extra field with both sizes and, in the directory, the offset.
fn sizes(size: u64, offset: &[u64]) -> Vec<u8> {
    let mut field = words(&[1, 16 + 8 * offset.len() as u16]);
    for value in [&[size, size], offset].concat() {
        field.extend(value.to_le_bytes());
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};

    #[test]
    fn a_zip_reader_finds_the_member_and_its_checksum() {
        let mut zip = StoredZip::new(Cursor::new(Vec::new()), "probs.npy".into(), 11).unwrap();
        zip.write_all(b"hello ").unwrap();
        zip.write_all(b"world").unwrap();
        let bytes = zip.finish().unwrap().into_inner();
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        assert_eq!(archive.len(), 1);
        let mut member = archive.by_name("probs.npy").unwrap();
        let mut text = String::new();
        member.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello world");
    }
}

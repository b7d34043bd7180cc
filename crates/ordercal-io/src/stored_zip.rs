//! A zip archive of one stored member, written as a stream: an `.npz` file with one array.
//!
//! The size is known in advance, so that only the checksum has to be filled in at the end. Sizes are always in
//! 64 bits (zip64), as numpy writes them.

use std::io::{self, Seek, SeekFrom, Write};

use flate2::Crc;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DIRECTORY_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const END_64_LOCATOR: u32 = 0x0706_4b50;
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
        let mut header = Vec::new();
        header.extend(LOCAL_HEADER.to_le_bytes());
        header.extend(common_fields(0, name.len(), 20));
        header.extend(name.as_bytes());
        header.extend(sizes_64(size, None));
        inner.write_all(&header)?;
        Ok(Self {
            inner,
            name,
            size,
            crc: Crc::new(),
        })
    }

    /// What the bytes are written to.
    pub(crate) fn get_ref(&self) -> &W {
        &self.inner
    }

    /// Writes the directory and the checksum, and returns the file.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let crc = self.crc.sum();
        let directory_at = self.inner.stream_position()?;
        let mut tail = Vec::new();
        tail.extend(DIRECTORY_HEADER.to_le_bytes());
        tail.extend(VERSION.to_le_bytes());
        tail.extend(common_fields(crc, self.name.len(), 28));
        // No comment; disk 0; no attributes; the offset of the member is in the 64-bit field.
        tail.extend([0; 10]);
        tail.extend(u32::MAX.to_le_bytes());
        tail.extend(self.name.as_bytes());
        tail.extend(sizes_64(self.size, Some(0)));
        let directory_size = tail.len() as u64;

        tail.extend(END_64.to_le_bytes());
        tail.extend(44_u64.to_le_bytes());
        tail.extend(VERSION.to_le_bytes());
        tail.extend(VERSION.to_le_bytes());
        tail.extend([0; 8]);
        tail.extend(1_u64.to_le_bytes());
        tail.extend(1_u64.to_le_bytes());
        tail.extend(directory_size.to_le_bytes());
        tail.extend(directory_at.to_le_bytes());

        tail.extend(END_64_LOCATOR.to_le_bytes());
        tail.extend([0; 4]);
        tail.extend((directory_at + directory_size).to_le_bytes());
        tail.extend(1_u32.to_le_bytes());

        tail.extend(END.to_le_bytes());
        tail.extend([0; 4]);
        tail.extend(1_u16.to_le_bytes());
        tail.extend(1_u16.to_le_bytes());
        tail.extend((directory_size as u32).to_le_bytes());
        tail.extend(
            u32::try_from(directory_at)
                .unwrap_or(u32::MAX)
                .to_le_bytes(),
        );
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

/// What the local header and the directory have in common, from the version on.
fn common_fields(crc: u32, name: usize, extra: u16) -> Vec<u8> {
    let mut fields = Vec::new();
    fields.extend(VERSION.to_le_bytes());
    // No flags; stored; midnight.
    fields.extend([0; 6]);
    fields.extend(DATE.to_le_bytes());
    fields.extend(crc.to_le_bytes());
    // Both sizes are in the 64-bit field.
    fields.extend([0xff; 8]);
    fields.extend((name as u16).to_le_bytes());
    fields.extend(extra.to_le_bytes());
    fields
}

/// The extra field with both sizes and, in the directory, the offset.
fn sizes_64(size: u64, offset: Option<u64>) -> Vec<u8> {
    let length: u16 = if offset.is_some() { 24 } else { 16 };
    let mut field = Vec::new();
    field.extend(1_u16.to_le_bytes());
    field.extend(length.to_le_bytes());
    field.extend(size.to_le_bytes());
    field.extend(size.to_le_bytes());
    field.extend(offset.map(u64::to_le_bytes).into_iter().flatten());
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

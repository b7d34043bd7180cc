//! Checks the sizes in an Arrow file before it is decoded, because the decoder allocates whatever they say.
//!
//! Three kinds of sizes lead to allocations: of the footer and of the blocks it lists, of the messages, and of
//! compressed buffers after decompression. The first two must lie in the file; the third must not exceed what
//! compression can achieve.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use arrow_ipc::{Message, RecordBatch, root_as_footer, root_as_message};

use crate::error::{Error, Result};
use crate::formats::Format;

/// The compression ratio of zstd is at most about this, for runs of one value.
const LARGEST_EXPANSION: u64 = 1 << 16;

/// The marker before a message's size, which files before Arrow 0.15 do not have.
const CONTINUATION: u32 = u32::MAX;

struct Checker<'a> {
    path: &'a Path,
    file: &'a mut File,
    size: u64,
}

/// Checks the blocks that the footer of a file lists.
pub(crate) fn check_file(path: &Path, file: &mut File, size: u64) -> Result<()> {
    let mut checker = Checker { path, file, size };
    // The file ends with the footer, its size in 4 bytes and a magic number of 6 bytes.
    let tail = size.saturating_sub(10);
    let length = u64::from(checker.word(tail)?);
    let start = checker.within("the footer", tail.saturating_sub(length), length)?;
    if start + length > tail {
        return Err(checker.damaged("the footer is longer than the file"));
    }
    let footer = checker.bytes(start, length)?;
    let footer = root_as_footer(&footer).map_err(|_| checker.damaged("the footer is wrong"))?;
    let blocks = [footer.dictionaries(), footer.recordBatches()];
    for block in blocks.into_iter().flatten().flatten() {
        let (Ok(offset), Ok(header), Ok(body)) = (
            u64::try_from(block.offset()),
            u64::try_from(block.metaDataLength()),
            u64::try_from(block.bodyLength()),
        ) else {
            return Err(checker.damaged("a block has a negative size"));
        };
        // Like the decoder, this uses the size in the footer, not the one before the message.
        let message = checker.bytes(offset, header)?;
        let marked = message.starts_with(&CONTINUATION.to_le_bytes());
        let message = message.get(if marked { 8 } else { 4 }..).unwrap_or(&[]);
        checker.body(message, offset + header, Some(body))?;
    }
    Ok(())
}

/// Checks the messages of a stream one after the other.
pub(crate) fn check_stream(path: &Path, file: &mut File, size: u64) -> Result<()> {
    let mut checker = Checker { path, file, size };
    let mut at = 0;
    while at < size {
        match checker.message(at)? {
            Some(end) => at = end,
            None => break,
        }
    }
    Ok(())
}

impl Checker<'_> {
    /// Checks the message at an offset and returns its end; `None` at the end-of-stream marker.
    fn message(&mut self, offset: u64) -> Result<Option<u64>> {
        let (length, start) = match self.word(offset)? {
            CONTINUATION => (self.word(offset + 4)?, offset + 8),
            length => (length, offset + 4),
        };
        if length == 0 {
            return Ok(None);
        }
        let header = self.bytes(start, u64::from(length))?;
        self.body(&header, start + u64::from(length), None)
            .map(Some)
    }

    /// Checks the body that follows a message, and returns its end.
    fn body(&mut self, message: &[u8], body: u64, length: Option<u64>) -> Result<u64> {
        let message: Message<'_> =
            root_as_message(message).map_err(|_| self.damaged("a message is wrong"))?;
        let said = u64::try_from(message.bodyLength());
        let said = said.map_err(|_| self.damaged("a message has a negative size"))?;
        let length = length.unwrap_or(said);
        self.within("the body of a message", body, length)?;
        let batch = message
            .header_as_record_batch()
            .or_else(|| message.header_as_dictionary_batch().and_then(|d| d.data()));
        if let Some(batch) = batch {
            self.buffers(&batch, body, length)?;
        }
        Ok(body + length)
    }

    /// Checks that the buffers of a batch lie in its body and claim no more than they can hold.
    fn buffers(&mut self, batch: &RecordBatch<'_>, body: u64, body_length: u64) -> Result<()> {
        for buffer in batch.buffers().into_iter().flatten() {
            let (Ok(offset), Ok(length)) = (
                u64::try_from(buffer.offset()),
                u64::try_from(buffer.length()),
            ) else {
                return Err(self.damaged("a buffer has a negative size"));
            };
            if offset
                .checked_add(length)
                .is_none_or(|end| end > body_length)
            {
                return Err(self.damaged("a buffer lies outside its message"));
            }
            if batch.compression().is_none() || length < 8 {
                continue;
            }
            let claimed = self.bytes(body + offset, 8)?;
            let claimed = i64::from_le_bytes(claimed.try_into().expect("eight bytes were read"));
            // −1 means that the buffer is not compressed.
            if claimed > 0 && claimed as u64 / LARGEST_EXPANSION > length {
                return Err(self.damaged("a compressed buffer claims more than it can hold"));
            }
        }
        Ok(())
    }

    fn word(&mut self, offset: u64) -> Result<u32> {
        let raw = self.bytes(offset, 4)?;
        Ok(u32::from_le_bytes(
            raw.try_into().expect("four bytes were read"),
        ))
    }

    fn bytes(&mut self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.within("a message", offset, length)?;
        let mut bytes = vec![0; length as usize];
        self.file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|e| Error::io(self.path, "read", e))?;
        Ok(bytes)
    }

    fn within(&self, what: &str, offset: u64, length: u64) -> Result<u64> {
        if offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size)
        {
            return Ok(offset);
        }
        Err(Error::truncated(
            self.path,
            what,
            offset,
            u128::from(length),
            self.size.saturating_sub(offset),
        ))
    }

    fn damaged(&self, message: &str) -> Error {
        Error::damaged(self.path, Format::Arrow, message)
    }
}

//! Several numpy arrays: a zip archive of `.npy` files, stored or deflated.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::archive::{Archive, Entry, UnreadableType};
use crate::array_reader::{ArrayReader, Layout};
use crate::atomic::AtomicFile;
use crate::data_ref;
use crate::error::{Error, Result, clean};
use crate::formats::{Codec, Format, OutputLayout, Reading, Writing};
use crate::npy::{self, Header};
use crate::stored_zip::StoredZip;
use crate::whole_array::WholeArray;
use crate::writer::{EncodedSink, OutputSpec, ScoreSink, little_endian};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Archive(|path| Ok(Box::new(Npz::open(path)?))),
    write: Some(Writing {
        layout: OutputLayout::Array,
        create,
    }),
};

/// The largest compression ratio of deflate.
const LARGEST_EXPANSION: u64 = 1032;

/// A file in the archive.
pub(crate) struct ZipMember {
    pub(crate) start: u64,
    pub(crate) packed: u64,
    size: u64,
    crc: u32,
    pub(crate) deflated: bool,
}

/// An open archive.
pub(crate) struct Npz {
    path: PathBuf,
    entries: Vec<Entry>,
    members: Vec<(ZipMember, Option<Layout>, u64)>,
}

impl Npz {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut npz = Self {
            path: path.to_path_buf(),
            entries: Vec::new(),
            members: Vec::new(),
        };
        for (name, member) in zip_members(path, Format::Npz)? {
            if let Some(name) = name.strip_suffix(".npy") {
                npz.add(&clean(name), member)?;
            }
        }
        Ok(npz)
    }

    /// Adds a member by its header, which says the type and the shape.
    fn add(&mut self, name: &str, member: ZipMember) -> Result<()> {
        if self.entries.iter().any(|e| e.name == name) {
            return Err(Error::duplicate(&self.path, name));
        }
        let mut reader = open_member(&self.path, &member)?;
        let header = match npy::read_header(&mut reader, &self.path, name, member.size) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidData => {
                let message = format!("the compressed data of `{name}` is damaged");
                return Err(Error::damaged(&self.path, Format::Npz, &message));
            }
            header => header?,
        };
        let Header {
            layout,
            shape,
            length,
        } = header;
        if let Ok(layout) = &layout {
            let available = member.size.saturating_sub(length);
            layout.check_fits(&self.path, name, length, available)?;
        }
        let dtype = layout
            .as_ref()
            .map(|l| l.dtype)
            .map_err(UnreadableType::clone);
        self.entries.push(Entry::new(name, dtype, shape));
        self.members.push((member, layout.ok(), length));
        Ok(())
    }
}

impl Archive for Npz {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn reader(&self, index: usize) -> Result<ArrayReader> {
        let entry = &self.entries[index];
        entry.dtype_or_error(&self.path)?;
        let (member, layout, header) = &self.members[index];
        let layout = layout.clone().expect("an entry with a type has a layout");
        if layout.fortran && !member.deflated {
            let (file, _) = data_ref::open(&self.path)?;
            return ArrayReader::file(&self.path, &entry.name, layout, file, member.start + header);
        }
        let mut reader = open_member(&self.path, member)?;
        io::copy(&mut (&mut reader).take(*header), &mut io::sink())
            .map_err(|e| Error::io(&self.path, "read", e))?;
        let bytes = layout.bytes().unwrap_or(usize::MAX) as u64;
        let mut before = Crc::new();
        before.combine(&reader.crc);
        let known = !member.deflated;
        let array = ArrayReader::stream(&self.path, &entry.name, layout, Box::new(reader), known)?;
        // The checksum is that of the header and the values, unless something follows them.
        Ok(if known && member.size - header == bytes {
            array.with_whole(WholeArray {
                start: member.start + header,
                checksum: Some((before, member.crc)),
            })
        } else {
            array
        })
    }
}

/// The members of a zip archive by name, their sizes checked against that of the file.
pub(crate) fn zip_members(path: &Path, format: Format) -> Result<Vec<(String, ZipMember)>> {
    let (file, size, magic) = data_ref::open_with_magic(path)?;
    if !magic.starts_with(b"PK") {
        return Err(Error::wrong_magic(path, format, magic));
    }
    let damaged = |e: ZipError| Error::damaged(path, format, &e.to_string());
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let file = archive.by_index_raw(index).map_err(damaged)?;
        members.push(locate(&file, path, format, size)?);
    }
    Ok(members)
}

fn locate(
    file: &ZipFile<'_, BufReader<File>>,
    path: &Path,
    format: Format,
    file_size: u64,
) -> Result<(String, ZipMember)> {
    let refuse = |message: String| Error::damaged(path, format, &message);
    let full_name = file.name().map_err(|e| refuse(e.to_string()))?;
    let name = clean(&full_name);
    let deflated = match file.compression() {
        _ if file.encrypted() => return Err(refuse(format!("`{name}` is encrypted"))),
        CompressionMethod::Stored => false,
        CompressionMethod::Deflated => true,
        other => {
            return Err(refuse(format!(
                "`{name}` is compressed by {other}; save it with numpy.savez or savez_compressed"
            )));
        }
    };
    let member = ZipMember {
        start: file.data_start().unwrap_or(u64::MAX),
        packed: file.compressed_size(),
        size: file.size(),
        crc: file.crc32(),
        deflated,
    };
    let end = member.start.checked_add(member.packed);
    if end.is_none_or(|end| end > file_size) {
        return Err(Error::truncated(
            path,
            format!("`{name}`"),
            member.start,
            u128::from(member.packed),
            file_size.saturating_sub(member.start),
        ));
    }
    let largest = if deflated {
        member.packed.saturating_mul(LARGEST_EXPANSION)
    } else {
        member.packed
    };
    if member.size > largest {
        return Err(refuse(format!(
            "`{name}` claims {} bytes, more than its {} packed bytes can hold",
            member.size, member.packed
        )));
    }
    Ok((full_name.to_string(), member))
}

fn open_member(path: &Path, member: &ZipMember) -> Result<Checked> {
    let (mut file, _) = data_ref::open(path)?;
    file.seek(SeekFrom::Start(member.start))
        .map_err(|e| Error::io(path, "read", e))?;
    let packed = file.take(member.packed);
    let inner: Box<dyn Read + Send> = if member.deflated {
        Box::new(DeflateDecoder::new_with_buf(packed, vec![0; 1 << 16]))
    } else {
        Box::new(packed)
    };
    Ok(Checked {
        inner: inner.take(member.size),
        crc: Crc::new(),
        expected: member.crc,
    })
}

/// One array, stored as numpy.savez does: floats hardly compress, and stored ones can be read from any row.
fn create(file: AtomicFile, spec: &OutputSpec) -> Result<Box<dyn ScoreSink>> {
    let path = file.path().to_path_buf();
    let header = npy::header(spec);
    let size = header.len() + spec.rows.unwrap_or(0) * spec.classes * spec.dtype.size();
    let name = format!("{}.npy", spec.array_name());
    let zip = StoredZip::new(file, name, size as u64);
    let zip = zip.map_err(|e| Error::io(&path, "write", e))?;
    EncodedSink::start(path, zip, StoredZip::finish, &header, little_endian)
}

/// A reader that compares the checksum at the end.
struct Checked {
    inner: io::Take<Box<dyn Read + Send>>,
    crc: Crc,
    expected: u32,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.crc.update(&buffer[..count]);
        if count == 0
            && !buffer.is_empty()
            && self.inner.limit() == 0
            && self.crc.sum() != self.expected
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "wrong checksum"));
        }
        Ok(count)
    }
}

//! Reading an array some rows at a time.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::archive::{Archive, Entry, UnreadableType};
use crate::array::{AnyArray, ElementType, Values};
use crate::data_ref;
use crate::error::{Error, Result};
use crate::spool;
use crate::whole_array::{self, WholeArray};

/// Bytes are decoded in pieces of about this size, which stay in the cache. A large array is never in memory twice.
const PIECE: usize = 1 << 20;

/// How the bytes of an array are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) dtype: ElementType,
    pub(crate) big_endian: bool,
    /// Whether it is in column-major order, as in Fortran.
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<usize>,
}

impl Layout {
    /// The first dimension; a single value counts as one row.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Values in a row.
    fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// The number of bytes; `None` if it does not fit in a `usize`.
    pub(crate) fn bytes(&self) -> Option<usize> {
        crate::array::byte_count(&self.shape, self.dtype)
    }

    /// Fails if the array is larger than what is available, before memory is allocated for it.
    pub(crate) fn check_fits(
        &self,
        path: &Path,
        name: &str,
        offset: u64,
        available: u64,
    ) -> Result<()> {
        match self.bytes() {
            Some(needed) if needed as u64 <= available => Ok(()),
            needed => Err(Error::truncated(
                path,
                format!("`{name}`"),
                offset,
                needed.map_or(u128::from(u64::MAX), |n| n as u128),
                available,
            )),
        }
    }
}

/// A file in which the bytes of arrays lie one after the other.
pub(crate) struct FlatFile {
    path: PathBuf,
    size: u64,
    entries: Vec<Entry>,
    /// The layout of each array, unless its type is not read, and where it begins.
    arrays: Vec<(Option<Layout>, u64)>,
    pub(crate) class_names: Option<Vec<String>>,
}

impl FlatFile {
    pub(crate) fn new(path: &Path, size: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            size,
            entries: Vec::new(),
            arrays: Vec::new(),
            class_names: None,
        }
    }

    /// Adds an array, which must lie in the file.
    pub(crate) fn add(
        &mut self,
        name: &str,
        layout: Result<Layout, UnreadableType>,
        shape: Vec<usize>,
        start: u64,
    ) -> Result<()> {
        let dtype = layout.as_ref().map(|l| l.dtype).map_err(Clone::clone);
        let entry = Entry::new(name, dtype, shape);
        if let Ok(layout) = &layout {
            let available = self.size.saturating_sub(start);
            layout.check_fits(&self.path, &entry.name, start, available)?;
        }
        self.entries.push(entry);
        self.arrays.push((layout.ok(), start));
        Ok(())
    }
}

impl Archive for FlatFile {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn reader(&self, index: usize) -> Result<ArrayReader> {
        let entry = &self.entries[index];
        entry.dtype_or_error(&self.path)?;
        let (layout, start) = &self.arrays[index];
        let layout = layout.clone().expect("an entry with a type has a layout");
        let (file, _) = data_ref::open(&self.path)?;
        ArrayReader::file(&self.path, &entry.name, layout, file, *start)
    }

    fn class_names(&self) -> Option<Vec<String>> {
        self.class_names.clone()
    }
}

enum ArrayBytes {
    /// Already decoded.
    Memory(AnyArray),
    /// In row-major order from a reader at the first value. `known` says that all bytes are there.
    Rows {
        reader: Box<dyn Read + Send>,
        known: bool,
    },
    /// In column-major order in a file, from an offset on.
    Columns { file: File, start: u64 },
}

/// An array that is read from its first row to its last, some rows at a time.
pub(crate) struct ArrayReader {
    path: PathBuf,
    name: String,
    layout: Layout,
    bytes: ArrayBytes,
    next: usize,
    buffer: Vec<u8>,
    /// Where all bytes are in the file, if they can be read from there.
    whole: Option<WholeArray>,
}

impl ArrayReader {
    fn new(path: &Path, name: &str, layout: Layout, bytes: ArrayBytes) -> Self {
        Self {
            path: path.to_path_buf(),
            name: name.to_owned(),
            layout,
            bytes,
            next: 0,
            buffer: Vec::new(),
            whole: None,
        }
    }

    /// An array that is in memory already.
    pub(crate) fn memory(path: &Path, name: &str, array: AnyArray) -> Self {
        let layout = Layout {
            dtype: array.dtype,
            big_endian: false,
            fortran: false,
            shape: array.shape.clone(),
        };
        Self::new(path, name, layout, ArrayBytes::Memory(array))
    }

    /// An array whose bytes are in `file` from `start` on, which was checked.
    pub(crate) fn file(
        path: &Path,
        name: &str,
        layout: Layout,
        mut file: File,
        start: u64,
    ) -> Result<Self> {
        if layout.fortran && layout.shape.len() == 2 {
            let bytes = ArrayBytes::Columns { file, start };
            return Ok(Self::new(path, name, layout, bytes));
        }
        file.seek(SeekFrom::Start(start))
            .map_err(|e| Error::io(path, "read", e))?;
        let reader = Self::stream(path, name, layout, Box::new(file), true)?;
        Ok(reader.with_whole(WholeArray {
            start,
            checksum: None,
        }))
    }

    /// An array whose bytes come from `reader`. One in column-major order is read at once.
    pub(crate) fn stream(
        path: &Path,
        name: &str,
        layout: Layout,
        reader: Box<dyn Read + Send>,
        known: bool,
    ) -> Result<Self> {
        if !layout.fortran || layout.shape.len() < 2 {
            return Ok(Self::new(
                path,
                name,
                layout,
                ArrayBytes::Rows { reader, known },
            ));
        }
        let shape = layout.shape.clone();
        let dtype = layout.dtype;
        let flat = Layout {
            shape: vec![shape.iter().product()],
            fortran: false,
            ..layout
        };
        let stored =
            Self::new(path, name, flat, ArrayBytes::Rows { reader, known }).read(usize::MAX)?;
        Ok(Self::memory(
            path,
            name,
            AnyArray::from_fortran(shape, dtype, &stored.values),
        ))
    }

    /// Says where all bytes of an array in row-major order are in the file.
    pub(crate) fn with_whole(self, whole: WholeArray) -> Self {
        Self {
            whole: Some(whole),
            ..self
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(crate) fn dtype(&self) -> ElementType {
        self.layout.dtype
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next rows, at most `max`; none are left if the result has no rows.
    pub(crate) fn read(&mut self, max: usize) -> Result<AnyArray> {
        let rows = max.min(self.layout.rows() - self.next);
        let mut shape = self.layout.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = rows;
        }
        let width = self.layout.width();
        let values = match &mut self.bytes {
            // An array that is read whole, as is usual, is not copied.
            ArrayBytes::Memory(array) if self.next == 0 && rows == self.layout.rows() => {
                let empty = Values::with_capacity(array.dtype, 0);
                std::mem::replace(&mut array.values, empty)
            }
            ArrayBytes::Memory(array) => {
                let start = self.next * width;
                array.values.gather(start..start + rows * width)
            }
            ArrayBytes::Rows { .. } => match self.read_whole(rows)? {
                Some(values) => values,
                None => self.read_rows(rows)?,
            },
            ArrayBytes::Columns { .. } => self.read_columns(rows)?,
        };
        self.next += rows;
        Ok(AnyArray {
            shape,
            dtype: self.layout.dtype,
            values,
        })
    }

    /// All values, if it is all rows that are asked for and they are many.
    fn read_whole(&mut self, rows: usize) -> Result<Option<Values>> {
        let layout = &self.layout;
        let bytes = layout.bytes().unwrap_or(0);
        if self.next > 0 || rows < layout.rows() || bytes < whole_array::LARGE {
            return Ok(None);
        }
        let Some(whole) = self.whole.take() else {
            return Ok(None);
        };
        let count = rows * layout.width();
        let plain = spool::plain_file(&self.path)?;
        let open = || File::open(&plain);
        let values = whole.read(open, layout.dtype, layout.big_endian, count);
        values.map_err(|e| stream_error(&self.path, &self.name, 0, bytes, e))
    }

    fn read_rows(&mut self, rows: usize) -> Result<Values> {
        let ArrayBytes::Rows { reader, known } = &mut self.bytes else {
            unreachable!("called for rows only");
        };
        let layout = &self.layout;
        let size = layout.dtype.size();
        let width = layout.width();
        let mut left = rows * width * size;
        let capacity = if *known { rows * width } else { 0 };
        let mut values = Values::with_capacity(layout.dtype, capacity);
        // A piece is a whole number of values, so that none is cut in two.
        let piece = (PIECE / size).max(1) * size;
        while left > 0 {
            self.buffer.resize(left.min(piece), 0);
            reader.read_exact(&mut self.buffer).map_err(|e| {
                let done = self.next * width * size + (rows * width * size - left);
                stream_error(&self.path, &self.name, done as u64, self.buffer.len(), e)
            })?;
            values.extend_from_raw(&self.buffer, layout.dtype, layout.big_endian);
            left -= self.buffer.len();
        }
        if self.next + rows == layout.rows() {
            // Only at its end does a stream compare its checksum.
            let past = reader.read(&mut [0_u8; 1]);
            past.map_err(|e| stream_error(&self.path, &self.name, 0, 0, e))?;
        }
        Ok(values)
    }

    fn read_columns(&mut self, rows: usize) -> Result<Values> {
        let ArrayBytes::Columns { file, start } = &mut self.bytes else {
            unreachable!("called for columns only");
        };
        let layout = &self.layout;
        let size = layout.dtype.size();
        let columns = layout.width();
        self.buffer.resize(rows * size, 0);
        let mut stored = Values::with_capacity(layout.dtype, rows * columns);
        for column in 0..columns {
            let offset = *start + ((column * layout.rows() + self.next) * size) as u64;
            file.seek(SeekFrom::Start(offset))
                .and_then(|_| file.read_exact(&mut self.buffer))
                .map_err(|e| stream_error(&self.path, &self.name, offset, self.buffer.len(), e))?;
            stored.extend_from_raw(&self.buffer, layout.dtype, layout.big_endian);
        }
        Ok(AnyArray::from_fortran(vec![rows, columns], layout.dtype, &stored).values)
    }
}

/// Tells apart data that ends early, damaged data, and errors of the operating system.
fn stream_error(path: &Path, name: &str, offset: u64, needed: usize, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::truncated(path, format!("`{name}`"), offset, needed as u128, 0)
        }
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Error::Malformed {
            path: path.to_path_buf(),
            what: format!("`{name}`"),
            offset,
            problem: "the compressed data is damaged (its checksum or coding is wrong)",
        },
        _ => Error::io(path, "read", error),
    }
}

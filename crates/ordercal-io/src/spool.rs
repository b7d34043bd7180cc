//! Temporary copies of what cannot be read as a file: standard input and pipes, which can be read only once, and
//! compressed files of formats that are not read from front to back.
//!
//! A copy is made when its original is first opened, and stays until the program calls
//! [`discard_pending`](crate::discard_pending).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use crate::atomic::temporary_copy;
use crate::data_ref::open_as;
use crate::error::{Error, Result};
use crate::packing::Packing;

/// What `-` stands for as an input.
pub const STDIN: &str = "/dev/stdin";

/// What `-` stands for as an output.
pub const STDOUT: &str = "/dev/stdout";

/// An original: a compressed file that has changed is another one.
type Original = (PathBuf, Option<(u64, SystemTime)>);

/// The copies. Each is kept open and locked, so that other processes see that this one lives.
static COPIES: Mutex<BTreeMap<Original, (PathBuf, File)>> = Mutex::new(BTreeMap::new());

/// Where the plain bytes of an input can be read as often as needed: the file itself, or a copy.
pub(crate) fn plain_file(path: &Path) -> Result<PathBuf> {
    let packing = Packing::of(path).0;
    let pipe = is_pipe(path);
    if packing == Packing::None && !pipe {
        return Ok(path.to_path_buf());
    }
    let state = fs::metadata(path).ok().filter(|_| !pipe);
    let state = state.and_then(|m| Some((m.len(), m.modified().ok()?)));
    let original = (path.to_path_buf(), state);
    let mut copies = COPIES
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((copy, _)) = copies.get(&original) {
        return Ok(copy.clone());
    }
    let mut source: Box<dyn Read + Send> = if path == Path::new(STDIN) && pipe {
        // Not by its name: a socket cannot be opened by one.
        Box::new(io::stdin())
    } else {
        let (file, size) = open_as(path, path)?;
        if pipe {
            Box::new(file)
        } else {
            packing.unpack(path, file, size)?
        }
    };
    let (copy, file) = copy(path, &mut source)?;
    copies.insert(original, (copy.clone(), file));
    Ok(copy)
}

/// Closes the copies, whose files were removed. One that is just being made belongs to a thread that a signal
/// interrupts, for which nobody may wait.
pub(crate) fn forget_copies() {
    if let Ok(mut copies) = COPIES.try_lock() {
        copies.clear();
    }
}

/// Whether an input can be read only once.
fn is_pipe(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return path == Path::new(STDIN);
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_socket() {
            return true;
        }
    }
    path == Path::new(STDIN) && !metadata.is_file()
}

fn copy(path: &Path, source: &mut dyn Read) -> Result<(PathBuf, File)> {
    let (mut file, copy) = temporary_copy().map_err(|e| Error::Io {
        path: path.to_path_buf(),
        action: "make a temporary copy of",
        source: e,
    })?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok((copy, file)),
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(read_error(path, e)),
        };
        file.write_all(&buffer[..count]).map_err(|e| Error::Io {
            path: path.to_path_buf(),
            action: "make a temporary copy of",
            source: e,
        })?;
    }
}

/// Tells damaged compressed data from errors of the operating system.
pub(crate) fn read_error(path: &Path, error: io::Error) -> Error {
    if !is_damage(&error) {
        return Error::io(path, "read", error);
    }
    Error::BadPacking {
        path: path.to_path_buf(),
        message: error.to_string(),
    }
}

/// Whether an error means that compressed data is damaged.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    // zstd's errors have no kind of their own.
    matches!(
        error.kind(),
        E::InvalidData | E::InvalidInput | E::UnexpectedEof | E::Other
    )
}

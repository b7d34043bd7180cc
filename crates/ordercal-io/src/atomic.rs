//! Output files that are either complete or not there.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Temporary files of this process that are being written.
static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that is written under a temporary name in the same folder, and renamed when it is complete.
///
/// If it is dropped before [`AtomicFile::commit`], or that fails, the temporary file is removed, and a file that
/// already had the name is unchanged. Devices and pipes, which cannot be replaced, are written directly.
///
/// ```
/// use std::io::Write;
/// use ordercal_io::AtomicFile;
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("report.txt");
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"42").unwrap();
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"42");
/// # Ok::<(), ordercal_io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    /// `None` once the file is closed.
    file: Option<BufWriter<File>>,
    target: PathBuf,
    /// The path as the user gave it, for errors.
    path: PathBuf,
    /// `None` if the target is written directly.
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Starts a file that will be called `path`.
    ///
    /// # Errors
    /// If `path` is a folder, or no file can be made beside it.
    pub fn create(path: &Path) -> Result<Self> {
        let fail = |e| Error::io(path, "create", e);
        let target = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Error::IsDirectory {
                    path: path.to_path_buf(),
                });
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(fail)?;
                return Ok(Self::new(path, path.to_path_buf(), file, None));
            }
            // The target of a symbolic link is replaced, not the link.
            Ok(_) => fs::canonicalize(path).map_err(fail)?,
            Err(_) => path.to_path_buf(),
        };
        let name = target.file_name().ok_or_else(|| {
            let problem = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
            Error::io(path, "create", problem)
        })?;
        loop {
            static COUNTER: AtomicU64 = AtomicU64::new(0);
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let mut temporary = std::ffi::OsString::from(".");
            temporary.push(name);
            temporary.push(format!(".{}-{count}.tmp", std::process::id()));
            let temporary = target.with_file_name(temporary);
            // Listed before it exists, so that `discard_pending` can never miss it.
            pending().insert(temporary.clone());
            match OpenOptions::new()
                .write(true)
                .read(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(file) => return Ok(Self::new(path, target, file, Some(temporary))),
                Err(e) => {
                    pending().remove(&temporary);
                    if e.kind() != io::ErrorKind::AlreadyExists {
                        return Err(fail(e));
                    }
                }
            }
        }
    }

    fn new(path: &Path, target: PathBuf, file: File, temporary: Option<PathBuf>) -> Self {
        Self {
            file: Some(BufWriter::with_capacity(1 << 16, file)),
            target,
            path: path.to_path_buf(),
            temporary,
        }
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes everything to the disk and gives the file its name.
    ///
    /// # Errors
    /// If the disk is full or the name cannot be taken; nothing is left behind then.
    pub fn commit(mut self) -> Result<()> {
        let file = self.file.take().expect("a file is closed only here");
        let path = self.path.clone();
        let fail = |e| Error::io(&path, "write", e);
        let file = file.into_inner().map_err(|e| fail(e.into_error()))?;
        let Some(temporary) = &self.temporary else {
            return Ok(());
        };
        file.sync_all().map_err(fail)?;
        drop(file);
        fs::rename(temporary, &self.target).map_err(fail)?;
        pending().remove(temporary);
        self.temporary = None;
        // The rename survives a crash once the folder is synchronised, too; not every file system can do that.
        #[cfg(unix)]
        if let Some(folder) = self.target.parent() {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }

    fn file(&mut self) -> &mut BufWriter<File> {
        self.file.as_mut().expect("a file is closed only on commit")
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file().seek(to)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Without flushing the buffer: the file is about to be removed.
            drop(file.into_parts());
        }
        if let Some(temporary) = self.temporary.take() {
            let _ = fs::remove_file(&temporary);
            pending().remove(&temporary);
        }
    }
}

/// Writes a whole file, atomically as [`AtomicFile`] does.
///
/// # Errors
/// If it cannot be written; nothing is left behind then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes)
        .map_err(|e| Error::io(path, "write", e))?;
    file.commit()
}

/// Removes the temporary files of all unfinished [`AtomicFile`]s: for a program that exits on a signal, without
/// dropping them.
pub fn discard_pending() {
    for temporary in std::mem::take(&mut *pending()) {
        let _ = fs::remove_file(temporary);
    }
}

fn pending() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    // A panic elsewhere leaves the set of names intact.
    PENDING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_dropped_file_leaves_the_old_one_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write_atomically(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        drop(file);
        assert_eq!(names(dir.path()), ["a.txt"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn folders_and_missing_folders_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(dir.path()).unwrap_err();
        assert!(matches!(error, Error::IsDirectory { .. }));
        let error = AtomicFile::create(&dir.path().join("no/a.txt")).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Io {
                    action: "create",
                    ..
                }
            ),
            "{error}"
        );
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    #[cfg(unix)]
    fn links_stay_links_and_devices_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");

        write_atomically(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let mut file = AtomicFile::create(Path::new("/dev/full")).unwrap();
        file.write_all(b"x").unwrap();
        let error = file.commit().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Io {
                    action: "write",
                    ..
                }
            ),
            "{error}"
        );
    }
}

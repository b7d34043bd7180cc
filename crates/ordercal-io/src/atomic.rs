//! Output files that are either complete or not there.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::spool::{self, STDOUT};

/// What the bytes go to: a file, which can be made to fail in tests.
#[cfg(not(test))]
type Disk = File;
#[cfg(test)]
type Disk = crate::tests::FaultyFile;

/// Temporary files of this process that are being written.
static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that is written under a temporary name in the same folder, and renamed when it is complete.
///
/// If it is dropped before [`AtomicFile::commit`], or that fails, the temporary file is removed, and a file that
/// already had the name is unchanged. The new file has the permissions of the one it replaces; one that may not be
/// written is not replaced. Standard output, pipes and devices get the bytes when they are complete.
///
/// Temporary files that a killed process left in the folder are removed.
#[derive(Debug)]
pub struct AtomicFile {
    /// `None` once the file is closed.
    file: Option<BufWriter<Disk>>,
    target: Target,
    /// The path as the user gave it, for errors.
    path: PathBuf,
    /// `None` once it was renamed.
    temporary: Option<PathBuf>,
}

/// What becomes of the temporary file.
#[derive(Debug)]
enum Target {
    /// It gets this name and, if a file is replaced, its permissions.
    File(PathBuf, Option<fs::Permissions>),
    /// It is copied to what is opened here, which cannot be replaced.
    Stream(Option<File>),
}

impl AtomicFile {
    /// Starts a file that will be called `path`.
    ///
    /// # Errors
    /// If `path` is a folder, or no file can be made beside it.
    pub fn create(path: &Path) -> Result<Self> {
        let fail = |e| Error::io(path, "create", e);
        let target = match fs::metadata(path) {
            _ if path == Path::new(STDOUT) => Target::Stream(None),
            Ok(metadata) if metadata.is_dir() => {
                return Err(Error::IsDirectory {
                    path: path.to_path_buf(),
                });
            }
            Ok(metadata) if !metadata.is_file() => {
                let stream = OpenOptions::new().write(true).open(path).map_err(fail)?;
                Target::Stream(Some(stream))
            }
            Ok(metadata) if metadata.permissions().readonly() => {
                let problem = "it is read-only, so it is not replaced";
                return Err(fail(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    problem,
                )));
            }
            // The target of a symbolic link is replaced, not the link.
            Ok(metadata) => {
                let target = fs::canonicalize(path).map_err(fail)?;
                Target::File(target, Some(metadata.permissions()))
            }
            Err(_) => Target::File(path.to_path_buf(), None),
        };
        let (file, temporary) = match &target {
            Target::Stream(_) => temporary_copy(),
            Target::File(target, _) => match target.file_name() {
                Some(name) => temporary(folder_of(target), name, false),
                None => Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path names no file",
                )),
            },
        }
        .map_err(fail)?;
        Ok(Self {
            file: Some(BufWriter::with_capacity(1 << 16, Disk::from(file))),
            target,
            path: path.to_path_buf(),
            temporary: Some(temporary),
        })
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
        let mut file = file.into_inner().map_err(|e| fail(e.into_error()))?;
        let Some(temporary) = &self.temporary else {
            return Ok(());
        };
        let (target, permissions) = match &mut self.target {
            Target::File(target, permissions) => (target, permissions),
            Target::Stream(stream) => {
                return copy_to(&mut file, stream.as_mut()).map_err(fail);
            }
        };
        if let Some(permissions) = permissions {
            file.set_permissions(permissions.clone()).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        drop(file);
        fs::rename(temporary, &*target).map_err(fail)?;
        pending().remove(temporary);
        self.temporary = None;
        // The rename survives a crash once the folder is synchronised, too; not every file system can do that.
        #[cfg(unix)]
        let _ = File::open(folder_of(target)).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn file(&mut self) -> &mut BufWriter<Disk> {
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

/// Copies a finished temporary file to a stream, or to standard output.
fn copy_to(file: &mut File, stream: Option<&mut File>) -> io::Result<()> {
    file.rewind()?;
    let Some(stream) = stream else {
        let mut stdout = io::stdout().lock();
        return match io::copy(file, &mut stdout).and_then(|_| stdout.flush()) {
            // As behind `| head`: nobody reads the rest.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        };
    };
    io::copy(file, stream).and_then(|_| stream.flush())
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Creates the temporary file `.NAME.PID-COUNT.tmp` in a folder; `discard_pending` removes it. A private one cannot be
/// read by other users.
pub(crate) fn temporary(folder: &Path, name: &OsStr, private: bool) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    clean_up(folder);
    loop {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{count}.tmp", std::process::id()));
        let path = folder.join(hidden);
        // Listed before it exists, so that `discard_pending` can never miss it.
        pending().insert(path.clone());
        let mut options = OpenOptions::new();
        options.write(true).read(true).create_new(true);
        #[cfg(unix)]
        if private {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        match options.open(&path) {
            Ok(file) => {
                hold(&file);
                return Ok((file, path));
            }
            Err(e) => {
                pending().remove(&path);
                if e.kind() != io::ErrorKind::AlreadyExists {
                    return Err(e);
                }
            }
        }
    }
}

/// A private file for a copy of an input or output.
pub(crate) fn temporary_copy() -> io::Result<(File, PathBuf)> {
    temporary(&std::env::temp_dir(), "ordercal-copy".as_ref(), true)
}

/// Locks a temporary file until it is closed: how others see that this process lives. Not every file system has
/// locks, and those of Windows would keep this process from opening the file again.
fn hold(file: &File) {
    if cfg!(unix) {
        let _ = file.try_lock();
    }
}

/// Removes the temporary files of killed processes from a folder, once in the life of this one.
fn clean_up(folder: &Path) {
    /// A file this young may belong to a process that has not locked it yet.
    const YOUNG: Duration = Duration::from_secs(10);
    static CLEANED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let Ok(folder) = fs::canonicalize(folder) else {
        return;
    };
    if !cfg!(unix) {
        return;
    }
    let mut cleaned = CLEANED.lock().unwrap_or_else(|p| p.into_inner());
    if !cleaned.insert(folder.clone()) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let old = |m: fs::Metadata| {
            let age = m.modified().ok().and_then(|at| at.elapsed().ok());
            m.is_file() && age.is_some_and(|age| age > YOUNG)
        };
        if is_temporary(&entry.file_name()) && entry.metadata().is_ok_and(old) {
            let abandoned = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if abandoned {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a name is `.NAME.PID-COUNT.tmp`.
fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = name
        .strip_prefix('.')
        .and_then(|name| name.strip_suffix(".tmp"))
        .and_then(|name| name.rsplit_once('.'))
        .and_then(|(_, numbers)| numbers.split_once('-'));
    parts.is_some_and(|(pid, count)| number(pid) && number(count))
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

/// Removes the temporary files of all unfinished [`AtomicFile`]s, and copies of standard input, pipes and compressed
/// files: for a program that ends, perhaps on a signal and without dropping them.
pub fn discard_pending() {
    for temporary in std::mem::take(&mut *pending()) {
        let _ = fs::remove_file(temporary);
    }
    spool::forget_copies();
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
    #[cfg(unix)]
    fn permissions_are_kept_and_read_only_files_too() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        write_atomically(&path, b"new").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);

        fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
        let error = write_atomically(&path, b"newer").unwrap_err();
        let denied = |e: &io::Error| e.kind() == io::ErrorKind::PermissionDenied;
        assert!(
            matches!(&error, Error::Io { source, .. } if denied(source)),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        let make = |name: &str| {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_modified(old).unwrap();
            file
        };
        drop(make(".b.npz.123-0.tmp"));
        let alive = make(".c.npz.124-7.tmp");
        alive.try_lock().unwrap();
        for other in [".notes.tmp", "d.1-1.tmp", ".e.x-1.tmp"] {
            drop(make(other));
        }
        File::create(dir.path().join(".young.125-0.tmp")).unwrap();
        write_atomically(&dir.path().join("a.txt"), b"x").unwrap();
        let mut left = names(dir.path());
        left.sort();
        let mut expected = [
            ".c.npz.124-7.tmp",
            ".e.x-1.tmp",
            ".notes.tmp",
            ".young.125-0.tmp",
            "a.txt",
            "d.1-1.tmp",
        ];
        expected.sort_unstable();
        assert_eq!(left, expected);
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

//! Disks that fail, for tests: whatever is written, and wherever it goes wrong, a file is complete or as it was.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::packing::Packing;
use crate::writer::{OutputSpec, OutputType, ScoreWriter};
use crate::{SavedModel, write_atomically};
use ndarray::Array2;
use ordercal::{Dataset, Method, ScoreKind, Scores};

thread_local! {
    /// What goes wrong with the files that this thread writes.
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// From the n-th byte on, writes fail with this error of the operating system.
    After(usize, i32),
    /// The file cannot be synchronised.
    Sync(i32),
    /// Every other write is interrupted by a signal.
    Interrupted {
        now: bool,
    },
    /// No write takes more than a few bytes.
    Short,
}

/// A file that fails as this thread's [`FAULT`] says.
#[derive(Debug)]
pub(crate) struct FaultyFile(File);

impl From<File> for FaultyFile {
    fn from(file: File) -> Self {
        Self(file)
    }
}

impl Deref for FaultyFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for FaultyFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl FaultyFile {
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        match FAULT.get() {
            Fault::Sync(code) => Err(io::Error::from_raw_os_error(code)),
            _ => self.0.sync_all(),
        }
    }
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = match FAULT.get() {
            Fault::None | Fault::Sync(_) => bytes.len(),
            Fault::After(0, code) => return Err(io::Error::from_raw_os_error(code)),
            Fault::After(left, code) => {
                let count = bytes.len().min(left);
                FAULT.set(Fault::After(left - count, code));
                count
            }
            Fault::Interrupted { now } => {
                FAULT.set(Fault::Interrupted { now: !now });
                if now {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                bytes.len()
            }
            Fault::Short => bytes.len().min(7),
        };
        self.0.write(&bytes[..most])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for FaultyFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

const NO_SPACE: i32 = 28;
const IO_ERROR: i32 = 5;

/// Enough for every buffer on the way to be emptied before the end.
const ROWS: usize = 9_000;

fn write_scores(path: &Path) -> Result<()> {
    let scores = Array2::from_shape_fn((ROWS, 2), |(row, class)| {
        ((row * 7919 + class * 104_729) % 10_007) as f64 / 10_007.0
    });
    let spec = OutputSpec::new(ScoreKind::Logits, 2)
        .with_rows(ROWS)
        .with_dtype(OutputType::F64);
    let mut writer = ScoreWriter::create(path, spec)?;
    for part in scores.axis_chunks_iter(ndarray::Axis(0), 4_000) {
        writer.write_f64(part)?;
    }
    writer.finish()
}

fn model() -> SavedModel {
    let logits = ndarray::array![[4.0_f32, 1.0], [0.5, 3.0], [2.0, 1.0]];
    let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
    let data = Dataset::new(scores, &[0, 1, 1]).unwrap();
    let method = Method::from_key("oi").unwrap();
    let fitted = method.fit(&data).unwrap();
    SavedModel::new(method, fitted)
}

/// Writes over an old file while the disk fails.
fn overwrite(path: &Path, fault: Fault, write: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
    std::fs::write(path, b"old").unwrap();
    FAULT.set(fault);
    let outcome = write(path);
    FAULT.set(Fault::None);
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap();
    assert_eq!(left.count(), 1, "{fault:?}: a temporary file was left");
    outcome
}

fn check(name: &str, write: &dyn Fn(&Path) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    overwrite(&path, Fault::None, write).unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 200, "{name} has only {} bytes", whole.len());
    let last = whole.len() - 1;
    let places = (0..=20).map(|step| last * step / 20);
    let places = places.chain([1, 2, 3, last.saturating_sub(1)]);
    let failing = places.flat_map(|n| [Fault::After(n, NO_SPACE), Fault::After(n, IO_ERROR)]);
    for fault in failing.chain([Fault::Sync(IO_ERROR), Fault::Sync(NO_SPACE)]) {
        let error = overwrite(&path, fault, write).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{fault:?}: {error}");
        let name = path.display().to_string();
        assert!(error.to_string().starts_with(&name), "{fault:?}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old", "{fault:?}: {name}");
    }
    for fault in [
        Fault::Interrupted { now: true },
        Fault::Interrupted { now: false },
        Fault::Short,
    ] {
        overwrite(&path, fault, write).unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        let written = std::fs::read(&path).unwrap();
        assert!(written == whole, "{fault:?}: {name} has other bytes");
    }
}

#[test]
fn scores_of_every_format_are_complete_or_not_written() {
    let endings = Format::ALL.iter().flat_map(|format| format.endings());
    let mut names: Vec<String> = endings.map(|ending| format!("scores{ending}")).collect();
    for packed in Packing::endings() {
        names.extend([
            format!("scores.csv{packed}"),
            format!("scores.jsonl{packed}"),
        ]);
    }
    names.retain(|name| {
        let offered = write_scores(&tempfile::tempdir().unwrap().path().join(name));
        !matches!(
            offered,
            Err(Error::UnknownFormat { .. } | Error::FeatureOff { .. })
        )
    });
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        check(&name, &write_scores);
    }
}

#[test]
fn models_are_complete_or_not_written() {
    let model = model();
    check("model.safetensors", &|path| model.save(path));
}

#[test]
fn states_reports_and_figures_are_complete_or_not_written() {
    // All of them are bytes that are written at once.
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    check("report.html", &|path| write_atomically(path, &bytes));
}

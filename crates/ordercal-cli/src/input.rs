//! The data that the command line names.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, bail};
use ordercal::diagnose::Warning;
use ordercal_io::{DataRef, Format, LabelNeed, LoadedData, ReadOptions, RowReader, inspect};

use crate::args::{DataArgs, LabelArgs};

/// The files of the data.
#[derive(Debug)]
enum InputFiles {
    /// One file, or a split of it.
    Single(DataRef),
    /// Scores and labels in two files.
    Pair(PathBuf, PathBuf),
}

/// The data of a command: its files, and the kind and classes that the command line gives.
#[derive(Debug)]
pub struct DataInput {
    files: InputFiles,
    options: ReadOptions,
}

impl DataInput {
    /// Checks the arguments. Of a bundle without a named split, `preferred` is used.
    pub fn resolve(args: &DataArgs, preferred: &str) -> Result<Self> {
        let options = args.source.options();
        let split = |data: DataRef| with_split(data, preferred, &options);
        let files = match (&args.data, &args.logits, &args.labels) {
            // clap accepts this, because DATA conflicts with the --logits that --labels requires.
            (Some(_), _, Some(_)) => {
                return Err(anyhow!("--labels goes with --logits, not with a DATA file"));
            }
            (Some(data), ..) => InputFiles::Single(split(DataRef::parse(data))?),
            (None, Some(scores), Some(labels)) => InputFiles::Pair(scores.clone(), labels.clone()),
            (None, Some(scores), None) => InputFiles::Single(split(DataRef::parse(scores))?),
            (None, None, _) => return Err(anyhow!("no data was given; name a file, or --logits")),
        };
        Ok(Self { files, options })
    }

    /// Every file that is read.
    pub fn paths(&self) -> Vec<&Path> {
        match &self.files {
            InputFiles::Single(data) => vec![data.path()],
            InputFiles::Pair(scores, labels) => vec![scores, labels],
        }
    }

    /// Refuses a `--format` that no file needs, neither of the data nor the output.
    pub fn check_format(&self, output: Option<&Path>) -> Result<()> {
        let needs = |path: &Path| !Format::is_told_by(path);
        if self.options.format.is_some() && !self.paths().into_iter().chain(output).any(needs) {
            bail!("--format is for `-` and for files whose ending does not tell their format");
        }
        Ok(())
    }

    /// Says what labels are, and which to leave out.
    #[must_use]
    pub fn with_labels(mut self, args: &LabelArgs) -> Self {
        let columns = self.options.columns.clone();
        self.options.columns = columns.with_soft_labels(args.soft_labels.as_slice());
        self.options = (self.options).with_ignored_label(args.ignore_label.clone());
        self
    }

    /// Says which rows belong together.
    #[must_use]
    pub fn with_groups(mut self, groups: Option<&String>) -> Self {
        self.options.columns = self.options.columns.with_groups(groups.cloned());
        self
    }

    /// Hands columns through.
    #[must_use]
    pub fn with_ids(mut self, ids: &[String]) -> Self {
        self.options.columns = self.options.columns.with_ids(ids);
        self
    }

    /// The file with the scores.
    pub fn path(&self) -> &Path {
        self.paths()[0]
    }

    /// Reads all scores and labels.
    pub fn load(&self) -> Result<LoadedData> {
        Ok(LoadedData::collect(self.open(LabelNeed::Required)?)?)
    }

    /// Opens the data to be read in chunks.
    pub fn open(&self, labels: LabelNeed) -> Result<RowReader> {
        let options = self.options.clone().with_labels(labels);
        Ok(match &self.files {
            InputFiles::Single(data) => RowReader::open(data, options)?,
            InputFiles::Pair(scores, labels) => RowReader::open_pair(scores, labels, options)?,
        })
    }
}

fn with_split(data: DataRef, preferred: &str, options: &ReadOptions) -> Result<DataRef> {
    let format = match options.format {
        Some(format) if !Format::is_told_by(data.path()) => format,
        _ => Format::of(data.path())?,
    };
    if data.split().is_some() || !format.has_splits() {
        return Ok(data);
    }
    let contents = inspect(data.path(), options)?;
    Ok(match contents.split(preferred) {
        Some(split) => data.with_split(split),
        None => data,
    })
}

/// A warning for each column or array that looks like labels or weights and is not read.
pub fn ignored(names: &[String]) -> impl Iterator<Item = Warning> {
    names
        .iter()
        .map(|name| Warning::Ignored { name: name.clone() })
}

/// An error about a file; errors of `ordercal_io` name their file already.
pub fn at(path: &Path, error: impl Display) -> Error {
    anyhow!("{}: {error}", path.display())
}

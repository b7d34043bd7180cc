//! The data that the command line names.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};
use ordercal::ScoreKind;
use ordercal::diagnose::Warning;
use ordercal_io::{DataRef, Format, LabelNeed, LoadedData, ReadOptions, RowReader, inspect};

use crate::args::DataArgs;

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
    kind: Option<ScoreKind>,
    class_names: Option<Vec<String>>,
}

impl DataInput {
    /// Checks the arguments. Of a bundle without a named split, `preferred` is used.
    pub fn resolve(args: &DataArgs, preferred: &str) -> Result<Self> {
        let files = match (&args.data, &args.logits, &args.labels) {
            // clap accepts this, because DATA conflicts with the --logits that --labels requires.
            (Some(_), _, Some(_)) => {
                return Err(anyhow!("--labels goes with --logits, not with a DATA file"));
            }
            (Some(data), ..) => InputFiles::Single(with_split(DataRef::parse(data), preferred)?),
            (None, Some(scores), Some(labels)) => InputFiles::Pair(scores.clone(), labels.clone()),
            (None, Some(scores), None) => {
                InputFiles::Single(with_split(DataRef::parse(scores), preferred)?)
            }
            (None, None, _) => return Err(anyhow!("no data was given; name a file, or --logits")),
        };
        Ok(Self {
            files,
            kind: args.kind,
            class_names: args.classes.names(),
        })
    }

    /// The file with the scores.
    pub fn path(&self) -> &Path {
        match &self.files {
            InputFiles::Single(data) => data.path(),
            InputFiles::Pair(scores, _) => scores,
        }
    }

    /// Reads all scores and labels.
    pub fn load(&self) -> Result<LoadedData> {
        Ok(LoadedData::collect(self.open(LabelNeed::Required)?)?)
    }

    /// Opens the data to be read in chunks.
    pub fn open(&self, labels: LabelNeed) -> Result<RowReader> {
        let options = self.options(labels);
        Ok(match &self.files {
            InputFiles::Single(data) => RowReader::open(data, options)?,
            InputFiles::Pair(scores, labels) => RowReader::open_pair(scores, labels, options)?,
        })
    }

    fn options(&self, labels: LabelNeed) -> ReadOptions {
        ReadOptions::default()
            .with_kind(self.kind)
            .with_labels(labels)
            .with_class_names(self.class_names.clone())
    }
}

fn with_split(data: DataRef, preferred: &str) -> Result<DataRef> {
    if data.split().is_some() || !Format::of(data.path())?.has_splits() {
        return Ok(data);
    }
    let found = inspect(data.path())?
        .sets
        .iter()
        .any(|set| set.split.as_deref() == Some(preferred));
    Ok(if found {
        data.with_split(preferred)
    } else {
        data
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

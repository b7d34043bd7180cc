//! From what was typed to the data that is meant.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};
use ordercal::ScoreKind;
use ordercal_io::{DataRef, Format, LabelNeed, LoadedData, ReadOptions, RowReader, inspect};

use crate::args::DataArgs;

/// Data as a command names it.
#[derive(Debug)]
pub enum Input {
    /// A file or a split of one.
    Single(DataRef),
    /// Scores and labels in two files.
    Pair(PathBuf, PathBuf),
}

/// An input with what the command line says about its scores.
#[derive(Debug)]
pub struct Source {
    input: Input,
    kind: Option<ScoreKind>,
    class_names: Option<Vec<String>>,
}

impl Source {
    /// Finds out what is meant; of a bundle without a split named, `preferred` is taken.
    pub fn resolve(args: &DataArgs, preferred: &str) -> Result<Self> {
        let kind = args.kind.map(ScoreKind::from);
        let input = match (&args.data, &args.logits, &args.labels) {
            // The parser lets this pass: what --labels requires conflicts with what is there.
            (Some(_), _, Some(_)) => {
                return Err(anyhow!("--labels goes with --logits, not with a DATA file"));
            }
            (Some(data), ..) => Input::Single(with_split(DataRef::parse(data), preferred)?),
            (None, Some(scores), Some(labels)) => Input::Pair(scores.clone(), labels.clone()),
            (None, Some(scores), None) => {
                Input::Single(with_split(DataRef::parse(scores), preferred)?)
            }
            (None, None, _) => return Err(anyhow!("no data was given; name a file, or --logits")),
        };
        Ok(Self {
            input,
            kind,
            class_names: None,
        })
    }

    /// The file with the scores.
    pub fn path(&self) -> &Path {
        match &self.input {
            Input::Single(data) => data.path(),
            Input::Pair(scores, _) => scores,
        }
    }

    /// Labels that are names are looked up among these, the classes of a model.
    #[must_use]
    pub fn with_class_names(self, class_names: Option<Vec<String>>) -> Self {
        Self {
            class_names,
            ..self
        }
    }

    /// Scores and labels, whole.
    pub fn load(&self) -> Result<LoadedData> {
        let options = self.options(LabelNeed::Required);
        Ok(match &self.input {
            Input::Single(data) => LoadedData::read(data, options)?,
            Input::Pair(scores, labels) => LoadedData::read_pair(scores, labels, options)?,
        })
    }

    /// Scores, whole; nobody asks for their labels.
    pub fn load_scores(&self) -> Result<LoadedData> {
        let options = self.options(LabelNeed::Ignored);
        Ok(match &self.input {
            Input::Single(data) => LoadedData::read(data, options)?,
            Input::Pair(scores, labels) => LoadedData::read_pair(scores, labels, options)?,
        })
    }

    /// Scores, chunk by chunk, with labels if they are needed.
    pub fn open(&self, labels: LabelNeed) -> Result<RowReader> {
        let options = self.options(labels);
        Ok(match &self.input {
            Input::Single(data) => RowReader::open(data, options)?,
            Input::Pair(scores, labels) => RowReader::open_pair(scores, labels, options)?,
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

/// An error with the file that it is about; messages of the file library name theirs already.
pub fn at(path: &Path, error: impl Display) -> Error {
    anyhow!("{}: {error}", path.display())
}

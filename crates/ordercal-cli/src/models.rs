//! Models from files, with distinct names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ordercal::diagnose::{Warning, check_kind};
use ordercal::grouped::RowGroups;
use ordercal::ndarray::Array2;
use ordercal::{Real, ScoreKind, Scores};
use ordercal_io::{IdValues, RowReader, SavedGroups, SavedModel};

/// A model file of either kind.
pub enum AnyModel {
    /// One model for all rows.
    One(Box<SavedModel>),
    /// One for each group.
    Groups(Box<SavedGroups>),
}

impl AnyModel {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self> {
        Ok(match SavedGroups::is_file(path) {
            true => Self::Groups(SavedGroups::load(path)?.into()),
            false => Self::One(SavedModel::load(path)?.into()),
        })
    }

    /// The model of all rows.
    pub fn pooled(&self) -> &SavedModel {
        match self {
            Self::One(saved) => saved,
            Self::Groups(saved) => &saved.pooled,
        }
    }

    /// The columns that say which group a row is of.
    pub fn by(&self) -> &[String] {
        match self {
            Self::One(_) => &[],
            Self::Groups(saved) => &saved.by,
        }
    }

    /// Calibrates rows. `ids` are their columns; those of the groups are the last.
    pub fn apply<T: Real>(
        &self,
        scores: &Scores<'_>,
        ids: &[IdValues],
        kind: ScoreKind,
    ) -> ordercal::Result<Array2<T>> {
        match self {
            Self::One(saved) => saved.model.apply(scores, kind),
            Self::Groups(saved) => {
                let by = &ids[ids.len() - saved.by.len()..];
                let key = |row| by.iter().map(|ids| ids.text(row)).collect();
                saved
                    .model
                    .apply(scores, &RowGroups::new(scores.rows(), key), kind)
            }
        }
    }
}

/// Loads models and names them by their files, or by their paths where file names repeat.
pub fn load_models(paths: &[PathBuf]) -> Result<Vec<(String, SavedModel)>> {
    let stem = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        stem.to_string_lossy().into_owned()
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        *count.entry(stem(path)).or_default() += 1;
    }
    let named = paths.iter().map(|path| {
        let name = match stem(path) {
            name if count[&name] > 1 => path.display().to_string(),
            name => name,
        };
        Ok((name, SavedModel::load(path)?))
    });
    named.collect()
}

/// Warnings about models that were fitted to scores of another kind than those of the data.
pub fn check_kinds<'a>(
    reader: &RowReader,
    models: impl IntoIterator<Item = &'a SavedModel>,
) -> Vec<Warning> {
    let kinds = models.into_iter().map(|saved| saved.kind);
    let mut warnings: Vec<Warning> = kinds
        .filter_map(|kind| check_kind(kind, reader.kind()))
        .collect();
    warnings.dedup();
    warnings
}

/// Matches the columns of the data to the classes of the models: by name where both have names, by position
/// elsewhere. Models for another number of classes are refused, and those that do not agree among themselves.
pub fn match_classes<'a>(
    reader: &mut RowReader,
    models: impl IntoIterator<Item = (&'a Path, &'a SavedModel)>,
) -> Result<()> {
    let mut known: Option<(&Path, &[String])> = None;
    for (path, saved) in models {
        let (have, need) = (reader.classes(), saved.model.classes());
        if have != need {
            bail!(
                "{}: the model is for {need} classes, but {} has {have}",
                path.display(),
                reader.path().display(),
            );
        }
        let Some(names) = saved.class_names.as_deref() else {
            continue;
        };
        match known {
            Some((first, others)) if others != names => bail!(
                "{} and {} do not have the same classes in the same order; use them one at a time",
                first.display(),
                path.display()
            ),
            _ => known = Some((path, names)),
        }
    }
    if let Some((_, names)) = known {
        reader.match_classes(names, "the model")?;
    }
    Ok(())
}

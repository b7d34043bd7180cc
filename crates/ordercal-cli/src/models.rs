//! Models from files, with distinct names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ordercal::diagnose::{RowChecks, Warning, check_kind};
use ordercal::grouped::{GroupKey, GroupedModel, RowGroups};
use ordercal::ndarray::Array2;
use ordercal::{Model, Real, ScoreKind, Scores};
use ordercal_io::{DataRef, IdValues, LabelNeed, RowReader, SavedGroups, SavedModel};

use crate::input::{DataInput, at, ignored};

/// The name of the model of all rows among the models of groups.
const ALL: &str = "all";

/// The most groups that an error names.
const NAMED: usize = 5;

/// A model file of either kind.
pub enum AnyModel {
    /// One model for all rows.
    One(Box<SavedModel>),
    /// One for each group.
    Groups(Box<SavedGroups>),
}

impl AnyModel {
    /// Reads `FILE`, or one of the models of groups as `FILE#GROUP`.
    pub fn load(path: &Path) -> Result<Self> {
        let file = DataRef::parse(path);
        let is_grouped = SavedGroups::is_file(file.path());
        Ok(match file.split() {
            None if is_grouped => Self::Groups(SavedGroups::load(path)?.into()),
            None => Self::One(SavedModel::load(path)?.into()),
            Some(group) if is_grouped => {
                let saved = SavedGroups::load(file.path())?;
                Self::One(pick(&saved, group).map_err(|e| at(file.path(), e))?.into())
            }
            Some(group) => {
                SavedModel::load(file.path())?;
                let problem = format!("this file holds one model, and no group `{group}`");
                return Err(at(file.path(), problem));
            }
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

    /// The model as it is applied to rows.
    pub fn applied(&self) -> Applied<'_> {
        match self {
            Self::One(saved) => Applied::One(&saved.model),
            Self::Groups(saved) => Applied::Groups(&saved.model, &saved.by),
        }
    }

    /// The only model; `path` is where it was read from.
    fn one(self, path: &Path) -> Result<SavedModel> {
        match self {
            Self::One(saved) => Ok(*saved),
            Self::Groups(saved) => {
                let group = saved.report.groups.first();
                let group = group.map_or(ALL.to_owned(), |group| group.key.join(","));
                let file = path.display();
                bail!(
                    "{file}: this file holds models of groups; name one of them, as in {file}#{group}, or {file}#{ALL} for \
                     that of all rows"
                )
            }
        }
    }
}

/// The model of a group, as it is applied to scores.
fn pick(saved: &SavedGroups, group: &str) -> Result<SavedModel> {
    let mut names: Vec<String> = (saved.report.groups.iter())
        .map(|group| group.key.join(","))
        .collect();
    if let Some(place) = names.iter().position(|name| name == group) {
        return Ok(saved.group(&saved.report.groups[place].key));
    }
    if group == ALL {
        return Ok(saved.pooled.clone());
    }
    let more = if names.len() > NAMED { " …" } else { "" };
    names.truncate(NAMED);
    bail!(
        "there is no group `{group}`; there are {}{more}, and {ALL} is the model of all rows",
        names.join(" ")
    )
}

/// A model as it is applied to rows.
#[derive(Clone, Copy)]
pub enum Applied<'a> {
    /// One model for all rows.
    One(&'a Model),
    /// One for each group, and the columns that say which group a row is of.
    Groups(&'a GroupedModel, &'a [String]),
}

impl Applied<'_> {
    /// Calibrates rows; the models of groups need the columns that tell the groups.
    pub fn apply<T: Real>(
        self,
        scores: &Scores<'_>,
        columns: Columns<'_>,
        kind: ScoreKind,
    ) -> ordercal::Result<Array2<T>> {
        match self {
            Self::One(model) => model.apply(scores, kind),
            Self::Groups(model, by) => model.apply(scores, &columns.groups(by), kind),
        }
    }
}

/// Columns of a table that are handed through, such as those of groups.
#[derive(Clone, Copy, Default)]
pub struct Columns<'a> {
    /// Their names.
    pub names: &'a [String],
    /// The values of the rows.
    pub values: &'a [IdValues],
}

impl Columns<'_> {
    /// The group of each row by some of the columns.
    pub fn groups(self, by: &[String]) -> RowGroups {
        let values = |name: &String| {
            let place = self.names.iter().position(|other| other == name);
            &self.values[place.expect("the columns of groups are read")]
        };
        let values: Vec<&IdValues> = by.iter().map(values).collect();
        let rows = self.values.first().map_or(0, IdValues::len);
        RowGroups::new(rows, |row| values.iter().map(|v| v.text(row)).collect())
    }

    /// The rows of each group by some of the columns; no groups if there are none.
    pub fn rows_of(self, by: &[String]) -> BTreeMap<GroupKey, Vec<usize>> {
        let mut rows: BTreeMap<GroupKey, Vec<usize>> = BTreeMap::new();
        if !by.is_empty() {
            let groups = self.groups(by);
            for row in 0..groups.rows() {
                rows.entry(groups.key(row).clone()).or_default().push(row);
            }
        }
        rows
    }

    /// The values of some rows.
    pub fn keep(self, rows: &[usize]) -> Vec<IdValues> {
        self.values.iter().map(|values| values.keep(rows)).collect()
    }
}

/// The names of several lists of columns, each once.
pub fn columns_of<'a>(lists: impl IntoIterator<Item = &'a [String]>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in lists.into_iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// A model with its name and the file it was read from.
pub struct NamedModel {
    pub name: String,
    pub path: PathBuf,
    pub model: AnyModel,
}

/// Loads models and names them by their files, or by their paths where file names repeat.
pub fn load_models(paths: &[PathBuf]) -> Result<Vec<NamedModel>> {
    let stem = |path: &PathBuf| {
        let file = DataRef::parse(path);
        let stem = file.path().file_stem().unwrap_or(path.as_os_str());
        let group = file.split().map(|group| format!("#{group}"));
        stem.to_string_lossy().into_owned() + &group.unwrap_or_default()
    };
    let stems: Vec<String> = paths.iter().map(stem).collect();
    let named = paths.iter().zip(&stems).map(|(path, stem)| {
        let unique = stems.iter().filter(|other| *other == stem).count() == 1;
        Ok(NamedModel {
            name: match unique {
                true => stem.clone(),
                false => path.display().to_string(),
            },
            path: path.clone(),
            model: AnyModel::load(path)?,
        })
    });
    named.collect()
}

/// The same where each is one model for all rows.
pub fn load_single_models(paths: &[PathBuf]) -> Result<Vec<(String, SavedModel)>> {
    let models = load_models(paths)?.into_iter();
    models
        .map(|named| Ok((named.name, named.model.one(&named.path)?)))
        .collect()
}

/// Opens labelled rows, whose columns are matched to the models' classes. Returns with them what is to see the rows, and
/// warnings about the files.
pub fn open_labelled(
    input: &DataInput,
    models: &[NamedModel],
) -> Result<(RowReader, RowChecks, Vec<Warning>)> {
    let pooled = || models.iter().map(|named| named.model.pooled());
    let paths = models.iter().map(|named| named.path.as_path());
    let mut reader = input.open(LabelNeed::Required)?;
    match_classes(&mut reader, paths.zip(pooled()))?;
    let fitted_on = pooled().filter_map(|saved| saved.data).collect();
    let checks = RowChecks::new(reader.classes()).of_models_fitted_on(fitted_on);
    let mut warnings = check_kinds(&reader, pooled());
    warnings.extend(ignored(reader.ignored()));
    Ok((reader, checks, warnings))
}

/// Loads one model for all rows.
pub fn load_model(path: &Path) -> Result<SavedModel> {
    AnyModel::load(path)?.one(path)
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

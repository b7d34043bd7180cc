//! A calibrator per group of rows (country, tenant, device), shrunk towards that of all rows.
//!
//! Groups are nested: with the columns `country, device`, the parent of the group `DE, phone` is `DE`, and the parent of
//! `DE` are all rows. The map of a group is fitted to what its parent's makes of the scores, and the two are mixed:
//! p = w·p_group + (1 − w)·p_parent with w = n/(n + m) for a group of n rows (James–Stein shrinkage in form). The m of a level
//! is the one of a list under which held-out rows are the most likely: 0 trusts every group alone, ∞ none. Many small
//! groups therefore decide together how much each of them can be trusted.

use std::collections::BTreeMap;

use ndarray::{Array2, Axis};
use serde::{Deserialize, Serialize};

mod fit;

use crate::data::{ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::methods::FitReport;
use crate::models::{ChainModel, MixtureModel, Model};
use crate::real::{Real, zeros};
use crate::registry::Method;
pub use fit::{FoldMaps, FoldModels, GroupPart, GroupTree};

/// What a group is: the value of each column, from the first on.
pub type GroupKey = Vec<String>;

/// The group of each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroups {
    keys: Vec<GroupKey>,
    /// For each row the place of its key.
    of_row: Vec<usize>,
}

impl RowGroups {
    /// Divides rows by their keys.
    pub fn new(rows: usize, key: impl Fn(usize) -> GroupKey) -> Self {
        let mut places = BTreeMap::new();
        let of_row = (0..rows).map(|row| {
            let next = places.len();
            *places.entry(key(row)).or_insert(next)
        });
        let of_row = of_row.collect();
        let mut keys = vec![GroupKey::new(); places.len()];
        for (key, place) in places {
            keys[place] = key;
        }
        Self { keys, of_row }
    }

    /// The groups, in the order in which they occur.
    pub fn keys(&self) -> &[GroupKey] {
        &self.keys
    }

    /// The group of a row.
    pub fn key(&self, row: usize) -> &GroupKey {
        &self.keys[self.of_row[row]]
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.of_row.len()
    }

    /// The number of columns.
    fn levels(&self) -> Result<usize> {
        let mut lengths = self.keys.iter().map(Vec::len);
        match lengths.next() {
            Some(levels) if levels > 0 && lengths.all(|length| length == levels) => Ok(levels),
            _ => Err(Error::InvalidArgument {
                argument: "groups",
                found: "keys of no or of different columns".to_owned(),
                expected: "for every row a value in each column, and at least one column",
            }),
        }
    }

    /// The rows of each key's first `depth` parts.
    fn at(&self, depth: usize) -> BTreeMap<GroupKey, Vec<usize>> {
        let mut found: BTreeMap<GroupKey, Vec<usize>> = BTreeMap::new();
        let mut rows = vec![Vec::new(); self.keys.len()];
        for (row, &group) in self.of_row.iter().enumerate() {
            rows[group].push(row);
        }
        for (key, rows) in self.keys.iter().zip(rows) {
            let prefix = key[..depth.min(key.len())].to_vec();
            found.entry(prefix).or_default().extend(rows);
        }
        found.values_mut().for_each(|rows| rows.sort_unstable());
        found
    }
}

/// How calibrators of groups are fitted.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GroupFit {
    /// The method for all rows together.
    pub method: Method,
    /// The method for the rows of a group, on what the parent's map makes of them.
    pub group_method: Method,
    /// Groups with fewer rows have no map of their own, but their parent's.
    pub min_rows: usize,
    /// The number of folds by which m is chosen.
    pub folds: usize,
    /// The seed of the folds.
    pub seed: u64,
}

/// The fewest rows of a group if nobody says.
pub const MIN_ROWS: usize = 50;

impl GroupFit {
    /// A fit with `ts` for the groups.
    ///
    /// # Errors
    /// Never; `ts` is in the table of methods.
    pub fn new(method: Method) -> Result<Self> {
        Ok(Self {
            method,
            group_method: Method::from_key("ts")?,
            min_rows: MIN_ROWS,
            folds: 5,
            seed: 1357,
        })
    }
}

/// The map of a group that has one of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMap {
    /// The map that reads what the parent's gives.
    pub own: Model,
    /// The weight w of the group's map; its parent's has 1 − w.
    pub weight: f64,
}

/// Models of groups, each mixed with its parent's.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupedModel {
    pooled: Model,
    maps: BTreeMap<GroupKey, GroupMap>,
    /// The maps as they are applied to scores.
    composed: BTreeMap<GroupKey, Model>,
}

impl GroupedModel {
    /// Puts the maps of groups together.
    ///
    /// # Errors
    /// If a map is for another number of classes, or a weight is not above 0 and at most 1.
    pub fn new(pooled: Model, maps: BTreeMap<GroupKey, GroupMap>) -> Result<Self> {
        let mut composed: BTreeMap<GroupKey, Model> = BTreeMap::new();
        // A prefix is smaller than what it begins, so parents come first.
        for (key, map) in &maps {
            let parent = ancestor(&composed, key).map_or(&pooled, |(_, model)| model);
            composed.insert(key.clone(), compose(parent, &map.own, map.weight)?);
        }
        Ok(Self {
            pooled,
            maps,
            composed,
        })
    }

    /// The model of all rows.
    pub fn pooled(&self) -> &Model {
        &self.pooled
    }

    /// The maps of the groups that have one.
    pub fn maps(&self) -> &BTreeMap<GroupKey, GroupMap> {
        &self.maps
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.pooled.classes()
    }

    /// Whether the ranking of every row is kept.
    pub fn order_preserving(&self) -> bool {
        let mut maps = self.maps.values();
        self.pooled.order_preserving() && maps.all(|map| map.own.order_preserving())
    }

    /// The model for a group: its own, that of the nearest ancestor that has one, or that of all rows.
    pub fn model(&self, key: &[String]) -> &Model {
        ancestor(&self.composed, key).map_or(&self.pooled, |(_, model)| model)
    }

    /// Calibrates N×K scores, each row by the model of its group.
    ///
    /// # Errors
    /// [`Error::WrongClasses`] if the scores have another number of classes; [`Error::LengthMismatch`] if there is not a
    /// group for every row.
    ///
    /// ```
    /// # use ndarray::Array2;
    /// # use ordercal::{Dataset, ScoreKind, Scores};
    /// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
    /// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
    /// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
    /// use ordercal::grouped::{GroupFit, RowGroups};
    /// use ordercal::{Method, Unwatched};
    ///
    /// // `data` has 60 rows of 3 classes.
    /// let groups = RowGroups::new(60, |row| vec![["DE", "FR"][row % 2].into()]);
    /// let mut fit = GroupFit::new(Method::from_key("ts")?)?;
    /// fit.min_rows = 20;
    /// let fitted = fit.fit(&data, &groups, &Unwatched)?;
    /// let probs = fitted.model.apply::<f32>(data.scores(), &groups, ScoreKind::Probs)?;
    /// assert_eq!(probs.dim(), (60, 3));
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn apply<T: Real>(
        &self,
        scores: &Scores<'_>,
        groups: &RowGroups,
        output: ScoreKind,
    ) -> Result<Array2<T>> {
        if groups.rows() != scores.rows() {
            return Err(Error::LengthMismatch {
                what: "groups",
                found: groups.rows(),
                rows: scores.rows(),
            });
        }
        if let [key] = groups.keys() {
            return self.model(key).apply(scores, output);
        }
        let mut rows = vec![Vec::new(); groups.keys.len()];
        for (row, &group) in groups.of_row.iter().enumerate() {
            rows[group].push(row);
        }
        let mut results = zeros((scores.rows(), scores.classes()));
        for (key, rows) in groups.keys.iter().zip(rows) {
            let own = self.model(key).apply::<T>(&scores.select(&rows), output)?;
            for (&row, own) in rows.iter().zip(own.axis_iter(Axis(0))) {
                results.row_mut(row).assign(&own);
            }
        }
        Ok(results)
    }
}

/// The longest prefix of a key that is there.
fn ancestor<'a>(
    models: &'a BTreeMap<GroupKey, Model>,
    key: &[String],
) -> Option<(usize, &'a Model)> {
    let mut lengths = (1..=key.len()).rev();
    lengths.find_map(|length| Some((length, models.get(&key[..length])?)))
}

/// w·(own ∘ parent) + (1 − w)·parent.
fn compose(parent: &Model, own: &Model, weight: f64) -> Result<Model> {
    let chain: Model = ChainModel::new(parent.clone(), own.clone())?.into();
    if weight >= 1.0 {
        return Ok(chain);
    }
    Ok(MixtureModel::new(vec![(weight, chain), (1.0 - weight, parent.clone())])?.into())
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupReport {
    /// The group.
    pub key: GroupKey,
    /// Its rows.
    pub rows: usize,
    /// The weight of its own map; 0 if it has none.
    pub weight: f64,
    /// The mean NLL of its scores as they are.
    pub nll_before: f64,
    /// The mean NLL under the parent's map, of held-out rows.
    pub nll_parent: f64,
    /// The mean NLL under the map it got, of held-out rows.
    pub nll_after: f64,
    /// Whose map it uses if it has none of its own; empty: that of all rows.
    pub fallback: Option<GroupKey>,
}

/// What a fit of groups did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupsReport {
    /// The report of the model of all rows.
    pub pooled: FitReport,
    /// The chosen m of each level, in rows; `None` is ∞: no group has a map of its own.
    pub shrinkage: Vec<Option<f64>>,
    /// The mean held-out NLL with the model of all rows for every group.
    pub nll_pooled: f64,
    /// The mean held-out NLL with every group's map by itself, m = 0.
    pub nll_separate: f64,
    /// The mean held-out NLL with the chosen m.
    pub nll_after: f64,
    /// Each group, also those that fell back.
    pub groups: Vec<GroupReport>,
}

/// A grouped model with the report of its fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedGroups {
    /// The models.
    pub model: GroupedModel,
    /// What the fit did.
    pub report: GroupsReport,
}

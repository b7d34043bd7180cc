//! A calibrator per group of rows (country, tenant, device), shrunk towards that of all rows.
//!
//! Groups are nested: with the columns `country, device`, the parent of the group `DE, phone` is `DE`, and the parent of
//! `DE` are all rows. The map of a group is fitted to what its parent's makes of the scores, and the two are mixed:
//! p = w·p_group + (1 − w)·p_parent with w = n/(n + m) for a group of n rows (James–Stein shrinkage in form). The m of a level
//! is the one of a list under which held-out rows are the most likely: 0 trusts every group alone, ∞ none. Many small
//! groups therefore decide together how much each of them can be trusted.

use std::collections::BTreeMap;

use ndarray::{Array2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Folds, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::methods::{FitReport, Fitted};
use crate::models::{ChainModel, MixtureModel, Model, UncalibratedModel, apply};
use crate::real::Real;
use crate::registry::Method;
use crate::watch::{Unwatched, Watch, report_progress};

/// What a group is: the value of each column, from the first on.
///
/// ```
/// let key: ordercal::grouped::GroupKey = vec!["DE".to_owned(), "phone".to_owned()];
/// assert!(key.starts_with(&["DE".to_owned()]));
/// ```
pub type GroupKey = Vec<String>;

/// The group of each row.
///
/// ```
/// use ordercal::grouped::RowGroups;
///
/// let country = ["DE", "FR", "DE"];
/// let groups = RowGroups::new(3, |row| vec![country[row].to_owned()]);
/// assert_eq!(groups.keys().len(), 2);
/// assert_eq!(groups.key(2)[..], ["DE"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroups {
    keys: Vec<GroupKey>,
    /// For each row the place of its key.
    of_row: Vec<usize>,
}

impl RowGroups {
    /// Divides rows by their keys.
    ///
    /// ```
    /// use ordercal::grouped::RowGroups;
    ///
    /// let (country, device) = (["DE", "DE"], ["phone", "desktop"]);
    /// let groups = RowGroups::new(2, |row| vec![country[row].into(), device[row].into()]);
    /// assert_eq!(groups.key(1)[..], ["DE", "desktop"]);
    /// ```
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
    ///
    /// ```
    /// let groups = ordercal::grouped::RowGroups::new(3, |row| vec![["FR", "DE", "FR"][row].into()]);
    /// assert_eq!(groups.keys(), [["FR"], ["DE"]]);
    /// ```
    pub fn keys(&self) -> &[GroupKey] {
        &self.keys
    }

    /// The group of a row.
    ///
    /// ```
    /// let groups = ordercal::grouped::RowGroups::new(2, |row| vec![["FR", "DE"][row].into()]);
    /// assert_eq!(groups.key(1)[..], ["DE"]);
    /// ```
    pub fn key(&self, row: usize) -> &GroupKey {
        &self.keys[self.of_row[row]]
    }

    /// The number of rows.
    ///
    /// ```
    /// let groups = ordercal::grouped::RowGroups::new(3, |_| vec!["all".into()]);
    /// assert_eq!((groups.rows(), groups.keys().len()), (3, 1));
    /// ```
    pub fn rows(&self) -> usize {
        self.of_row.len()
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
///
/// ```
/// use ordercal::Method;
/// use ordercal::grouped::GroupFit;
///
/// let mut fit = GroupFit::new(Method::from_key("diag")?)?;
/// fit.min_rows = 200;
/// assert_eq!(fit.group_method.key(), "ts");
/// # Ok::<(), ordercal::Error>(())
/// ```
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
    ///
    /// ```
    /// use ordercal::Method;
    /// use ordercal::grouped::{GroupFit, MIN_ROWS};
    ///
    /// assert_eq!(GroupFit::new(Method::from_key("auto")?)?.min_rows, MIN_ROWS);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
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
///
/// ```
/// use ordercal::grouped::GroupMap;
/// use ordercal::models::TsModel;
///
/// // The map of a group of n rows that is shrunk by m = n rows: half its own, half its parent's.
/// let map = GroupMap { own: TsModel::new(3, 0.5)?.into(), weight: 0.5 };
/// assert!(map.own.order_preserving());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMap {
    /// The map that reads what the parent's gives.
    pub own: Model,
    /// The weight w of the group's map; its parent's has 1 − w.
    pub weight: f64,
}

/// Models of groups, each mixed with its parent's.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use ordercal::ScoreKind;
/// use ordercal::grouped::{GroupMap, GroupedModel};
/// use ordercal::models::TsModel;
///
/// // Germany's scores are twice as large as they should be; everyone else's are fine.
/// let own = GroupMap { own: TsModel::new(2, 0.5)?.into(), weight: 1.0 };
/// let maps = BTreeMap::from([(vec!["DE".to_owned()], own)]);
/// let model = GroupedModel::new(TsModel::new(2, 1.0)?.into(), maps)?;
/// let odds = |country: &str| -> ordercal::Result<f64> {
///     let probs: Vec<f64> = model.model(&[country.into()]).apply_row(&[2.0, 0.0], ScoreKind::Probs)?;
///     Ok((probs[0] / probs[1]).ln())
/// };
/// assert!((odds("DE")? - 1.0).abs() < 1e-6 && (odds("FR")? - 2.0).abs() < 1e-6);
/// # Ok::<(), ordercal::Error>(())
/// ```
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
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use ordercal::grouped::GroupedModel;
    /// use ordercal::models::TsModel;
    ///
    /// // Without maps of groups it is the model of all rows.
    /// let model = GroupedModel::new(TsModel::new(3, 0.5)?.into(), BTreeMap::new())?;
    /// assert_eq!(model.model(&["DE".into()]), model.pooled());
    /// # Ok::<(), ordercal::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use ordercal::grouped::GroupedModel;
    /// # use ordercal::models::TsModel;
    /// let model = GroupedModel::new(TsModel::new(3, 0.5)?.into(), BTreeMap::new())?;
    /// assert_eq!(model.pooled().form(), "ts");
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn pooled(&self) -> &Model {
        &self.pooled
    }

    /// The maps of the groups that have one.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use ordercal::grouped::{GroupMap, GroupedModel};
    /// # use ordercal::models::TsModel;
    /// let own = GroupMap { own: TsModel::new(3, 0.5)?.into(), weight: 0.25 };
    /// let maps = BTreeMap::from([(vec!["DE".to_owned()], own)]);
    /// let model = GroupedModel::new(TsModel::new(3, 1.0)?.into(), maps)?;
    /// assert_eq!(model.maps()[&vec!["DE".to_owned()]].weight, 0.25);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn maps(&self) -> &BTreeMap<GroupKey, GroupMap> {
        &self.maps
    }

    /// K, the number of classes.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use ordercal::grouped::GroupedModel;
    /// # use ordercal::models::TsModel;
    /// let model = GroupedModel::new(TsModel::new(3, 0.5)?.into(), BTreeMap::new())?;
    /// assert_eq!(model.classes(), 3);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn classes(&self) -> usize {
        self.pooled.classes()
    }

    /// Whether the ranking of every row is kept.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use ordercal::grouped::GroupedModel;
    /// # use ordercal::models::TsModel;
    /// let model = GroupedModel::new(TsModel::new(3, 0.5)?.into(), BTreeMap::new())?;
    /// assert!(model.order_preserving());
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn order_preserving(&self) -> bool {
        let mut maps = self.maps.values();
        self.pooled.order_preserving() && maps.all(|map| map.own.order_preserving())
    }

    /// The model for a group: its own, that of the nearest ancestor that has one, or that of all rows.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use ordercal::grouped::{GroupMap, GroupedModel};
    /// # use ordercal::models::TsModel;
    /// let own = GroupMap { own: TsModel::new(3, 0.5)?.into(), weight: 1.0 };
    /// let maps = BTreeMap::from([(vec!["DE".to_owned()], own)]);
    /// let model = GroupedModel::new(TsModel::new(3, 1.0)?.into(), maps)?;
    /// // German phones have no map of their own, but Germany has one.
    /// let phones = model.model(&["DE".into(), "phone".into()]);
    /// assert_eq!(phones, model.model(&["DE".into()]));
    /// # Ok::<(), ordercal::Error>(())
    /// ```
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
        let mut results = Array2::default((scores.rows(), scores.classes()));
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
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// # use ordercal::grouped::{GroupFit, RowGroups};
/// # use ordercal::{Method, Unwatched};
/// let groups = RowGroups::new(60, |row| vec![["DE", "FR"][row % 2].into()]);
/// let fitted = GroupFit::new(Method::from_key("ts")?)?.fit(&data, &groups, &Unwatched)?;
/// // Thirty rows are fewer than the 50 that a map of one's own takes.
/// let france = &fitted.report.groups[1];
/// assert_eq!((france.rows, france.weight), (30, 0.0));
/// assert_eq!(france.fallback, Some(Vec::new()));
/// # Ok::<(), ordercal::Error>(())
/// ```
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
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// # use ordercal::grouped::{GroupFit, RowGroups};
/// # use ordercal::{Method, Unwatched};
/// let groups = RowGroups::new(60, |row| vec![["DE", "FR"][row % 2].into()]);
/// let report = GroupFit::new(Method::from_key("ts")?)?.fit(&data, &groups, &Unwatched)?.report;
/// assert_eq!(report.groups.len(), 2);
/// assert!(report.nll_after <= report.nll_pooled);
/// # Ok::<(), ordercal::Error>(())
/// ```
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
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// # use ordercal::grouped::{GroupFit, RowGroups};
/// # use ordercal::{Method, Unwatched};
/// let groups = RowGroups::new(60, |row| vec![["DE", "FR"][row % 2].into()]);
/// let fitted = GroupFit::new(Method::from_key("ts")?)?.fit(&data, &groups, &Unwatched)?;
/// assert!(fitted.model.order_preserving() && fitted.report.pooled.nll_after > 0.0);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FittedGroups {
    /// The models.
    pub model: GroupedModel,
    /// What the fit did.
    pub report: GroupsReport,
}

/// A group that was fitted by itself.
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// # use ordercal::Method;
/// # use ordercal::grouped::GroupFit;
/// let fit = GroupFit::new(Method::from_key("ts")?)?;
/// let pooled = Method::from_key("ts")?.fit(&data)?.model;
/// let part = fit.fit_part(&pooled, &data)?;
/// assert_eq!((part.rows, part.weight), (60, 60.0));
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GroupPart {
    /// Its rows.
    pub rows: usize,
    /// Their weight.
    pub weight: f64,
    /// The mean NLL of its scores as they are.
    pub nll_before: f64,
    /// The summed NLL of held-out rows for each m that is tried; the first is ∞, the parent's map alone, the second 0.
    pub totals: Vec<f64>,
    /// The map; `None` if the rows have no weight.
    pub own: Option<Model>,
}

impl GroupPart {
    /// A group that was fitted elsewhere.
    ///
    /// # Errors
    /// If there is not one total for each m that is tried.
    ///
    /// ```
    /// # use ndarray::Array2;
    /// # use ordercal::{Dataset, ScoreKind, Scores};
    /// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
    /// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
    /// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
    /// # use ordercal::Method;
    /// # use ordercal::grouped::{GroupFit, GroupPart};
    /// # let fit = GroupFit::new(Method::from_key("ts")?)?;
    /// # let pooled = Method::from_key("ts")?.fit(&data)?.model;
    /// let there = fit.fit_part(&pooled, &data)?;
    /// // Its numbers came from another machine.
    /// let here = GroupPart::new(there.rows, there.weight, there.nll_before, there.totals.clone(), there.own.clone())?;
    /// assert_eq!(here, there);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn new(
        rows: usize,
        weight: f64,
        nll_before: f64,
        totals: Vec<f64>,
        own: Option<Model>,
    ) -> Result<Self> {
        if totals.len() != candidates().count() + 1 {
            return Err(Error::LengthMismatch {
                what: "totals",
                found: totals.len(),
                rows: candidates().count() + 1,
            });
        }
        Ok(Self {
            rows,
            weight,
            nll_before,
            totals,
            own,
        })
    }
}

/// The values of m that are tried: 0, and from 1 row to 65,536 in steps of √2; ∞ is tried, too.
fn candidates() -> impl Iterator<Item = f64> {
    std::iter::once(0.0).chain((0..=32).map(|half| 2_f64.powf(f64::from(half) / 2.0)))
}

/// The models of a node of the tree of groups: one for each fold, fitted without it, and one of all rows.
type NodeModels = Vec<Model>;

/// What the folds say of a group: for every row of it, held out.
struct Held {
    key: GroupKey,
    rows: Vec<usize>,
    /// The models for each fold, and of all rows; `None` where rows were too few.
    own: Vec<Option<Model>>,
    /// For each row how many of the group the models were fitted to, and its NLL under the parent's and the own map.
    nlls: Vec<(f64, f64, f64)>,
}

impl GroupFit {
    /// Fits the model of all rows and those of the groups. Rows that [belong together](Dataset::with_groups) are in the same
    /// fold.
    ///
    /// # Errors
    /// If a hyperparameter is out of range, there are fewer rows than folds, labels are soft, or `watch` cancels the fit.
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
    /// assert!(fitted.report.nll_after <= fitted.report.nll_pooled);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn fit(
        &self,
        data: &Dataset<'_>,
        groups: &RowGroups,
        watch: &dyn Watch,
    ) -> Result<FittedGroups> {
        let folds = self.divide(data)?;
        if groups.rows() != data.rows() {
            return Err(Error::LengthMismatch {
                what: "groups",
                found: groups.rows(),
                rows: data.rows(),
            });
        }
        self.method.validate()?;
        self.group_method.validate()?;
        let levels = groups.keys().iter().map(Vec::len).max().unwrap_or(0);
        let steps = self.folds + 1 + levels;
        let mut roots = Vec::new();
        for fold in 0..self.folds {
            report_progress(watch, fold, steps, f64::NAN)?;
            let kept = data.select(&folds.kept(fold));
            roots.push(self.method.fit_watched(&kept, watch)?.model);
        }
        report_progress(watch, self.folds, steps, f64::NAN)?;
        let pooled = self.method.fit_watched(data, watch)?;
        roots.push(pooled.model.clone());

        // The NLL of each row: as it is, under the model of all rows, under the own map alone, and as chosen.
        let before = apply::row_nlls(&UncalibratedModel::new(data.classes())?, data);
        let mut parent_nlls = held_out(&roots, data, &folds);
        let pooled_nlls = parent_nlls.clone();
        let mut separate_nlls = parent_nlls.clone();
        let mut nodes = BTreeMap::from([(GroupKey::new(), roots)]);
        let mut maps = BTreeMap::new();
        let (mut shrinkage, mut reports) = (Vec::new(), Vec::new());
        for level in 1..=levels {
            report_progress(watch, self.folds + level, steps, f64::NAN)?;
            let (large, small): (Vec<_>, Vec<_>) = groups
                .at(level)
                .into_iter()
                .filter(|(key, _)| key.len() == level)
                .partition(|(key, rows)| {
                    rows.len() >= self.min_rows.max(2) && nodes.contains_key(&key[..level - 1])
                });
            let held = large
                .into_par_iter()
                .map(|(key, rows)| self.hold_out(data, &folds, key, rows, &nodes))
                .collect::<Result<Vec<Held>>>()?;
            let chosen = choose(data, &held);
            shrinkage.push(chosen);
            let report =
                |key: &GroupKey, rows: &[usize], weight, after: &[f64], fallback| GroupReport {
                    key: key.clone(),
                    rows: rows.len(),
                    weight,
                    nll_before: mean_of(data, rows, &before),
                    nll_parent: mean_of(data, rows, &parent_nlls),
                    nll_after: mean_of(data, rows, after),
                    fallback,
                };
            let mut after = parent_nlls.clone();
            let mut next = BTreeMap::new();
            for group in held {
                for (&row, &(n, parent, own)) in group.rows.iter().zip(&group.nlls) {
                    separate_nlls[row] = own;
                    after[row] = mixed(parent, own, weight_of(n, chosen));
                }
                let weight = weight_of(group.rows.len() as f64, chosen);
                let fallback = (weight <= 0.0).then(|| group.key[..level - 1].to_vec());
                reports.push(report(&group.key, &group.rows, weight, &after, fallback));
                let parents = &nodes[&group.key[..level - 1]];
                if weight <= 0.0 {
                    next.insert(group.key, parents.clone());
                    continue;
                }
                let kept = |fold: usize| match fold {
                    _ if fold == self.folds => group.rows.len(),
                    _ => group
                        .rows
                        .iter()
                        .filter(|&&r| folds.fold_of(r) != fold)
                        .count(),
                };
                let models = group.own.iter().zip(parents).enumerate();
                let models = models.map(|(fold, (own, parent))| match own {
                    Some(own) => compose(parent, own, weight_of(kept(fold) as f64, chosen)),
                    None => Ok(parent.clone()),
                });
                let models: NodeModels = models.collect::<Result<_>>()?;
                if let Some(Some(own)) = group.own.into_iter().next_back() {
                    maps.insert(group.key.clone(), GroupMap { own, weight });
                }
                next.insert(group.key, models);
            }
            for (key, rows) in small {
                let prefix = (0..level).rev().find(|&l| nodes.contains_key(&key[..l]));
                let fallback = key[..prefix.unwrap_or(0)].to_vec();
                reports.push(report(&key, &rows, 0.0, &parent_nlls, Some(fallback)));
            }
            nodes.extend(next);
            parent_nlls = after;
        }
        let everything: Vec<usize> = (0..data.rows()).collect();
        let report = GroupsReport {
            pooled: pooled.report,
            shrinkage,
            nll_pooled: mean_of(data, &everything, &pooled_nlls),
            nll_separate: mean_of(data, &everything, &separate_nlls),
            nll_after: mean_of(data, &everything, &parent_nlls),
            groups: reports,
        };
        let model = GroupedModel::new(pooled.model, maps)?;
        Ok(FittedGroups { model, report })
    }

    /// Fits the map of one group to what a model of all rows gives, for [`join`](Self::join) to weigh it against others'.
    /// It needs nothing else, so that each group may be fitted where its rows are. The model of all rows is taken as it is:
    /// with many groups, what it knows of each one's rows is little.
    ///
    /// # Errors
    /// If a hyperparameter is out of range, there are fewer rows than folds, or labels are soft.
    ///
    /// ```
    /// # use ndarray::Array2;
    /// # use ordercal::{Dataset, ScoreKind, Scores};
    /// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
    /// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
    /// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
    /// use ordercal::Method;
    /// use ordercal::grouped::GroupFit;
    ///
    /// // `data` has 60 rows of 3 classes.
    /// let pooled = Method::from_key("ts")?.fit(&data)?;
    /// let part = GroupFit::new(Method::from_key("ts")?)?.fit_part(&pooled.model, &data)?;
    /// assert!(part.own.is_some());
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn fit_part(&self, pooled: &Model, data: &Dataset<'_>) -> Result<GroupPart> {
        self.group_method.validate()?;
        let folds = self.divide(data)?;
        let nodes = BTreeMap::from([(GroupKey::new(), vec![pooled.clone(); self.folds + 1])]);
        let rows: Vec<usize> = (0..data.rows()).collect();
        let mut held = self.hold_out(data, &folds, vec![String::new()], rows.clone(), &nodes)?;
        let before = apply::row_nlls(&UncalibratedModel::new(data.classes())?, data);
        let group = std::slice::from_ref(&held);
        let totals = std::iter::once(None).chain(candidates().map(Some));
        Ok(GroupPart {
            rows: data.rows(),
            nll_before: mean_of(data, &rows, &before),
            totals: totals.map(|m| total(data, group, m)).collect(),
            weight: data.total_weight(),
            own: held.own.pop().flatten(),
        })
    }

    /// Chooses m for the maps of groups that were fitted one by one, each with the values of its columns, and puts them
    /// together. `pooled` is the model of all rows that they read.
    ///
    /// # Errors
    /// If a map is for another number of classes than the model of all rows.
    ///
    /// ```
    /// # use ndarray::Array2;
    /// # use ordercal::{Dataset, ScoreKind, Scores};
    /// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
    /// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
    /// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
    /// use std::collections::BTreeMap;
    ///
    /// use ordercal::Method;
    /// use ordercal::grouped::GroupFit;
    ///
    /// // `data` has 60 rows of 3 classes: 30 of one country, 30 of another.
    /// let mut fit = GroupFit::new(Method::from_key("ts")?)?;
    /// fit.min_rows = 20;
    /// let pooled = Method::from_key("ts")?.fit(&data)?;
    /// let mut parts = BTreeMap::new();
    /// for (country, first) in [("DE", 0), ("FR", 30)] {
    ///     let rows: Vec<usize> = (first..first + 30).collect();
    ///     parts.insert(vec![country.to_owned()], fit.fit_part(&pooled.model, &data.select(&rows))?);
    /// }
    /// let fitted = fit.join(pooled, parts)?;
    /// assert_eq!(fitted.report.groups.len(), 2);
    /// # Ok::<(), ordercal::Error>(())
    /// ```
    pub fn join(
        &self,
        pooled: Fitted,
        parts: BTreeMap<GroupKey, GroupPart>,
    ) -> Result<FittedGroups> {
        let large = |part: &GroupPart| part.rows >= self.min_rows && part.own.is_some();
        let sum = |candidate: usize| -> f64 {
            let large = parts.values().filter(|part| large(part));
            large.map(|part| part.totals[candidate]).sum()
        };
        let tried: Vec<Option<f64>> = std::iter::once(None)
            .chain(candidates().map(Some))
            .collect();
        let best = (1..tried.len()).fold(0, |best, other| match sum(other) < sum(best) {
            true => other,
            false => best,
        });
        let chosen = tried[best];
        let all: f64 = parts.values().map(|part| part.weight).sum();
        let mean = |candidate: usize| {
            let of_part = |part: &GroupPart| part.totals[if large(part) { candidate } else { 0 }];
            parts.values().map(of_part).sum::<f64>() / all
        };
        let separate = 1;
        let (nll_pooled, nll_separate, nll_after) = (mean(0), mean(separate), mean(best));
        let mut maps = BTreeMap::new();
        let mut groups = Vec::new();
        for (key, part) in parts {
            let weight = if large(&part) {
                weight_of(part.rows as f64, chosen)
            } else {
                0.0
            };
            let own = weight > 0.0;
            groups.push(GroupReport {
                key: key.clone(),
                rows: part.rows,
                weight,
                nll_before: part.nll_before,
                nll_parent: part.totals[0] / part.weight,
                nll_after: part.totals[if own { best } else { 0 }] / part.weight,
                fallback: (!own).then(GroupKey::new),
            });
            if let Some(own) = part.own.filter(|_| own) {
                maps.insert(key, GroupMap { own, weight });
            }
        }
        Ok(FittedGroups {
            model: GroupedModel::new(pooled.model, maps)?,
            report: GroupsReport {
                pooled: pooled.report,
                shrinkage: vec![chosen],
                nll_pooled,
                nll_separate,
                nll_after,
                groups,
            },
        })
    }

    /// The folds by which m is chosen. Soft labels are refused: n counts rows, and they repeat them.
    fn divide(&self, data: &Dataset<'_>) -> Result<Folds> {
        if data.has_soft_labels() {
            let what = "a calibrator per group";
            return Err(Error::SoftLabels { what });
        }
        data.folds(self.folds, self.seed)
    }

    /// Fits a group's map without each fold, and measures it and its parent's there.
    fn hold_out(
        &self,
        data: &Dataset<'_>,
        folds: &Folds,
        key: GroupKey,
        rows: Vec<usize>,
        nodes: &BTreeMap<GroupKey, NodeModels>,
    ) -> Result<Held> {
        let parents = &nodes[&key[..key.len() - 1]];
        let mut own = Vec::new();
        let mut nlls = vec![(0.0, 0.0, 0.0); rows.len()];
        for (fold, parent) in parents.iter().enumerate() {
            let is_kept = |place: &usize| fold == self.folds || folds.fold_of(rows[*place]) != fold;
            let (kept, out): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(is_kept);
            let of = |places: &[usize]| places.iter().map(|&p| rows[p]).collect::<Vec<_>>();
            let model = match kept.is_empty() {
                true => None,
                false => self.fit_on(parent, &data.select(&of(&kept)))?,
            };
            if !out.is_empty() {
                let held = data.select(&of(&out));
                let parent_nll = apply::row_nlls(parent, &held);
                let own_nll = match &model {
                    Some(model) => {
                        apply::row_nlls(&ChainModel::new(parent.clone(), model.clone())?, &held)
                    }
                    None => parent_nll.clone(),
                };
                for ((place, parent), own) in out.into_iter().zip(parent_nll).zip(own_nll) {
                    nlls[place] = (kept.len() as f64, parent, own);
                }
            }
            own.push(model);
        }
        Ok(Held {
            key,
            rows,
            own,
            nlls,
        })
    }

    /// A map of what a model gives; `None` if the rows have no weight.
    fn fit_on(&self, parent: &Model, rows: &Dataset<'_>) -> Result<Option<Model>> {
        if rows.total_weight() <= 0.0 {
            return Ok(None);
        }
        let logs = parent.apply::<f64>(rows.scores(), ScoreKind::LogProbs)?;
        let scores = Scores::new(ScoreKind::LogProbs, logs.view())?;
        let fitted = self
            .group_method
            .fit_watched(&rows.with_scores(scores)?, &Unwatched)?;
        Ok(Some(fitted.model))
    }
}

/// The NLL of each row under the model that was fitted without its fold.
fn held_out(models: &[Model], data: &Dataset<'_>, folds: &Folds) -> Vec<f64> {
    let mut nlls = vec![0.0; data.rows()];
    for (fold, model) in models.iter().take(folds.count()).enumerate() {
        let rows = folds.held_out(fold);
        let found = apply::row_nlls(model, &data.select(&rows));
        rows.iter()
            .zip(found)
            .for_each(|(&row, nll)| nlls[row] = nll);
    }
    nlls
}

/// The m under which held-out rows are the most likely; `None` is ∞.
fn choose(data: &Dataset<'_>, groups: &[Held]) -> Option<f64> {
    let mut best = (total(data, groups, None), None);
    for m in candidates() {
        let found = total(data, groups, Some(m));
        if found < best.0 {
            best = (found, Some(m));
        }
    }
    best.1
}

/// The summed NLL of held-out rows for one m.
fn total(data: &Dataset<'_>, groups: &[Held], m: Option<f64>) -> f64 {
    let of_group = |group: &Held| -> f64 {
        let rows = group.rows.iter().zip(&group.nlls);
        let nlls = rows.map(|(&row, &(n, parent, own))| {
            data.weight(row) * mixed(parent, own, weight_of(n, m))
        });
        nlls.sum()
    };
    groups.iter().map(of_group).sum()
}

/// w = n/(n + m).
fn weight_of(n: f64, m: Option<f64>) -> f64 {
    match m {
        Some(m) if n + m > 0.0 => n / (n + m),
        _ => 0.0,
    }
}

/// −ln(w·e^−own + (1 − w)·e^−parent).
fn mixed(parent: f64, own: f64, weight: f64) -> f64 {
    if weight <= 0.0 {
        return parent;
    }
    if weight >= 1.0 {
        return own;
    }
    let least = parent.min(own);
    least - (weight * (least - own).exp() + (1.0 - weight) * (least - parent).exp()).ln()
}

fn mean_of(data: &Dataset<'_>, rows: &[usize], values: &[f64]) -> f64 {
    let weight: f64 = rows.iter().map(|&row| data.weight(row)).sum();
    let sum: f64 = rows.iter().map(|&row| data.weight(row) * values[row]).sum();
    if weight > 0.0 { sum / weight } else { f64::NAN }
}

//! The fit of calibrators per group, one level of the tree of groups after the other.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::{
    FittedGroups, GroupFit, GroupKey, GroupMap, GroupReport, GroupedModel, GroupsReport, RowGroups,
    compose,
};
use crate::data::{Dataset, Folds, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::methods::Fitted;
use crate::models::{ChainModel, Model, UncalibratedModel, apply};
use crate::watch::{Unwatched, Watch, report_progress};

/// The models of a group for each fold, fitted without its rows, and those of all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldModels {
    /// As chosen: the group's maps mixed with its parent's.
    mixed: Vec<Model>,
    /// The group's maps alone.
    separate: Vec<Model>,
}

/// The maps of a group for each fold, and that of all rows, with their weights; `None` where rows had no weight.
pub type FoldMaps = Vec<Option<GroupMap>>;

/// What the rows of one group say. It needs nothing of other groups, so that each may be fitted where its rows are.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GroupPart {
    /// Its rows.
    pub rows: usize,
    /// Their weight.
    pub weight: f64,
    /// The mean NLL of its scores as they are.
    pub nll_before: f64,
    /// The summed NLL of held-out rows for each m that is tried; the first is ∞, the parent's map alone.
    pub totals: Vec<f64>,
    /// The summed NLL of held-out rows with the maps of groups alone.
    pub separate: f64,
    /// For each fold how many rows the map was fitted to that was fitted without it, and the number of all; none if the group
    /// is too small for a map of its own.
    pub kept: Vec<usize>,
    /// These maps; `None` where rows had no weight.
    pub own: Vec<Option<Model>>,
}

impl GroupPart {
    /// A group that was fitted elsewhere.
    ///
    /// # Errors
    /// If there is not one total for each m that is tried.
    pub fn new(
        (rows, weight): (usize, f64),
        (nll_before, separate): (f64, f64),
        totals: Vec<f64>,
        kept: Vec<usize>,
        own: Vec<Option<Model>>,
    ) -> Result<Self> {
        let check = |what, found, rows| match found == rows {
            true => Ok(()),
            false => Err(Error::LengthMismatch { what, found, rows }),
        };
        check("totals", totals.len(), tried().count())?;
        check("maps", own.len(), kept.len())?;
        Ok(Self {
            rows,
            weight,
            nll_before,
            totals,
            separate,
            kept,
            own,
        })
    }
}

/// The values of m that are tried: ∞ (`None`), 0, and from 1 row to 65,536 in steps of √2.
fn tried() -> impl Iterator<Item = Option<f64>> {
    let steps = (0..=32).map(|half| 2_f64.powf(f64::from(half) / 2.0));
    std::iter::once(None)
        .chain(std::iter::once(Some(0.0)))
        .chain(steps.map(Some))
}

impl GroupFit {
    /// Fits the model of all rows and those of the groups, with random folds. Rows that
    /// [belong together](Dataset::with_groups) are in the same fold.
    ///
    /// # Errors
    /// If a hyperparameter is out of range, there are fewer rows than folds, labels are soft, or `watch` cancels the fit.
    pub fn fit(
        &self,
        data: &Dataset<'_>,
        groups: &RowGroups,
        watch: &dyn Watch,
    ) -> Result<FittedGroups> {
        if data.has_soft_labels() {
            // n counts rows, and soft labels repeat them.
            let what = "a calibrator per group";
            return Err(Error::SoftLabels { what });
        }
        let folds = data.folds(self.folds, self.seed)?;
        self.fit_with(data, groups, &folds, watch)
    }

    /// Fits the model of all rows and those of the groups, with the given folds.
    ///
    /// # Errors
    /// If a hyperparameter is out of range, a fold has all rows, keys differ in length or have none, or `watch` cancels
    /// the fit.
    pub fn fit_with(
        &self,
        data: &Dataset<'_>,
        groups: &RowGroups,
        folds: &Folds,
        watch: &dyn Watch,
    ) -> Result<FittedGroups> {
        for (what, found) in [("groups", groups.rows()), ("folds", folds.rows())] {
            if found != data.rows() {
                let rows = data.rows();
                return Err(Error::LengthMismatch { what, found, rows });
            }
        }
        self.method.validate()?;
        let levels = groups.levels()?;
        let steps = folds.count() + 1 + levels;
        let mut roots = Vec::new();
        for fold in 0..folds.count() {
            report_progress(watch, fold, steps, f64::NAN)?;
            let kept = folds.kept(fold);
            if kept.is_empty() {
                return Err(Error::invalid("folds", 1, "at least 2 that have rows"));
            }
            roots.push(self.method.fit_watched(&data.select(&kept), watch)?.model);
        }
        report_progress(watch, folds.count(), steps, f64::NAN)?;
        let pooled = self.method.fit_watched(data, watch)?;
        let mut tree = GroupTree::new(self.clone(), pooled, roots)?;
        for level in 1..=levels {
            report_progress(watch, folds.count() + level, steps, f64::NAN)?;
            let parts = groups.at(level).into_par_iter().map(|(key, rows)| {
                let parent = tree.parent(&key)?;
                let part = self.fit_part(&parent, &data.select(&rows), &folds.select(&rows))?;
                Ok((key, part))
            });
            let parts = parts.collect::<Result<BTreeMap<_, _>>>()?;
            tree.add_level(parts)?;
        }
        tree.finish()
    }

    /// Fits the maps of one group, if it is not too small, to what its parent's give, and measures both on held-out rows.
    ///
    /// # Errors
    /// If a hyperparameter is out of range.
    pub fn fit_part(
        &self,
        parent: &FoldModels,
        data: &Dataset<'_>,
        folds: &Folds,
    ) -> Result<GroupPart> {
        self.group_method.validate()?;
        let large = data.rows() >= self.min_rows.max(2);
        let (mut kept_rows, mut own_maps) = (Vec::new(), Vec::new());
        let mut totals = vec![0.0; tried().count()];
        let mut separate = 0.0;
        for fold in 0..=folds.count() {
            let (kept, out) = (folds.kept(fold), folds.held_out(fold));
            let own = match large && !kept.is_empty() {
                true => self.fit_on(&parent.mixed[fold], &data.select(&kept))?,
                false => None,
            };
            if !out.is_empty() {
                let held = data.select(&out);
                let parents = apply::row_nlls(&parent.mixed[fold], &held);
                let alone = match &own {
                    Some(own) => {
                        let chain = ChainModel::new(parent.mixed[fold].clone(), own.clone())?;
                        apply::row_nlls(&chain, &held)
                    }
                    None if large => parents.clone(),
                    None => apply::row_nlls(&parent.separate[fold], &held),
                };
                let pairs = || (0..held.rows()).map(|row| (held.weight(row), row));
                separate += pairs().map(|(w, row)| w * alone[row]).sum::<f64>();
                for (total, m) in totals.iter_mut().zip(tried()) {
                    let share = weight_of(kept.len() as f64, m.filter(|_| large));
                    let nll = |row: usize| mixed(parents[row], alone[row], share);
                    *total += pairs().map(|(w, row)| w * nll(row)).sum::<f64>();
                }
            }
            kept_rows.push(kept.len());
            own_maps.push(own);
        }
        if !large {
            (kept_rows, own_maps) = (Vec::new(), Vec::new());
        }
        let before = apply::row_nlls(&UncalibratedModel::new(data.classes())?, data);
        let before = before.iter().enumerate();
        let before: f64 = before.map(|(row, nll)| data.weight(row) * nll).sum();
        let weight = data.total_weight();
        Ok(GroupPart {
            rows: data.rows(),
            weight,
            nll_before: before / weight,
            totals,
            separate,
            kept: kept_rows,
            own: own_maps,
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

/// The tree of groups as far as it was fitted: the models of all rows, and the maps of the groups of each level.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use ndarray::Array2;
/// # use ordercal::grouped::{GroupFit, GroupTree};
/// # use ordercal::select::Folds;
/// # use ordercal::{Dataset, Method, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((90, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..90).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &labels)?;
/// let how = GroupFit::new(Method::from_key("ts")?)?;
/// let folds = Folds::new(data.rows(), how.folds, 1)?;
/// let without = |fold| how.method.fit(&data.select(&folds.kept(fold)));
/// let roots = (0..how.folds).map(|fold| Ok(without(fold)?.model));
/// let roots = roots.collect::<ordercal::Result<_>>()?;
/// let mut tree = GroupTree::new(how.clone(), how.method.fit(&data)?, roots)?;
/// // Here all rows are of one group; elsewhere each group's part is fitted where its rows are.
/// let key = vec!["DE".to_owned()];
/// let part = how.fit_part(&tree.parent(&key)?, &data, &folds)?;
/// tree.add_level(BTreeMap::from([(key, part)]))?;
/// assert_eq!(tree.finish()?.report.groups.len(), 1);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GroupTree {
    how: GroupFit,
    pooled: Fitted,
    roots: Vec<Model>,
    maps: BTreeMap<GroupKey, FoldMaps>,
    report: GroupsReport,
}

impl GroupTree {
    /// A tree without groups. `roots` are the models that were fitted without each fold.
    ///
    /// # Errors
    /// If a model is for another number of classes.
    pub fn new(how: GroupFit, pooled: Fitted, mut roots: Vec<Model>) -> Result<Self> {
        roots.push(pooled.model.clone());
        let expected = pooled.model.classes();
        if let Some(other) = roots.iter().find(|root| root.classes() != expected) {
            let found = other.classes();
            return Err(Error::WrongClasses { expected, found });
        }
        let report = GroupsReport {
            pooled: pooled.report.clone(),
            shrinkage: Vec::new(),
            nll_pooled: f64::NAN,
            nll_separate: f64::NAN,
            nll_after: f64::NAN,
            groups: Vec::new(),
        };
        Ok(Self {
            how,
            pooled,
            roots,
            maps: BTreeMap::new(),
            report,
        })
    }

    /// The models of a group's parent.
    ///
    /// # Errors
    /// If a map is for another number of classes.
    pub fn parent(&self, key: &[String]) -> Result<FoldModels> {
        let above = (1..key.len()).map_while(|length| self.maps.get(&key[..length]));
        FoldModels::new(self.roots.clone(), above.map(Vec::as_slice))
    }

    /// Chooses m for the groups of the next level.
    ///
    /// # Errors
    /// If a map is for another number of classes.
    pub fn add_level(&mut self, parts: BTreeMap<GroupKey, GroupPart>) -> Result<()> {
        let large = |part: &GroupPart| !part.own.is_empty();
        let sum = |place: usize| -> f64 {
            let large = parts.values().filter(|part| large(part));
            large.map(|part| part.totals[place]).sum()
        };
        let sums: Vec<f64> = (0..tried().count()).map(sum).collect();
        let best = (1..sums.len()).fold(0, |best, place| match sums[place] < sums[best] {
            true => place,
            false => best,
        });
        let chosen = tried().nth(best).flatten();
        let total: f64 = parts.values().map(|part| part.weight).sum();
        let mean = |of: fn(&GroupPart, usize) -> f64| {
            parts.values().map(|part| of(part, best)).sum::<f64>() / total
        };
        if self.report.shrinkage.is_empty() {
            self.report.nll_pooled = mean(|part, _| part.totals[0]);
        }
        self.report.nll_separate = mean(|part, _| part.separate);
        self.report.nll_after = mean(|part, best| part.totals[best]);
        self.report.shrinkage.push(chosen);
        let mut level = BTreeMap::new();
        // As the tool lists them: those with a map first.
        let (fitted, small): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(_, part)| large(part));
        for (key, part) in fitted.into_iter().chain(small) {
            let weight = match large(&part) {
                true => weight_of(part.rows as f64, chosen),
                false => 0.0,
            };
            let lengths = (1..key.len()).rev();
            let known = lengths
                .into_iter()
                .find(|&l| self.maps.contains_key(&key[..l]));
            let parent = key[..known.unwrap_or(0)].to_vec();
            self.report.groups.push(GroupReport {
                key: key.clone(),
                rows: part.rows,
                weight,
                nll_before: part.nll_before,
                nll_parent: part.totals[0] / part.weight,
                nll_after: part.totals[best] / part.weight,
                fallback: (weight <= 0.0).then_some(parent),
            });
            if large(&part) {
                let maps = part.own.into_iter().zip(part.kept).map(|(own, kept)| {
                    let weight = weight_of(kept as f64, chosen);
                    own.map(|own| GroupMap { own, weight })
                });
                level.insert(key, maps.collect());
            }
        }
        self.maps.extend(level);
        Ok(())
    }

    /// The maps of the groups that are large enough, for all levels so far.
    pub fn maps(&self) -> &BTreeMap<GroupKey, FoldMaps> {
        &self.maps
    }

    /// The models.
    ///
    /// # Errors
    /// If a map is for another number of classes.
    pub fn finish(self) -> Result<FittedGroups> {
        let own = self.maps.into_iter().filter_map(|(key, maps)| {
            let map = maps.into_iter().next_back()??;
            (map.weight > 0.0).then_some((key, map))
        });
        Ok(FittedGroups {
            model: GroupedModel::new(self.pooled.model, own.collect())?,
            report: self.report,
        })
    }
}

impl FoldModels {
    /// The models of a group: `roots` of all rows, and the maps of its ancestors and its own, from the coarsest on.
    ///
    /// # Errors
    /// If a map is for another number of classes, or there are not as many as there are roots.
    pub fn new<'a>(
        roots: Vec<Model>,
        maps: impl Iterator<Item = &'a [Option<GroupMap>]>,
    ) -> Result<Self> {
        let mut found = Self {
            separate: roots.clone(),
            mixed: roots,
        };
        for maps in maps {
            if maps.len() != found.mixed.len() {
                return Err(Error::LengthMismatch {
                    what: "maps",
                    found: maps.len(),
                    rows: found.mixed.len(),
                });
            }
            for (fold, map) in maps.iter().enumerate() {
                let parent = found.mixed[fold].clone();
                let Some(GroupMap { own, weight }) = map else {
                    found.separate[fold] = parent;
                    continue;
                };
                found.separate[fold] = ChainModel::new(parent.clone(), own.clone())?.into();
                if *weight > 0.0 {
                    found.mixed[fold] = compose(&parent, own, *weight)?;
                }
            }
        }
        Ok(found)
    }
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

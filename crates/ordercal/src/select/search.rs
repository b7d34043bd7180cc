//! Hyperparameter search by cross validation, and fold ensembles.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::cross_validation::{fit_without, split};
use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::methods::{FitReport, Fitted, uncalibrated_nll};
use crate::models::{MixtureModel, Model, apply};
use crate::optim::StopReason;
use crate::registry::Method;
use crate::watch::{FitCounter, Watch};

/// The effort of a hyperparameter search.
///
/// ```
/// use ordercal::select::Effort;
///
/// assert_eq!("paper".parse::<Effort>()?, Effort::Paper);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// No search: the given hyperparameters are used.
    #[default]
    None,
    /// Successive halving over the [`space`]: short fits of all candidates on one fold, full fits of the best tenth on that
    /// fold, and full fits of the best two on all folds. About a tenth of the work of [`Paper`](Self::Paper).
    Quick,
    /// Grid search: every candidate of the [`space`] on every fold.
    Paper,
}

impl FromStr for Effort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Self::None),
            "quick" => Ok(Self::Quick),
            "paper" => Ok(Self::Paper),
            _ => Err(Error::invalid("search", text, "none, quick or paper")),
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Quick => "quick",
            Self::Paper => "paper",
        })
    }
}

/// The settings of a hyperparameter search and of a fold ensemble.
///
/// ```
/// use ndarray::Array2;
/// use ordercal::select::{Effort, Search};
/// use ordercal::{Dataset, ScoreKind, Scores};
///
/// let search = Search::default().with_effort("quick".parse()?).with_folds(3);
/// assert_eq!((search.effort, search.folds), (Effort::Quick, Some(3)));
/// let search = search.with_stratified(true).with_seed(1);
/// let scores = Scores::new(ScoreKind::Logits, Array2::<f32>::zeros((6, 2)))?;
/// let folds = search.deal(&Dataset::new(scores, &[0, 0, 0, 1, 1, 1])?)?;
/// assert_eq!(folds.held_out(0).len(), 2);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Search {
    /// The effort of the search.
    pub effort: Effort,
    /// The number of folds; `None` for 5, or 3 for 1000 classes and more.
    pub folds: Option<usize>,
    /// Whether folds are stratified: every label is distributed evenly over them.
    pub stratified: bool,
    /// The seed of the folds.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            effort: Effort::None,
            folds: None,
            stratified: false,
            seed: 1357,
        }
    }
}

impl Search {
    /// Sets the effort of the search.
    #[must_use]
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Sets the number of folds.
    #[must_use]
    pub fn with_folds(mut self, folds: usize) -> Self {
        self.folds = Some(folds);
        self
    }

    /// Sets whether folds are stratified.
    #[must_use]
    pub fn with_stratified(mut self, stratified: bool) -> Self {
        self.stratified = stratified;
        self
    }

    /// Sets the seed of the folds.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Assigns the rows to folds; those of a group to the same.
    ///
    /// # Errors
    /// If there are more folds than rows, or groups of them, or fewer than 2, or groups are to be stratified.
    pub fn deal(&self, data: &Dataset<'_>) -> Result<Folds> {
        let count = self
            .folds
            .unwrap_or_else(|| Folds::usual(data.most_folds(), data.classes()));
        match (self.stratified, data.has_groups()) {
            (false, _) => data.folds(count, self.seed),
            (true, false) => Folds::stratified(data.labels(), count, self.seed),
            (true, true) => Err(Error::invalid(
                "stratified",
                true,
                "false: folds keep groups, or the shares of soft labels, together instead",
            )),
        }
    }
}

/// The result of a search.
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// use ordercal::select::{Effort, Search, search};
/// use ordercal::{Method, Unwatched};
///
/// let how = Search::default().with_effort(Effort::Quick).with_folds(3);
/// let found = search(&Method::from_key("ms-odir")?, &data, &how, &Unwatched)?;
/// assert_eq!(found.method, found.ranking[0].method);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The method with the best hyperparameters.
    pub method: Method,
    /// The model, which is fitted to all rows or the average of the fold models, and its report.
    pub fitted: Fitted,
    /// The best candidates with their cross-validated NLL, best first; empty if there was nothing to choose.
    pub ranking: Vec<Ranked>,
}

/// A candidate with its cross-validated NLL.
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// # use ordercal::select::{Effort, Search, search};
/// # use ordercal::{Method, Unwatched};
/// let how = Search::default().with_effort(Effort::Quick).with_folds(3);
/// let ranking = search(&Method::from_key("ms-odir")?, &data, &how, &Unwatched)?.ranking;
/// assert!(ranking.is_sorted_by(|a, b| a.nll <= b.nll));
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ranked {
    /// The candidate.
    pub method: Method,
    /// The mean NLL over all rows, each under the model that was fitted without its fold.
    pub nll: f64,
}

/// The candidates of a hyperparameter search for K = `classes`.
///
/// For the networks and `diag` they are those of the paper, 1 to 3 hidden layers of equal width, each with a few weights of
/// the penalty; for the ODIR methods, values of λ and μ. For a method without such hyperparameters, the only candidate is
/// the method itself.
///
/// ```
/// use ordercal::select::space;
/// use ordercal::{Method, Oi, Ts};
///
/// assert_eq!(space(&Oi::default().into(), 10).len(), 7 * 3 * 3);
/// assert_eq!(space(&Ts::default().into(), 10), [Method::from(Ts::default())]);
/// ```
pub fn space(method: &Method, classes: usize) -> Vec<Method> {
    method.space(classes)
}

/// One in so many candidates is kept after the first round of successive halving, but at least [`FINALISTS`].
const SURVIVORS: usize = 10;
/// The number of candidates that are evaluated on all folds.
const FINALISTS: usize = 2;
/// The number of candidates in [`Found::ranking`].
const LISTED: usize = 5;

/// Chooses a method's hyperparameters by cross-validated NLL and fits it.
///
/// With [`Effort::None`], or for a method without hyperparameters to choose, the method is fitted to all rows, unless
/// [`Search::folds`] is set. Otherwise the model is the average of the fold models of the best candidate in probability
/// space, as in the paper; the average of order-preserving models is order-preserving. `auto` divides the rows into folds
/// itself and is always fitted to all rows.
///
/// Candidates and folds are fitted in parallel. `watch` is notified of every completed fit.
///
/// # Errors
/// If a hyperparameter is out of range, there are more folds than rows, or `watch` cancels the search.
///
/// ```
/// use ndarray::Array2;
/// use ordercal::select::{Search, search};
/// use ordercal::{Dataset, Method, Model, ScoreKind, Scores, Unwatched};
///
/// let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// let found = search(&Method::from_key("ts")?, &data, &Search::default().with_folds(3), &Unwatched)?;
/// let Model::Mixture(ensemble) = found.fitted.model else { unreachable!() };
/// assert_eq!(ensemble.members().len(), 3);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn search(
    method: &Method,
    data: &Dataset<'_>,
    search: &Search,
    watch: &dyn Watch,
) -> Result<Found> {
    method.validate()?;
    let candidates = match search.effort {
        Effort::None => vec![method.clone()],
        Effort::Quick | Effort::Paper => space(method, data.classes()),
    };
    if candidates.len() == 1 && (search.folds.is_none() || method.has_own_folds()) {
        return Ok(Found {
            method: method.clone(),
            fitted: method.fit_watched(data, watch)?,
            ranking: Vec::new(),
        });
    }
    let folds = search.deal(data)?;
    let fold_search = FoldSearch::new(data, &folds, &candidates)?;
    let outcome = match search.effort {
        Effort::None | Effort::Paper => fold_search.grid_search(watch)?,
        Effort::Quick => fold_search.successive_halving(watch)?,
    };
    let mut ranking: Vec<Ranked> = outcome
        .nlls
        .into_iter()
        .map(|(candidate, nll)| Ranked {
            method: candidates[candidate].clone(),
            nll,
        })
        .collect();
    // NaN comes last.
    ranking.sort_by(|a, b| a.nll.total_cmp(&b.nll));
    let loss = ranking[0].nll;
    ranking.truncate(if candidates.len() > 1 { LISTED } else { 0 });
    let model = Model::from(MixtureModel::average(outcome.models)?);
    let report = FitReport {
        iterations: candidates.len(),
        evaluations: outcome.evaluations,
        loss,
        nll_before: uncalibrated_nll(data),
        nll_after: apply::mean_nll(&model, data),
        stop: StopReason::AllFitted,
        notes: vec![format!("the average of {} fold models", folds.count())],
        price_of_order: None,
    };
    Ok(Found {
        method: candidates[outcome.best].clone(),
        fitted: Fitted { model, report },
        ranking,
    })
}

/// The result of a [`FoldSearch`].
struct SearchOutcome {
    /// The index of the best candidate.
    best: usize,
    /// The model of the best candidate for each fold.
    models: Vec<Model>,
    /// The candidates that were evaluated on all folds, with their NLL.
    nlls: Vec<(usize, f64)>,
    /// Passes over the data by all fits.
    evaluations: usize,
}

/// Candidates, and the folds on which they are evaluated.
struct FoldSearch<'a> {
    candidates: &'a [Method],
    /// For each fold, the rows to fit and the rows to evaluate.
    parts: Vec<(Dataset<'static>, Dataset<'static>)>,
    total: f64,
}

impl<'a> FoldSearch<'a> {
    fn new(data: &Dataset<'_>, folds: &Folds, candidates: &'a [Method]) -> Result<Self> {
        let parts = (0..folds.count()).map(|fold| split(data, folds, fold));
        Ok(Self {
            candidates,
            parts: parts.collect::<Result<_>>()?,
            total: data.total_weight(),
        })
    }

    /// Evaluates every candidate on every fold.
    fn grid_search(&self, watch: &dyn Watch) -> Result<SearchOutcome> {
        let counter = FitCounter::new(self.candidates.len() * self.parts.len(), watch);
        let all: Vec<usize> = (0..self.candidates.len()).collect();
        if all.len() <= FINALISTS {
            return self.play_off(&all, Vec::new(), &counter);
        }
        let mut nlls: Vec<(usize, f64)> = all.iter().map(|&c| (c, 0.0)).collect();
        for fold in 0..self.parts.len() {
            let fits: Vec<(usize, usize)> = all.iter().map(|&c| (c, fold)).collect();
            let found = self.evaluate(&fits, Kept::Nothing, &counter)?;
            for (sum, one) in nlls.iter_mut().zip(found) {
                sum.1 += self.share(fold) * one.nll;
            }
        }
        self.refit_best(nlls, &counter)
    }

    /// Successive halving: the better a candidate, the more folds and iterations it gets.
    fn successive_halving(&self, watch: &dyn Watch) -> Result<SearchOutcome> {
        let count = self.candidates.len();
        let survivors = (count.div_ceil(SURVIVORS)).max(FINALISTS).min(count);
        let finalists = FINALISTS.min(survivors);
        let of = count + survivors + finalists * (self.parts.len() - 1);
        let counter = FitCounter::new(of, watch);
        let on_first = |which: Vec<usize>, kept: Kept| {
            let fits: Vec<(usize, usize)> = which.into_iter().map(|c| (c, 0)).collect();
            self.evaluate(&fits, kept, &counter)
        };
        let nlls = |found: &[Evaluated]| -> Vec<(usize, f64)> {
            found.iter().map(|one| (one.candidate, one.nll)).collect()
        };
        let cheap = on_first((0..count).collect(), Kept::NothingOfCheap)?;
        let mut full = on_first(best_of(&nlls(&cheap), survivors), Kept::Models)?;
        let chosen = best_of(&nlls(&full), finalists);
        full.retain(|one| chosen.contains(&one.candidate));
        self.play_off(&chosen, full, &counter)
    }

    /// The share of a fold's held-out rows in the weight of all rows.
    fn share(&self, fold: usize) -> f64 {
        self.parts[fold].1.total_weight() / self.total
    }

    /// Fits a few candidates to all folds, all at once, and keeps the models of the best. `known` are their fits to the
    /// first fold, if there were any.
    fn play_off(
        &self,
        which: &[usize],
        known: Vec<Evaluated>,
        counter: &FitCounter<'_>,
    ) -> Result<SearchOutcome> {
        let begin = usize::from(!known.is_empty());
        let folds = begin..self.parts.len();
        let fits: Vec<(usize, usize)> = folds
            .flat_map(|fold| which.iter().map(move |&candidate| (candidate, fold)))
            .collect();
        let mut found = known;
        found.extend(self.evaluate(&fits, Kept::Models, counter)?);
        let nll = |candidate: usize| -> f64 {
            let own = found.iter().filter(|one| one.candidate == candidate);
            own.map(|one| self.share(one.fold) * one.nll).sum()
        };
        let nlls: Vec<(usize, f64)> = which.iter().map(|&c| (c, nll(c))).collect();
        let best = best_of(&nlls, 1)[0];
        let own = found.into_iter().filter(|one| one.candidate == best);
        Ok(SearchOutcome {
            best,
            models: own.filter_map(|one| one.model).collect(),
            nlls,
            evaluations: counter.evaluations(),
        })
    }

    /// Fits candidates to folds, given as pairs, and measures them on the held-out rows.
    fn evaluate(
        &self,
        fits: &[(usize, usize)],
        keep: Kept,
        counter: &FitCounter<'_>,
    ) -> Result<Vec<Evaluated>> {
        let fit = |&(candidate, fold): &(usize, usize)| {
            let (kept, held_out) = &self.parts[fold];
            let method = &self.candidates[candidate];
            let (model, nll) = if keep == Kept::NothingOfCheap {
                fit_without(&method.cheaper(), kept, held_out, counter)?
            } else {
                fit_without(method, kept, held_out, counter)?
            };
            Ok(Evaluated {
                candidate,
                fold,
                nll,
                model: (keep == Kept::Models).then_some(model),
            })
        };
        fits.par_iter().map(fit).collect()
    }

    /// Fits the best of many candidates again on every fold. Keeping the models of all would need too much memory.
    fn refit_best(
        &self,
        nlls: Vec<(usize, f64)>,
        counter: &FitCounter<'_>,
    ) -> Result<SearchOutcome> {
        let best = best_of(&nlls, 1)[0];
        let fitted = self
            .parts
            .par_iter()
            .map(|(kept, _)| self.candidates[best].fit_watched(kept, counter))
            .collect::<Result<Vec<Fitted>>>()?;
        let again: usize = fitted.iter().map(|f| f.report.evaluations).sum();
        Ok(SearchOutcome {
            best,
            models: fitted.into_iter().map(|f| f.model).collect(),
            nlls,
            evaluations: counter.evaluations() + again,
        })
    }
}

/// A candidate that was fitted without one of the folds.
struct Evaluated {
    candidate: usize,
    fold: usize,
    /// The mean NLL of the fold.
    nll: f64,
    model: Option<Model>,
}

/// Which fits are made, and what is kept of them.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    /// Fits of [cheaper](Method::cheaper) variants.
    NothingOfCheap,
    Nothing,
    Models,
}

/// The `count` candidates with the smallest NLL, in stable order; NaN comes last.
fn best_of(nlls: &[(usize, f64)], count: usize) -> Vec<usize> {
    let mut sorted: Vec<(usize, f64)> = nlls.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    sorted.iter().take(count).map(|(c, _)| *c).collect()
}

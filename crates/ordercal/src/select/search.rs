//! The best settings of a method, and the model that the folds make together.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::methods::{FitReport, Fitted, uncalibrated_nll};
use crate::models::{MixtureModel, Model, apply};
use crate::optim::StopReason;
use crate::registry::Method;
use crate::watch::{FitCounter, Watch};

/// How hard to look for hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Not at all: the given ones are used.
    #[default]
    None,
    /// Successive halving over the whole [`space`]: all candidates briefly on one fold, a tenth of them in
    /// full on that fold, the best two on all folds. About a tenth of the work.
    Quick,
    /// Every candidate of the [`space`] on every fold.
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

/// How to search, and how to put the folds' models together.
///
/// ```
/// use ordercal::select::{Effort, Search};
///
/// let search = Search::default().with_effort("quick".parse()?).with_folds(3);
/// assert_eq!((search.effort, search.folds), (Effort::Quick, Some(3)));
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Search {
    /// How hard to look.
    pub effort: Effort,
    /// How many folds; without a number 5, or 3 from 1000 classes on.
    pub folds: Option<usize>,
    /// Whether every label is spread evenly over the folds.
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
    /// Sets how hard to look.
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

    /// Sets whether every label is spread evenly over the folds.
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

    /// Deals the rows out.
    ///
    /// # Errors
    /// If there are more folds than rows, or fewer than 2.
    pub fn deal(&self, data: &Dataset<'_>) -> Result<Folds> {
        let count = self
            .folds
            .unwrap_or_else(|| Folds::usual(data.rows(), data.classes()));
        if self.stratified {
            Folds::stratified(data.labels(), count, self.seed)
        } else {
            Folds::new(data.rows(), count, self.seed)
        }
    }
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The method with the settings that won.
    pub method: Method,
    /// The model: fitted to all rows, or the average of the folds' models.
    pub fitted: Fitted,
    /// The winner and those that came after it, with their NLL on rows they had not seen; empty if there was
    /// nothing to choose.
    pub ranking: Vec<Ranked>,
}

/// A candidate and how it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ranked {
    /// The candidate.
    pub method: Method,
    /// Its mean NLL on the folds it was left out of.
    pub nll: f64,
}

/// Every setting of a method that the paper's protocol would try: 1 to 3 hidden layers of equal width for
/// the networks and `diag`, each with a few penalties; λ and μ for the ODIR methods. A method without
/// such settings is its own and only candidate.
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

/// The candidates that get beyond the first, brief look; one in so many, but no fewer than [`FINALISTS`].
const SURVIVORS: usize = 10;
/// The candidates that see every fold.
const FINALISTS: usize = 2;
/// How many candidates a [`Found`] lists.
const LISTED: usize = 5;

/// Chooses a method's hyperparameters by cross-validated NLL and fits it.
///
/// With [`Effort::None`] the method is fitted as it is, to all rows at once unless [`Search::folds`] asks for
/// folds. Otherwise the winner's fold models are averaged in probability space, as the paper does; the
/// average of order-preserving models is order-preserving. A method with nothing to choose from is fitted
/// as with [`Effort::None`], and `auto` takes folds for its own.
///
/// Candidates and folds run side by side on the threads there are. `watch` is told of every fit.
///
/// # Errors
/// If a hyperparameter is out of range, there are more folds than rows, or `watch` asked to stop.
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
    if candidates.len() == 1 && (search.folds.is_none() || method.own_folds()) {
        return Ok(Found {
            method: method.clone(),
            fitted: method.fit_watched(data, watch)?,
            ranking: Vec::new(),
        });
    }
    let folds = search.deal(data)?;
    let race = Race::new(data, &folds, &candidates)?;
    let outcome = match search.effort {
        Effort::None | Effort::Paper => race.everything(watch)?,
        Effort::Quick => race.halving(watch)?,
    };
    let mut ranking: Vec<Ranked> = outcome
        .nlls
        .into_iter()
        .map(|(candidate, nll)| Ranked {
            method: candidates[candidate].clone(),
            nll,
        })
        .collect();
    // What has no NLL comes last.
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
    };
    Ok(Found {
        method: candidates[outcome.best].clone(),
        fitted: Fitted { model, report },
        ranking,
    })
}

/// What a race came to.
struct Outcome {
    /// The winner.
    best: usize,
    /// Its model for each fold.
    models: Vec<Model>,
    /// The NLL of every finalist.
    nlls: Vec<(usize, f64)>,
    /// Passes over the data, of all fits.
    evaluations: usize,
}

/// Candidates on folds.
struct Race<'a> {
    candidates: &'a [Method],
    /// Rows to fit on and rows to score on, fold by fold.
    parts: Vec<(Dataset<'static>, Dataset<'static>)>,
    total: f64,
}

impl<'a> Race<'a> {
    fn new(data: &Dataset<'_>, folds: &Folds, candidates: &'a [Method]) -> Result<Self> {
        let part = |fold| {
            let kept = data.select(&folds.kept(fold));
            if kept.total_weight() <= 0.0 {
                return Err(Error::ZeroWeights);
            }
            Ok((kept, data.select(&folds.held_out(fold))))
        };
        Ok(Self {
            candidates,
            parts: (0..folds.count()).map(part).collect::<Result<_>>()?,
            total: data.total_weight(),
        })
    }

    /// Every candidate on every fold.
    fn everything(&self, watch: &dyn Watch) -> Result<Outcome> {
        let counter = FitCounter::new(self.candidates.len() * self.parts.len(), watch);
        let all: Vec<usize> = (0..self.candidates.len()).collect();
        let nlls = self.score(&all, &[], &counter)?;
        self.crown(nlls, &counter)
    }

    /// Successive halving: the more promising, the more folds and steps.
    fn halving(&self, watch: &dyn Watch) -> Result<Outcome> {
        let count = self.candidates.len();
        let survivors = (count.div_ceil(SURVIVORS)).max(FINALISTS).min(count);
        let finalists = FINALISTS.min(survivors);
        let of = count + survivors + finalists * (self.parts.len() - 1);
        let counter = FitCounter::new(of, watch);
        let brief = self.run(&(0..count).collect::<Vec<_>>(), 0, true, &counter)?;
        let full = self.run(&best_of(&brief, survivors), 0, false, &counter)?;
        let chosen = best_of(&full, finalists);
        let first: Vec<f64> = chosen
            .iter()
            .map(|&wanted| {
                full.iter()
                    .find(|(c, _)| *c == wanted)
                    .map_or(f64::NAN, |f| f.1)
            })
            .collect();
        let nlls = self.score(&chosen, &first, &counter)?;
        self.crown(nlls, &counter)
    }

    /// The mean NLL over all folds; `first` has those of fold 0 where they are known.
    fn score(
        &self,
        which: &[usize],
        first: &[f64],
        counter: &FitCounter<'_>,
    ) -> Result<Vec<(usize, f64)>> {
        let begin = usize::from(!first.is_empty());
        let share = |fold: usize| self.parts[fold].1.total_weight() / self.total;
        let mut sums: Vec<(usize, f64)> = which.iter().map(|&c| (c, 0.0)).collect();
        for (sum, nll) in sums.iter_mut().zip(first) {
            sum.1 += share(0) * nll;
        }
        for fold in begin..self.parts.len() {
            let nlls = self.run(which, fold, false, counter)?;
            for (sum, (_, nll)) in sums.iter_mut().zip(nlls) {
                sum.1 += share(fold) * nll;
            }
        }
        Ok(sums)
    }

    /// The NLL of some candidates on one fold.
    fn run(
        &self,
        which: &[usize],
        fold: usize,
        brief: bool,
        counter: &FitCounter<'_>,
    ) -> Result<Vec<(usize, f64)>> {
        let (kept, held_out) = &self.parts[fold];
        let fit = |&candidate: &usize| {
            let method = &self.candidates[candidate];
            let fitted = if brief {
                method.cheaper().fit_watched(kept, counter)?
            } else {
                method.fit_watched(kept, counter)?
            };
            let nll = if held_out.total_weight() > 0.0 {
                apply::mean_nll(&fitted.model, held_out)
            } else {
                0.0
            };
            counter.finish(fitted.report.evaluations, nll)?;
            Ok((candidate, nll))
        };
        which.par_iter().map(fit).collect()
    }

    /// The best of all, fitted once more on every fold: keeping every candidate's models would take as much
    /// memory as there are candidates.
    fn crown(&self, nlls: Vec<(usize, f64)>, counter: &FitCounter<'_>) -> Result<Outcome> {
        let best = best_of(&nlls, 1)[0];
        let fitted = self
            .parts
            .par_iter()
            .map(|(kept, _)| self.candidates[best].fit_watched(kept, counter))
            .collect::<Result<Vec<Fitted>>>()?;
        let again: usize = fitted.iter().map(|f| f.report.evaluations).sum();
        Ok(Outcome {
            best,
            models: fitted.into_iter().map(|f| f.model).collect(),
            nlls,
            evaluations: counter.evaluations() + again,
        })
    }
}

/// The candidates with the smallest NLL, the earlier of equals first; NaN is larger than everything.
fn best_of(nlls: &[(usize, f64)], count: usize) -> Vec<usize> {
    let mut sorted: Vec<(usize, f64)> = nlls.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    sorted.iter().take(count).map(|(c, _)| *c).collect()
}

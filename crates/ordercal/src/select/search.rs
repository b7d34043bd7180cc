//! Hyperparameter search by cross validation, and fold ensembles.

use std::fmt;
use std::str::FromStr;

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use super::cross_validation::{FoldFit, FoldParts, best_of};
use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::methods::{FitReport, Fitted};
use crate::models::{MixtureModel, Model};
use crate::optim::StopReason;
use crate::registry::Method;
use crate::watch::{FitCounter, Watch};

/// The effort of a hyperparameter search.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_", strip_option)]
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
    let parts = FoldParts::new(data, &folds)?;
    let outcome = match search.effort {
        Effort::None | Effort::Paper => grid_search(&parts, &candidates, watch)?,
        Effort::Quick => successive_halving(&parts, &candidates, watch)?,
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
    let measured = Fitted::measured(MixtureModel::average(outcome.models)?.into(), data);
    let report = FitReport {
        iterations: candidates.len(),
        evaluations: outcome.evaluations,
        loss,
        stop: StopReason::AllFitted,
        notes: vec![format!("the average of {} fold models", folds.count())],
        ..measured.report
    };
    Ok(Found {
        method: candidates[outcome.best].clone(),
        fitted: Fitted { report, ..measured },
        ranking,
    })
}

/// The candidates that were evaluated on all folds.
struct SearchOutcome {
    /// The index of the best candidate.
    best: usize,
    /// The model of the best candidate for each fold.
    models: Vec<Model>,
    /// The candidates with their NLL.
    nlls: Vec<(usize, f64)>,
    /// Passes over the data by all fits.
    evaluations: usize,
}

/// Evaluates every candidate on every fold.
fn grid_search(
    parts: &FoldParts,
    candidates: &[Method],
    watch: &dyn Watch,
) -> Result<SearchOutcome> {
    let counter = FitCounter::new(candidates.len() * parts.count(), watch);
    let all: Vec<usize> = (0..candidates.len()).collect();
    // The models of many candidates would need too much memory: the best is fitted again.
    let few = candidates.len() <= FINALISTS;
    let mut fits = parts.fit(candidates, &all, 0..parts.count(), few, &counter)?;
    let nlls: Vec<(usize, f64)> = all.iter().map(|&c| (c, parts.nll(&fits, c))).collect();
    if !few {
        fits = parts.fit(
            candidates,
            &best_of(&nlls, 1),
            0..parts.count(),
            true,
            &counter,
        )?;
    }
    Ok(outcome(fits, nlls, &counter))
}

/// Successive halving: the better a candidate, the more folds and iterations it gets.
fn successive_halving(
    parts: &FoldParts,
    candidates: &[Method],
    watch: &dyn Watch,
) -> Result<SearchOutcome> {
    let count = candidates.len();
    let survivors = (count.div_ceil(SURVIVORS)).max(FINALISTS).min(count);
    let finalists = FINALISTS.min(survivors);
    let of = count + survivors + finalists * (parts.count() - 1);
    let counter = FitCounter::new(of, watch);
    let best = |fits: &[FoldFit], count: usize| {
        let nlls: Vec<(usize, f64)> = fits.iter().map(|fit| (fit.candidate, fit.nll)).collect();
        best_of(&nlls, count)
    };
    let all: Vec<usize> = (0..count).collect();
    let cheaper: Vec<Method> = candidates.iter().map(Method::cheaper).collect();
    let cheap = parts.fit(&cheaper, &all, 0..1, false, &counter)?;
    let mut fits = parts.fit(candidates, &best(&cheap, survivors), 0..1, true, &counter)?;
    let chosen = best(&fits, finalists);
    fits.retain(|fit| chosen.contains(&fit.candidate));
    fits.extend(parts.fit(candidates, &chosen, 1..parts.count(), true, &counter)?);
    let nlls = chosen.iter().map(|&c| (c, parts.nll(&fits, c))).collect();
    Ok(outcome(fits, nlls, &counter))
}

fn outcome(fits: Vec<FoldFit>, nlls: Vec<(usize, f64)>, counter: &FitCounter<'_>) -> SearchOutcome {
    let best = best_of(&nlls, 1)[0];
    let own = fits.into_iter().filter(|fit| fit.candidate == best);
    SearchOutcome {
        best,
        models: own.filter_map(|fit| fit.model).collect(),
        nlls,
        evaluations: counter.evaluations(),
    }
}

//! What may be mixed: methods that read the scores, and methods that read what another one says of held-out rows.

use std::ops::Range;

use rayon::prelude::*;

use super::plan::Plan;
use crate::data::{Dataset, Folds, ScoreKind, Scores};
use crate::error::Result;
use crate::models::{Model, apply, clamp_log_prob_f32};
use crate::watch::FitCounter;

/// A candidate with a model for each fold, and how they do on the rows they have not seen.
pub(super) struct Member {
    pub(super) name: String,
    /// The member whose output it reads; without one it reads the scores.
    pub(super) reads: Option<usize>,
    /// One model for each fold, of what the member reads.
    pub(super) models: Vec<Model>,
    /// The NLL of each row under the model that has not seen it.
    pub(super) nlls: Vec<f64>,
    /// Nanoseconds per score that applying it takes.
    pub(super) cost: f64,
}

/// Everything that was fitted fold by fold.
pub(super) struct Fits {
    pub(super) members: Vec<Member>,
    /// What the members that others read say of held-out rows, by member.
    outputs: Vec<Option<Dataset<'static>>>,
}

impl Fits {
    /// Fits every candidate on every fold, level by level.
    pub(super) fn new(
        plan: &Plan,
        data: &Dataset<'_>,
        folds: &Folds,
        counter: &FitCounter<'_>,
    ) -> Result<Self> {
        let count = plan.candidates.len();
        let mut fits = Self {
            members: Vec::with_capacity(count),
            outputs: (0..count).map(|_| None).collect(),
        };
        let sources: Vec<usize> = plan.candidates.iter().filter_map(|c| c.reads).collect();
        let mut first = 0;
        // Candidates that read the same stand together, each source before its readers.
        while first < count {
            let reads = plan.candidates[first].reads;
            let alike = plan.candidates[first..].iter();
            let end = first + alike.take_while(|c| c.reads == reads).count();
            let fitted = {
                let read = reads.map_or(data, |source| {
                    fits.outputs[source].as_ref().expect("a source comes first")
                });
                fit_level(plan, first..end, read, folds, counter)?
            };
            for (place, (models, nlls)) in (first..).zip(fitted) {
                let candidate = &plan.candidates[place];
                if sources.contains(&place) {
                    let scores = held_out_scores(data, folds, |fold| &models[fold])?;
                    fits.outputs[place] = Some(data.with_scores(scores)?);
                }
                fits.members.push(Member {
                    name: candidate.name.clone(),
                    reads: candidate.reads,
                    models,
                    nlls,
                    cost: candidate.cost.applied,
                });
            }
            first = end;
        }
        Ok(fits)
    }

    /// What a member reads, row by row, from models that have not seen the row.
    pub(super) fn read_by<'a>(&'a self, member: usize, data: &'a Dataset<'a>) -> &'a Dataset<'a> {
        match self.members[member].reads {
            None => data,
            Some(source) => self.outputs[source].as_ref().expect("a source was kept"),
        }
    }
}

/// The models and held-out NLLs of candidates that read the same.
#[allow(clippy::type_complexity)]
fn fit_level(
    plan: &Plan,
    level: Range<usize>,
    read: &Dataset<'_>,
    folds: &Folds,
    counter: &FitCounter<'_>,
) -> Result<Vec<(Vec<Model>, Vec<f64>)>> {
    let candidates = &plan.candidates[level];
    let mut found: Vec<(Vec<Model>, Vec<f64>)> = candidates
        .iter()
        .map(|_| (Vec::new(), vec![0.0; read.rows()]))
        .collect();
    let all: Vec<usize> = (0..folds.count()).collect();
    for some in all.chunks(plan.folds_at_once()) {
        let parts: Vec<(Dataset<'static>, Dataset<'static>)> = some
            .iter()
            .map(|&fold| {
                (
                    read.select(&folds.kept(fold)),
                    read.select(&folds.held_out(fold)),
                )
            })
            .collect();
        let jobs: Vec<(usize, usize)> = (0..some.len())
            .flat_map(|part| (0..candidates.len()).map(move |candidate| (part, candidate)))
            .collect();
        let fitted = jobs
            .par_iter()
            .with_max_len(1)
            .map(|&(part, candidate)| {
                let (kept, held_out) = &parts[part];
                let fitted = candidates[candidate].method.fit(kept, counter)?;
                counter.finish(fitted.report.evaluations, fitted.report.nll_after)?;
                let nlls = apply::row_nlls(&fitted.model, held_out);
                Ok((fitted.model, nlls))
            })
            .collect::<Result<Vec<_>>>()?;
        for ((part, candidate), (model, nlls)) in jobs.into_iter().zip(fitted) {
            let target = &mut found[candidate];
            target.0.push(model);
            for (row, nll) in folds.held_out(some[part]).into_iter().zip(nlls) {
                target.1[row] = nll;
            }
        }
    }
    Ok(found)
}

/// Log-probabilities of every row, each from a model that has not seen it.
pub(super) fn held_out_scores<'a>(
    data: &Dataset<'_>,
    folds: &Folds,
    model: impl Fn(usize) -> &'a Model,
) -> Result<Scores<'static>> {
    let mut all = ndarray::Array2::<f32>::zeros((data.rows(), data.classes()));
    for fold in 0..folds.count() {
        let held_out = folds.held_out(fold);
        let scores = data.scores().select(&held_out);
        let part = model(fold).apply::<f32>(&scores, ScoreKind::LogProbs)?;
        for (row, values) in held_out.into_iter().zip(part.rows()) {
            all.row_mut(row).assign(&values);
        }
    }
    // As between the models of a chain.
    all.mapv_inplace(clamp_log_prob_f32);
    Ok(Scores::new(ScoreKind::LogProbs, all)?.into_owned())
}

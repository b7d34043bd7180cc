//! Cross-validated NLL, and the choice of the best of several methods.

use std::ops::Range;

use rayon::prelude::*;

use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::methods::Fitted;
use crate::models::{Model, apply};
use crate::registry::Method;
use crate::watch::{FitCounter, Watch};

/// The cross-validated NLL of a method.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The mean NLL over all rows, each under the model that was fitted without its fold.
    pub nll: f64,
    /// The mean NLL of each fold.
    pub folds: Vec<f64>,
}

/// The result of a comparison of candidates by cross validation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// The index of the candidate with the smallest NLL; the first one of several.
    pub best: usize,
    /// The score of each candidate.
    pub scores: Vec<Score>,
}

impl Choice {
    /// The score of the best candidate.
    pub fn score(&self) -> &Score {
        &self.scores[self.best]
    }
}

/// The cross-validated NLL of a method: for each fold, it is fitted to the other folds and evaluated on this one.
///
/// # Errors
/// If a hyperparameter is out of range, the number of rows differs from that of the folds, or `watch` cancels the fits.
pub fn cross_validated_nll(
    method: &Method,
    data: &Dataset<'_>,
    folds: &Folds,
    watch: &dyn Watch,
) -> Result<Score> {
    let mut choice = choose(std::slice::from_ref(method), data, folds, watch)?;
    Ok(choice.scores.remove(0))
}

/// Chooses the candidate with the smallest cross-validated NLL; all are evaluated on the same folds.
///
/// Candidates are fitted in parallel, in the same thread pool as the loops inside the fits. `watch` is notified of every completed fit, with the NLL of the candidate on the fold.
///
/// # Errors
/// If there is no candidate, a hyperparameter is out of range, the number of rows differs from that of the folds, or
/// `watch` cancels the fits.
pub fn choose(
    candidates: &[Method],
    data: &Dataset<'_>,
    folds: &Folds,
    watch: &dyn Watch,
) -> Result<Choice> {
    if candidates.is_empty() {
        return Err(Error::InvalidArgument {
            argument: "candidates",
            found: "none".to_owned(),
            expected: "at least one method",
        });
    }
    if folds.rows() != data.rows() {
        return Err(Error::LengthMismatch {
            what: "rows of the folds",
            found: folds.rows(),
            rows: data.rows(),
        });
    }
    candidates.iter().try_for_each(Method::validate)?;
    let counter = FitCounter::new(candidates.len() * folds.count(), watch);
    let parts = FoldParts::new(data, folds)?;
    let all: Vec<usize> = (0..candidates.len()).collect();
    let fits = parts.fit(candidates, &all, 0..folds.count(), false, &counter)?;
    let score = |&candidate: &usize| Score {
        nll: parts.nll(&fits, candidate),
        folds: (fits.iter().filter(|fit| fit.candidate == candidate))
            .map(|fit| fit.nll)
            .collect(),
    };
    let scores: Vec<Score> = all.iter().map(score).collect();
    let nlls: Vec<(usize, f64)> = all.iter().map(|&c| (c, scores[c].nll)).collect();
    Ok(Choice {
        best: best_of(&nlls, 1)[0],
        scores,
    })
}

/// For each fold, the rows to fit and the rows to evaluate.
pub(super) struct FoldParts {
    parts: Vec<(Dataset<'static>, Dataset<'static>)>,
    total: f64,
}

/// A candidate that was fitted without one of the folds.
pub(super) struct FoldFit {
    pub(super) candidate: usize,
    fold: usize,
    /// The mean NLL of the fold; 0 if its rows have no weight.
    pub(super) nll: f64,
    pub(super) model: Option<Model>,
}

impl FoldParts {
    pub(super) fn new(data: &Dataset<'_>, folds: &Folds) -> Result<Self> {
        let split = |fold| {
            let kept = data.select(&folds.kept(fold));
            match kept.total_weight() > 0.0 {
                true => Ok((kept, data.select(&folds.held_out(fold)))),
                false => Err(Error::ZeroWeights),
            }
        };
        Ok(Self {
            parts: (0..folds.count()).map(split).collect::<Result<_>>()?,
            total: data.total_weight(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// Fits some of the candidates without each of the folds and measures them on their rows, fold by fold.
    pub(super) fn fit(
        &self,
        candidates: &[Method],
        which: &[usize],
        folds: Range<usize>,
        keep_models: bool,
        counter: &FitCounter<'_>,
    ) -> Result<Vec<FoldFit>> {
        let fit = |(candidate, fold): (usize, usize)| {
            let (kept, held_out) = &self.parts[fold];
            let Fitted { model, report } = candidates[candidate].fit_watched(kept, counter)?;
            let nll = match held_out.total_weight() > 0.0 {
                true => apply::mean_nll(&model, held_out),
                false => 0.0,
            };
            counter.finish(report.evaluations, nll)?;
            Ok(FoldFit {
                candidate,
                fold,
                nll,
                model: keep_models.then_some(model),
            })
        };
        let fits: Vec<(usize, usize)> = folds
            .flat_map(|fold| which.iter().map(move |&candidate| (candidate, fold)))
            .collect();
        fits.into_par_iter().map(fit).collect()
    }

    /// The mean NLL of a candidate over all rows.
    pub(super) fn nll(&self, fits: &[FoldFit], candidate: usize) -> f64 {
        let own = fits.iter().filter(|fit| fit.candidate == candidate);
        own.map(|fit| self.parts[fit.fold].1.total_weight() / self.total * fit.nll)
            .sum()
    }
}

/// The `count` candidates with the smallest NLL, in stable order; NaN comes last.
pub(super) fn best_of(nlls: &[(usize, f64)], count: usize) -> Vec<usize> {
    let mut sorted: Vec<(usize, f64)> = nlls.to_vec();
    sorted.sort_by(|(_, a), (_, b)| a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(b)));
    sorted.iter().take(count).map(|(c, _)| *c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use crate::methods::listed::{Ts, Uncalibrated, Vs};
    use crate::rng::Rng;
    use crate::watch::{Progress, Unwatched};
    use ndarray::Array2;
    use std::ops::ControlFlow;
    use std::sync::Mutex;

    /// Logits four times too large.
    fn data(rows: usize) -> Dataset<'static> {
        let mut rng = Rng::new(97);
        let logits = Array2::from_shape_fn((rows, 3), |_| 8.0 * rng.normal() as f32);
        let labels: Vec<u32> = logits
            .rows()
            .into_iter()
            .map(|row| {
                let noisy = row
                    .iter()
                    .map(|&v| f64::from(v) / 4.0 - (-rng.uniform().ln()).ln());
                let best = noisy.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
                best.unwrap().0 as u32
            })
            .collect();
        Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap()
    }

    #[test]
    fn scores_agree_with_separate_fits() {
        let data = data(90);
        let folds = Folds::new(90, 3, 1).unwrap();
        let method = Method::from(Ts::default());
        let score = cross_validated_nll(&method, &data, &folds, &Unwatched).unwrap();
        let mut sum = 0.0;
        for fold in 0..3 {
            let model = method.fit(&data.select(&folds.kept(fold))).unwrap().model;
            let rows = folds.held_out(fold);
            let scores = data.scores().select(&rows);
            let logs: Array2<f64> = model.apply(&scores, ScoreKind::LogProbs).unwrap();
            for (at, row) in rows.iter().enumerate() {
                sum -= logs[[at, data.labels()[*row] as usize]];
            }
        }
        assert!((score.nll - sum / 90.0).abs() < 1e-9);
        assert!((score.folds.iter().sum::<f64>() / 3.0 - score.nll).abs() < 1e-9);
    }

    #[test]
    fn the_best_is_chosen_and_progress_never_decreases() {
        let data = data(300);
        let folds = Folds::new(300, 4, 1).unwrap();
        let candidates: Vec<Method> = vec![
            Uncalibrated::default().into(),
            Ts::default().into(),
            Vs::default().into(),
        ];
        let seen = Mutex::new(Vec::new());
        let watch = |progress: &Progress| {
            assert_eq!(progress.of, 12);
            seen.lock().unwrap().push(progress.iteration);
            ControlFlow::Continue(())
        };
        let choice = choose(&candidates, &data, &folds, &watch).unwrap();
        assert_eq!(choice.best, 1, "{choice:?}");
        assert!(choice.scores[0].nll > choice.score().nll + 0.1);
        let seen = seen.into_inner().unwrap();
        assert!(seen.is_sorted() && seen.last() == Some(&12), "{seen:?}");
    }

    #[test]
    fn nan_is_never_the_best() {
        let nlls = [f64::NAN, 2.0, -f64::NAN, 1.0, 2.0];
        let nlls: Vec<(usize, f64)> = nlls.into_iter().enumerate().collect();
        assert_eq!(best_of(&nlls, 3), [3, 1, 4]);
    }

    #[test]
    fn a_choice_can_be_cancelled_and_requires_candidates() {
        let data = data(40);
        let folds = Folds::new(40, 2, 1).unwrap();
        let stop = |_: &Progress| ControlFlow::Break(());
        let candidates = [Method::from(Uncalibrated::default())];
        let refused = choose(&candidates, &data, &folds, &stop);
        assert_eq!(refused.unwrap_err(), Error::Cancelled);
        let none = choose(&[], &data, &folds, &Unwatched).unwrap_err();
        assert!(matches!(
            none,
            Error::InvalidArgument {
                argument: "candidates",
                ..
            }
        ));
        let other = Folds::new(39, 2, 1).unwrap();
        assert!(matches!(
            choose(&candidates, &data, &other, &Unwatched),
            Err(Error::LengthMismatch { found: 39, .. })
        ));
    }
}

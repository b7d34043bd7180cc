//! Cross-validated NLL, and the choice of the best of several methods.

use rayon::prelude::*;

use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::models::{Model, apply};
use crate::registry::Method;
use crate::watch::{FitCounter, Watch};

/// The cross-validated NLL of a method.
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// use ordercal::select::{Folds, cross_validated_nll};
/// use ordercal::{Method, Unwatched};
///
/// let score = cross_validated_nll(&Method::from_key("ts")?, &data, &Folds::new(60, 5, 1357)?, &Unwatched)?;
/// assert_eq!(score.folds.len(), 5);
/// // Folds of the same size, so the mean of all rows is that of the folds.
/// assert!((score.folds.iter().sum::<f64>() / 5.0 - score.nll).abs() < 1e-12);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The mean NLL over all rows, each under the model that was fitted without its fold.
    pub nll: f64,
    /// The mean NLL of each fold.
    pub folds: Vec<f64>,
}

/// The result of a comparison of candidates by cross validation.
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// use ordercal::select::{Folds, choose};
/// use ordercal::{Method, Unwatched};
///
/// let candidates = [Method::from_key("uncalibrated")?, Method::from_key("ts")?];
/// let choice = choose(&candidates, &data, &Folds::new(60, 5, 1357)?, &Unwatched)?;
/// assert_eq!(choice.best, 1);
/// assert!(choice.score().nll < choice.scores[0].nll);
/// # Ok::<(), ordercal::Error>(())
/// ```
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
///
/// ```
/// use ndarray::Array2;
/// use ordercal::select::{Folds, cross_validated_nll};
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Unwatched};
///
/// let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// let folds = Folds::new(60, 5, 1357)?;
/// let score = cross_validated_nll(&Method::from_key("ts")?, &data, &folds, &Unwatched)?;
/// assert_eq!(score.folds.len(), 5);
/// # Ok::<(), ordercal::Error>(())
/// ```
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
/// Candidates are fitted in parallel, in the same thread pool as the loops inside the fits. The rows of one fold are copied
/// at a time. `watch` is notified of every completed fit, with the NLL of the candidate on the fold.
///
/// # Errors
/// If there is no candidate, a hyperparameter is out of range, the number of rows differs from that of the folds, or
/// `watch` cancels the fits.
///
/// ```
/// # use ndarray::Array2;
/// # use ordercal::{Dataset, ScoreKind, Scores};
/// # let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// # let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
/// # let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
/// use ordercal::select::{Folds, choose};
/// use ordercal::{Method, Unwatched, Vs};
///
/// // `data`: labels that have nothing to do with the scores.
/// let candidates = [Method::from_key("ts")?, Vs::default().into()];
/// let choice = choose(&candidates, &data, &Folds::new(60, 5, 1357)?, &Unwatched)?;
/// assert_eq!(candidates[choice.best].key(), "ts", "the fewer parameters the better");
/// # Ok::<(), ordercal::Error>(())
/// ```
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
    let mut scores = vec![
        Score {
            nll: 0.0,
            folds: Vec::new(),
        };
        candidates.len()
    ];
    let total = data.total_weight();
    for fold in 0..folds.count() {
        let (kept, held_out) = split(data, folds, fold)?;
        let weight = held_out.total_weight();
        let nlls = candidates
            .par_iter()
            .map(|method| Ok(fit_without(method, &kept, &held_out, &counter)?.1))
            .collect::<Result<Vec<f64>>>()?;
        for (score, nll) in scores.iter_mut().zip(nlls) {
            score.nll += weight / total * nll;
            score.folds.push(nll);
        }
    }
    let better = |best: usize, other: usize| {
        // NaN is never chosen over a number.
        let smaller = scores[other].nll < scores[best].nll || scores[best].nll.is_nan();
        if smaller { other } else { best }
    };
    Ok(Choice {
        best: (0..scores.len()).reduce(better).unwrap_or(0),
        scores,
    })
}

/// The rows to fit and the rows to evaluate for one fold.
pub(super) fn split(
    data: &Dataset<'_>,
    folds: &Folds,
    fold: usize,
) -> Result<(Dataset<'static>, Dataset<'static>)> {
    let kept = data.select(&folds.kept(fold));
    if kept.total_weight() <= 0.0 {
        return Err(Error::ZeroWeights);
    }
    Ok((kept, data.select(&folds.held_out(fold))))
}

/// Fits a method to the kept rows and returns the model with its mean NLL on the held-out rows; 0 if they have no weight.
pub(super) fn fit_without(
    method: &Method,
    kept: &Dataset<'_>,
    held_out: &Dataset<'_>,
    counter: &FitCounter<'_>,
) -> Result<(Model, f64)> {
    let fitted = method.fit_watched(kept, counter)?;
    let nll = if held_out.total_weight() > 0.0 {
        apply::mean_nll(&fitted.model, held_out)
    } else {
        0.0
    };
    counter.finish(fitted.report.evaluations, nll)?;
    Ok((fitted.model, nll))
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

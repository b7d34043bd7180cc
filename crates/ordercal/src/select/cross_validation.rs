//! NLL on held-out rows, and the best of several methods by it.

use rayon::prelude::*;

use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::models::apply;
use crate::registry::Method;
use crate::watch::{FitCounter, Watch};

/// How a method does on rows it has not seen.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The mean NLL over all rows, each under the model fitted without its fold.
    pub nll: f64,
    /// The mean NLL of each fold.
    pub folds: Vec<f64>,
}

/// How candidates do, and which is best.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// The candidate with the smallest NLL; the first of them.
    pub best: usize,
    /// The scores, candidate by candidate.
    pub scores: Vec<Score>,
}

impl Choice {
    /// The best candidate's score.
    pub fn score(&self) -> &Score {
        &self.scores[self.best]
    }
}

/// The NLL of a method on held-out rows: fitted on all folds but one, scored on that one, for each.
///
/// # Errors
/// If a hyperparameter is out of range, the folds are of other rows, or `watch` asked to stop.
pub fn cross_validated_nll(
    method: &Method,
    data: &Dataset<'_>,
    folds: &Folds,
    watch: &dyn Watch,
) -> Result<Score> {
    let mut choice = choose(std::slice::from_ref(method), data, folds, watch)?;
    Ok(choice.scores.remove(0))
}

/// Scores every candidate on the same folds.
///
/// Candidates are fitted side by side on the threads there are: fits and what runs inside them share one
/// pool. One fold's rows are copied at a time. `watch` hears of every fit that is done; the loss it is
/// told is the latest candidate's on its fold.
///
/// # Errors
/// If there is no candidate, a hyperparameter is out of range, the folds are of other rows, or `watch`
/// asked to stop.
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
        let kept = data.select(&folds.kept(fold));
        let held_out = data.select(&folds.held_out(fold));
        let weight = held_out.total_weight();
        if kept.total_weight() <= 0.0 {
            return Err(Error::ZeroWeights);
        }
        let nlls = candidates
            .par_iter()
            .map(|method| {
                let fitted = method.fit_watched(&kept, &counter)?;
                let nll = if weight > 0.0 {
                    apply::mean_nll(&fitted.model, &held_out)
                } else {
                    0.0
                };
                counter.finish(fitted.report.evaluations, nll)?;
                Ok(nll)
            })
            .collect::<Result<Vec<f64>>>()?;
        for (score, nll) in scores.iter_mut().zip(nlls) {
            score.nll += weight / total * nll;
            score.folds.push(nll);
        }
    }
    let better = |best: usize, other: usize| {
        // NaN never wins.
        let smaller = scores[other].nll < scores[best].nll || scores[best].nll.is_nan();
        if smaller { other } else { best }
    };
    Ok(Choice {
        best: (0..scores.len()).reduce(better).unwrap_or(0),
        scores,
    })
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
    fn scores_are_those_of_fits_by_hand() {
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
    fn the_best_is_chosen_and_progress_only_goes_up() {
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
    fn a_choice_can_be_cancelled_and_needs_candidates() {
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

//! Sets of classes that contain the label as often as asked: split conformal prediction.

use ndarray::{Array2, ArrayView1};
use serde::{Deserialize, Serialize};

use super::binomial;
use crate::data::Scores;
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::metrics::Predictions;
use crate::rank::argmax;
use crate::rng::Rng;

/// How badly a class fits a row: a set holds the classes that fit no worse than most labels do.
///
/// With the classes in descending order of probability, of equally probable ones the first:
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum SetMethod {
    /// 1 − p: the smallest sets on average (Sadinle et al. 2019, *least ambiguous classifier*), but the same threshold
    /// for easy and hard rows.
    Lac,
    /// The sum of the larger probabilities, plus u · p (Romano et al. 2020, *adaptive prediction sets*): larger sets for
    /// harder rows.
    Aps {
        /// Whether u is drawn uniformly for each row, which makes the coverage exact; otherwise it is 1.
        randomised: bool,
    },
    /// APS plus `penalty` for every class beyond the first `free` (Angelopoulos et al. 2021, *regularised adaptive
    /// prediction sets*): smaller sets where many classes share little probability.
    Raps {
        /// As for APS.
        randomised: bool,
        /// The number of classes without a penalty.
        free: usize,
        /// The penalty of each further class.
        penalty: f64,
    },
}

impl SetMethod {
    /// The scores of all classes of a row, given their probabilities and u.
    fn scores(self, probs: &[f64], u: f64) -> Vec<f64> {
        let (free, penalty) = match self {
            Self::Lac => return probs.iter().map(|p| 1.0 - p).collect(),
            Self::Aps { .. } => (0, 0.0),
            Self::Raps { free, penalty, .. } => (free, penalty),
        };
        let mut order: Vec<usize> = (0..probs.len()).collect();
        order.sort_by(|&a, &b| probs[b].total_cmp(&probs[a]));
        let mut scores = vec![0.0; probs.len()];
        let mut before = 0.0;
        for (rank, &class) in order.iter().enumerate() {
            let p = probs[class];
            scores[class] = before + u * p + penalty * (rank + 1).saturating_sub(free) as f64;
            before += p;
        }
        scores
    }

    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Aps { randomised: true }
            | Self::Raps {
                randomised: true, ..
            } => rng.uniform(),
            _ => 1.0,
        }
    }
}

/// Prediction sets: learned from labelled rows, and then a set of classes for every new row.
///
/// Split conformal prediction (Vovk et al. 2005): of n labelled rows, the ⌈(n + 1) · coverage⌉-th smallest score of a
/// label is the largest score that a set admits. A new row's label is in its set with a probability of at least
/// `coverage`, on average over rows and over draws of the labelled rows, and of at most `coverage` + 1/(n + 1) where
/// scores are not tied and sets may be empty. With too few rows for that rank every set holds all classes.
///
/// ```
/// use ndarray::array;
/// use ordercal::decide::{PredictionSets, SetMethod};
/// use ordercal::metrics::Predictions;
/// use ordercal::{ScoreKind, Scores};
///
/// let probs = array![[0.7_f64, 0.2, 0.1], [0.5, 0.4, 0.1], [0.6, 0.3, 0.1], [0.4, 0.35, 0.25]];
/// let calib = Predictions::from_probs(probs.view(), &[0, 1, 0, 2])?;
/// let sets = PredictionSets::learn(&calib, 0.6, SetMethod::Lac, 1357)?;
/// // The third of the labels' scores 0.3, 0.4, 0.6 and 0.75: (4 + 1) · 0.6 = 3.
/// assert!((sets.quantile - 0.6).abs() < 1e-12);
/// let fresh = Scores::new(ScoreKind::Probs, array![[0.45_f32, 0.41, 0.14]])?;
/// assert_eq!(sets.sets(&fresh, 0), array![[true, true, false]]);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PredictionSets {
    /// How classes are scored.
    pub method: SetMethod,
    /// The share of rows whose set is to contain the label.
    pub coverage: f64,
    /// The largest score that a set admits; infinite if there were too few rows.
    pub quantile: f64,
    /// The number of labelled rows.
    pub rows: usize,
    /// Whether a set may be empty; if not (the default), the most probable class is always in it.
    pub allow_empty: bool,
}

/// How prediction sets did on labelled rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SetReport {
    /// The share of rows whose set contains the label.
    pub coverage: f64,
    /// Its 95 % Clopper–Pearson interval.
    pub interval: (f64, f64),
    /// The mean number of classes in a set.
    pub mean_size: f64,
    /// How many sets have 0, 1, … K classes.
    pub sizes: Vec<u64>,
    /// The share of each class's rows whose set contains it; nothing for a class without rows.
    pub class_coverage: Vec<Option<f64>>,
}

impl PredictionSets {
    /// Learns the largest score that a set admits.
    ///
    /// # Errors
    /// If `coverage` is not between 0 and 1, a penalty is negative or not finite, or the rows have weights: ranks count
    /// rows.
    pub fn learn(
        predictions: &Predictions<'_>,
        coverage: f64,
        method: SetMethod,
        seed: u64,
    ) -> Result<Self> {
        if !(coverage > 0.0 && coverage < 1.0) {
            return Err(Error::invalid("coverage", coverage, "above 0 and below 1"));
        }
        if let SetMethod::Raps { penalty, .. } = method
            && !(penalty >= 0.0 && penalty.is_finite())
        {
            let expected = "a finite number of at least 0";
            return Err(Error::invalid("penalty", penalty, expected));
        }
        if predictions.weights().is_some() {
            let expected = "none: the guarantee counts rows, each once";
            return Err(Error::invalid("weights", "given", expected));
        }
        let classes = predictions.classes();
        let mut probs = vec![0.0; classes];
        let mut rng = Rng::new(seed);
        let labels = predictions.labels().iter().enumerate();
        let mut of_labels: Vec<f64> = labels
            .map(|(row, &label)| {
                predictions.probabilities(row, &mut probs);
                method.scores(&probs, method.draw(&mut rng))[label as usize]
            })
            .collect();
        of_labels.sort_by(f64::total_cmp);
        Ok(Self {
            method,
            coverage,
            quantile: conformal_quantile(&of_labels, coverage),
            rows: of_labels.len(),
            allow_empty: false,
        })
    }

    /// Sets [`allow_empty`](Self::allow_empty).
    pub fn with_allow_empty(mut self, allow_empty: bool) -> Self {
        self.allow_empty = allow_empty;
        self
    }

    /// The sets of new rows, N×K. Randomised methods draw one number for each row, in order, from the seed.
    pub fn sets(&self, scores: &Scores<'_>, seed: u64) -> Array2<bool> {
        let mut sets = Array2::from_elem((scores.rows(), scores.classes()), false);
        let mut probs = vec![0.0; scores.classes()];
        let mut rng = new_rows(seed);
        for (row, mut set) in sets.rows_mut().into_iter().enumerate() {
            for (p, &score) in probs.iter_mut().zip(scores.row(row)) {
                *p = f64::from(score);
            }
            softmax::probabilities(&mut probs);
            let admitted = self.admit(&probs, &mut rng);
            set.assign(&ArrayView1::from(&admitted));
        }
        sets
    }

    /// How the sets of labelled rows do; they should not be those that the sets were learned from.
    ///
    /// The sets are those of [`sets`](Self::sets) with the same seed.
    pub fn evaluate(&self, predictions: &Predictions<'_>, seed: u64) -> SetReport {
        let classes = predictions.classes();
        let mut probs = vec![0.0; classes];
        let mut rng = new_rows(seed);
        let mut sizes = vec![0; classes + 1];
        let mut of_class = vec![(0_u64, 0_u64); classes];
        for (row, &label) in predictions.labels().iter().enumerate() {
            predictions.probabilities(row, &mut probs);
            let admitted = self.admit(&probs, &mut rng);
            sizes[admitted.iter().filter(|&&admitted| admitted).count()] += 1;
            let (covered, all) = &mut of_class[label as usize];
            *covered += u64::from(admitted[label as usize]);
            *all += 1;
        }
        let covered: u64 = of_class.iter().map(|class| class.0).sum();
        let rows = predictions.rows() as u64;
        let members: u64 = (0..).zip(&sizes).map(|(size, count)| size * count).sum();
        SetReport {
            coverage: covered as f64 / rows as f64,
            interval: binomial::interval(covered, rows, 0.95),
            mean_size: members as f64 / rows as f64,
            class_coverage: of_class
                .iter()
                .map(|&(covered, all)| (all > 0).then(|| covered as f64 / all as f64))
                .collect(),
            sizes,
        }
    }

    /// Which classes are in the set of a row.
    fn admit(&self, probs: &[f64], rng: &mut Rng) -> Vec<bool> {
        let scores = self.method.scores(probs, self.method.draw(rng)).into_iter();
        let mut admitted: Vec<bool> = scores.map(|score| score <= self.quantile).collect();
        admitted[argmax(probs)] |= !self.allow_empty;
        admitted
    }
}

/// New rows must not share the random numbers of the labelled rows.
fn new_rows(seed: u64) -> Rng {
    Rng::new(seed ^ 0x9e37_79b9_7f4a_7c15)
}

/// The ⌈(n + 1) · coverage⌉-th smallest of n sorted scores; infinite if n is smaller than that.
fn conformal_quantile(sorted: &[f64], coverage: f64) -> f64 {
    let rank = (sorted.len() + 1) as f64 * coverage;
    // 0.9 · 10 may be rounded to slightly more than 9.
    let rank = (rank - 1e-9 * rank).ceil() as usize;
    match sorted.get(rank.max(1) - 1) {
        Some(&score) => score,
        None => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_the_one_that_exchangeability_asks_for() {
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(conformal_quantile(&nine, 0.9), 9.0);
        assert_eq!(conformal_quantile(&nine, 0.89), 9.0);
        assert_eq!(conformal_quantile(&nine, 0.8), 8.0);
        assert_eq!(conformal_quantile(&nine, 0.91), f64::INFINITY);
        assert_eq!(conformal_quantile(&nine, 0.01), 1.0);
    }

    #[test]
    fn scores_add_the_larger_probabilities_and_the_penalty() {
        let probs = [0.2, 0.5, 0.2, 0.1];
        let scores = |method: SetMethod, u: f64| {
            let found = method.scores(&probs, u).into_iter();
            found
                .map(|score| (score * 1e6).round() / 1e6)
                .collect::<Vec<_>>()
        };
        assert_eq!(scores(SetMethod::Lac, 1.0), [0.8, 0.5, 0.8, 0.9]);
        let aps = SetMethod::Aps { randomised: false };
        assert_eq!(scores(aps, 1.0), [0.7, 0.5, 0.9, 1.0]);
        assert_eq!(scores(aps, 0.5), [0.6, 0.25, 0.8, 0.95]);
        let raps = SetMethod::Raps {
            randomised: false,
            free: 1,
            penalty: 0.1,
        };
        assert_eq!(scores(raps, 1.0), [0.8, 0.5, 1.1, 1.3]);
    }
}

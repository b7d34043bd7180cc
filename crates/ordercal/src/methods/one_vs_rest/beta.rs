//! Beta calibration, one class against the rest (Kull et al., 2017).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::binary::{check_smoothing, fit_maps, fitted, share};
use crate::methods::likelihood::plain_nll;
use crate::methods::regression::{Example, Targets, examples, regress};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::{LogisticModel, logarithms};
use crate::watch::Watch;

/// Beta calibration: σ(a ln p − b ln(1 − p) + c) of each class's probability p, a, b ≥ 0, then normalised.
/// Predictions may change.
///
/// If a classifier's probabilities are beta distributed within each class, this is the form of the true
/// map; a = b = 1, c = 0 is the identity. A binary problem has a single map. The normalised row keeps a share
/// `smoothing`/(n + 1) of the uniform distribution.
///
/// M. Kull, T. Silva Filho, P. Flach: *Beta calibration: a well-founded and easily implemented improvement on
/// logistic calibration for binary classifiers*, AISTATS 2017.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Beta, Dataset, Method, ScoreKind, Scores};
///
/// let probs = array![[0.9_f32, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9], [0.6, 0.4]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 0, 1, 0])?;
/// let fitted = Method::from(Beta::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Beta {
    /// What the regression is told of a row.
    pub targets: Targets,
    /// How much of the uniform distribution is mixed in: a share `smoothing`/(n + 1).
    pub smoothing: f64,
}

impl Default for Beta {
    fn default() -> Self {
        Self {
            targets: Targets::Labels,
            smoothing: 1.0,
        }
    }
}

impl Beta {
    /// Sets what the regression is told of a row.
    #[must_use]
    pub fn with_targets(mut self, targets: Targets) -> Self {
        self.targets = targets;
        self
    }

    /// Sets how much of the uniform distribution is mixed in.
    #[must_use]
    pub fn with_smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }
}

impl Describe for Beta {
    const BRIEF: &'static str = "a beta curve per class, one against the rest";
    const PYTHON_CLASS: &'static str = "Beta";
}

impl Calibrator for Beta {
    fn validate(&self) -> Result<()> {
        check_smoothing(self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let before = plain_nll(data);
        let coefficients = fit_maps(data, before, watch, |cases| {
            increasing(&examples(cases, self.targets, logarithms))
        })?;
        let share = share(self.smoothing, data);
        let model = LogisticModel::new(data.classes(), share, coefficients);
        Ok(fitted(model, data, before))
    }
}

/// The best a, b ≥ 0 and c. The problem is convex, so if the free optimum has a negative coefficient, the best
/// lies where one of them is 0, or both.
fn increasing(examples: &[Example]) -> [f64; 3] {
    let feasible = |w: &[f64; 3]| w[0] >= 0.0 && w[1] >= 0.0;
    let (free, _) = regress(examples, [true, true]);
    if feasible(&free) {
        return free;
    }
    [[true, false], [false, true], [false, false]]
        .map(|used| regress(examples, used))
        .into_iter()
        .filter(|(w, _)| feasible(w))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("a constant is feasible")
        .0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::binary::Case;
    use crate::models::one_vs_rest::logistic;
    use crate::rng::Rng;

    #[test]
    fn finds_the_coefficients_labels_were_drawn_with() {
        let mut rng = Rng::new(93);
        let cases: Vec<Case> = (0..40_000)
            .map(|_| {
                let log_odds = 3.0 * rng.normal();
                let [log_p, rest] = logarithms(log_odds);
                Case {
                    log_odds,
                    weight: 1.0,
                    hit: rng.uniform() < logistic(0.4 * log_p + 1.5 * rest - 0.5),
                }
            })
            .collect();
        let [a, b, c] = increasing(&examples(&cases, Targets::Labels, logarithms));
        assert!((a - 0.4).abs() < 0.05 && (b - 1.5).abs() < 0.15 && (c + 0.5).abs() < 0.1);
    }

    #[test]
    fn scores_that_point_the_wrong_way_become_a_constant() {
        let cases: Vec<Case> = (-20..20)
            .map(|i| Case {
                log_odds: f64::from(i) / 5.0,
                weight: 1.0,
                hit: i < 0 && i % 3 != 0,
            })
            .collect();
        let [a, b, c] = increasing(&examples(&cases, Targets::Labels, logarithms));
        assert_eq!((a, b), (0.0, 0.0));
        let share = cases.iter().filter(|case| case.hit).count() as f64 / 40.0;
        assert!((logistic(c) - share).abs() < 1e-9);
    }
}

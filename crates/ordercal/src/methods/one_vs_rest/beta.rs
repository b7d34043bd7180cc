//! Beta calibration, one class against the rest (Kull et al., 2017).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::binary::{check_smoothing, fit_maps, fitted, uniform_weight};
use crate::methods::likelihood::plain_nll;
use crate::methods::regression::{Examples, Targets, regress};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::LogisticModel;
use crate::watch::Watch;

/// Beta calibration: σ(a ln p − b ln(1 − p) + c) of each class's probability p, with a, b ≥ 0; then rows are normalised.
/// Predictions may change.
///
/// a, b and c are learned by logistic regression of the class against the rest, or once for two classes. If the
/// probabilities of a classifier have a beta distribution given the class, the true map has this form; a = b = 1 and c = 0
/// is the identity. The normalised row is mixed with the uniform distribution of weight `smoothing`/(n + 1) for n rows.
///
/// M. Kull, T. Silva Filho, P. Flach: *Beta calibration: a well-founded and easily implemented improvement on
/// logistic calibration for binary classifiers*, AISTATS 2017.
///
/// ```
/// use ndarray::array;
/// use ordercal::methods::Targets;
/// use ordercal::{Beta, Dataset, Method, ScoreKind, Scores};
///
/// let probs = array![[0.9_f32, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9], [0.6, 0.4]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 0, 1, 0])?;
/// let fitted = Method::from(Beta::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// let method = Beta::default().with_targets(Targets::Platt).with_smoothing(0.5);
/// assert_eq!((method.targets, method.smoothing), (Targets::Platt, 0.5));
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Beta {
    /// The targets of the regression.
    pub targets: Targets,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
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
    /// Sets the targets of the regression.
    #[must_use]
    pub fn with_targets(mut self, targets: Targets) -> Self {
        self.targets = targets;
        self
    }

    /// Sets the smoothing.
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
            regress_increasing(&Examples::of_log_probabilities(cases, self.targets))
        })?;
        let weight = uniform_weight(self.smoothing, data);
        let model = LogisticModel::new(data.classes(), weight, coefficients);
        Ok(fitted(model, data, before))
    }
}

/// Minimises the loss over a, b ≥ 0 and c. The problem is convex, so if the unconstrained optimum has a negative
/// coefficient, the constrained one has a = 0 or b = 0.
fn regress_increasing(examples: &Examples) -> [f64; 3] {
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
    use crate::methods::binary::BinaryCase;
    use crate::models::log_probabilities;
    use crate::models::one_vs_rest::logistic;
    use crate::rng::Rng;

    #[test]
    fn the_coefficients_of_the_labels_are_recovered() {
        let mut rng = Rng::new(93);
        let cases: Vec<BinaryCase> = (0..40_000)
            .map(|_| {
                let log_odds = 3.0 * rng.normal();
                let [log_p, rest] = log_probabilities(log_odds);
                BinaryCase {
                    log_odds,
                    weight: 1.0,
                    positive: rng.uniform() < logistic(0.4 * log_p + 1.5 * rest - 0.5),
                }
            })
            .collect();
        let [a, b, c] =
            regress_increasing(&Examples::of_log_probabilities(&cases, Targets::Labels));
        assert!((a - 0.4).abs() < 0.05 && (b - 1.5).abs() < 0.15 && (c + 0.5).abs() < 0.1);
    }

    #[test]
    fn anticorrelated_scores_give_a_constant() {
        let cases: Vec<BinaryCase> = (-20..20)
            .map(|i| BinaryCase {
                log_odds: f64::from(i) / 5.0,
                weight: 1.0,
                positive: i < 0 && i % 3 != 0,
            })
            .collect();
        let [a, b, c] =
            regress_increasing(&Examples::of_log_probabilities(&cases, Targets::Labels));
        assert_eq!((a, b), (0.0, 0.0));
        let fraction = cases.iter().filter(|case| case.positive).count() as f64 / 40.0;
        assert!((logistic(c) - fraction).abs() < 1e-9);
    }
}

//! Beta calibration, one class against the rest (Kull et al., 2017).

use super::platt::LogisticRegression;
use crate::methods::regression::{Examples, regress};

/// Beta calibration: σ(a ln p − b ln(1 − p) + c) of each class's probability p, with a, b ≥ 0; then rows are normalised.
/// Predictions may change.
///
/// a, b and c are learned by logistic regression of the class against the rest, or once for two classes. If the
/// probabilities of a classifier have a beta distribution given the class, the true map has this form; a = b = 1 and c = 0
/// is the identity. The normalised row is mixed with the uniform distribution of weight `smoothing`/(n + 1) for n rows.
///
/// M. Kull, T. Silva Filho, P. Flach: *Beta calibration: a well-founded and easily implemented improvement on
/// logistic calibration for binary classifiers*, AISTATS 2017.
pub type Beta = LogisticRegression<2>;

/// Minimises the loss over a, b ≥ 0 and c. The problem is convex, so if the unconstrained optimum has a negative
/// coefficient, the constrained one has a = 0 or b = 0.
pub(super) fn regress_increasing(examples: &Examples) -> [f64; 3] {
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
    use crate::methods::regression::Targets;
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

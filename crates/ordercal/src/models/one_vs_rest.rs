//! Models that calibrate each class against the rest and normalise the results to one distribution.

use super::check;
use super::form::{RowBlock, count_unmasked};
use crate::error::Result;
use crate::math::softmax;
use crate::rank::argmax;

/// The bound to which log-odds are clamped. e⁻⁵⁰⁰ is practically 0, and log-odds of ±1e30 would dominate a regression.
pub(crate) const MAX_LOG_ODDS: f64 = 500.0;

/// Maps from a class's log-odds ℓ = ln(p/(1 − p)) to its calibrated probability, one map per class.
pub(crate) trait ClassMap {
    /// The calibrated probability of the map's class.
    fn probability(&self, map: usize, log_odds: f64) -> f64;
}

/// The number of maps for K classes: K, or one for a binary problem, that of the second class.
pub(crate) fn map_count(classes: usize) -> usize {
    if classes == 2 { 1 } else { classes }
}

/// Writes the log-odds of every class under softmax(scores), x_k − ln Σ_{j≠k} e^(x_j), clamped to ±[`MAX_LOG_ODDS`]; `-inf`
/// for masked classes.
pub(crate) fn write_log_odds(scores: &[f32], log_odds: &mut [f64]) {
    let top = argmax(scores);
    let highest = f64::from(scores[top]);
    for (log_odds, &score) in log_odds.iter_mut().zip(scores) {
        *log_odds = f64::from(score);
    }
    // The top class separately, because 1 − p suffers from cancellation if p is close to 1.
    log_odds[top] = f64::NEG_INFINITY;
    let second = log_odds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top_log_odds = if second > f64::NEG_INFINITY {
        let (_, rest) = softmax::exponentials(log_odds);
        highest - second - rest.ln()
    } else {
        f64::INFINITY
    };
    // The sum of e^(x_j − x_top) over all classes; `log_odds` holds the terms for now.
    let mut total = 1.0;
    for (class, (term, &score)) in log_odds.iter_mut().zip(scores).enumerate() {
        *term = if class == top {
            0.0
        } else {
            (f64::from(score) - highest).exp()
        };
        total += *term;
    }
    for (class, (log_odds, &score)) in log_odds.iter_mut().zip(scores).enumerate() {
        *log_odds = if class == top {
            top_log_odds.min(MAX_LOG_ODDS)
        } else if score > f32::NEG_INFINITY {
            let log = (f64::from(score) - highest) - (total - *log_odds).ln();
            log.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)
        } else {
            f64::NEG_INFINITY
        };
    }
}

/// Writes the logits of a block of rows: the maps of the classes, normalised and smoothed.
///
/// The probabilities of a row are divided by their sum; if it is 0, the row becomes uniform. Then the uniform distribution
/// over the unmasked classes is mixed in with the weight `uniform_weight`, because maps learned by counting can be 0, and
/// a label of probability 0 has an infinite NLL.
pub(crate) fn write_logits(
    model: &impl ClassMap,
    uniform_weight: f64,
    block: &RowBlock<'_>,
    logits: &mut [f64],
) {
    let classes = block.classes;
    let mut log_odds = vec![0.0; classes];
    for (row, probs) in logits.chunks_exact_mut(classes).enumerate() {
        let scores = block.row(row);
        write_log_odds(scores, &mut log_odds);
        let unmasked = count_unmasked(scores);
        if classes == 2 && unmasked == 2 {
            let second = model.probability(0, log_odds[1]);
            probs.copy_from_slice(&[1.0 - second, second]);
        } else {
            for (class, (p, &log_odds)) in probs.iter_mut().zip(&log_odds).enumerate() {
                *p = if log_odds == f64::NEG_INFINITY {
                    0.0
                } else if unmasked == 1 {
                    1.0
                } else {
                    model.probability(class, log_odds)
                };
            }
        }
        let total: f64 = probs.iter().sum();
        let uniform = 1.0 / unmasked as f64;
        for (p, &score) in probs.iter_mut().zip(scores) {
            if score == f32::NEG_INFINITY {
                *p = f64::NEG_INFINITY;
                continue;
            }
            let normalised = if total > 0.0 { *p / total } else { uniform };
            *p = ((1.0 - uniform_weight) * normalised + uniform_weight * uniform).ln();
        }
    }
}

/// Validates a stored weight of the uniform distribution, which files call `share`.
pub(super) fn check_share(share: f64) -> Result<()> {
    let good = share > 0.0 && share <= 1.0;
    check(good, "share", share, "a number above 0 and up to 1")
}

/// The logistic function: the probability with the given log-odds.
pub(crate) fn logistic(log_odds: f64) -> f64 {
    let e = (-log_odds.abs()).exp();
    let larger = 1.0 / (1.0 + e);
    if log_odds < 0.0 { e * larger } else { larger }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_odds_agree_with_the_definition() {
        let mut rng = crate::rng::Rng::new(91);
        for classes in [2, 3, 10] {
            let mut scores: Vec<f32> = (0..classes).map(|_| rng.normal() as f32 * 3.0).collect();
            if classes == 10 {
                scores[4] = f32::NEG_INFINITY;
            }
            let mut log_odds = vec![0.0; classes];
            write_log_odds(&scores, &mut log_odds);
            for class in 0..classes {
                let others = (0..classes).filter(|&c| c != class);
                let rest: f64 = others.map(|c| f64::from(scores[c]).exp()).sum();
                let expected = f64::from(scores[class]) - rest.ln();
                assert!(
                    (log_odds[class] - expected).abs() < 1e-9 || log_odds[class] == expected,
                    "{log_odds:?}"
                );
            }
        }
    }

    #[test]
    fn log_odds_stay_exact_where_probabilities_round_to_one() {
        let (max, masked) = (MAX_LOG_ODDS, f64::NEG_INFINITY);
        let mut log_odds = [0.0; 3];
        write_log_odds(&[100.0, 0.0, 0.0], &mut log_odds);
        assert!((log_odds[0] - (100.0 - 2_f64.ln())).abs() < 1e-12);
        write_log_odds(&[1e30, -1e30, f32::NEG_INFINITY], &mut log_odds);
        assert_eq!(log_odds, [max, -max, masked]);
        write_log_odds(&[f32::NEG_INFINITY, 5.0, f32::NEG_INFINITY], &mut log_odds);
        assert_eq!(log_odds, [masked, max, masked]);
    }

    struct Zero;

    impl ClassMap for Zero {
        fn probability(&self, _: usize, _: f64) -> f64 {
            0.0
        }
    }

    #[test]
    fn a_row_of_zeros_becomes_uniform_and_no_probability_is_zero() {
        let scores = [1.0_f32, 2.0, f32::NEG_INFINITY];
        let block = RowBlock {
            scores: &scores,
            order: &[],
            classes: 3,
        };
        let mut logits = [0.0; 3];
        write_logits(&Zero, 0.1, &block, &mut logits);
        assert_eq!(logits, [0.5_f64.ln(), 0.5_f64.ln(), f64::NEG_INFINITY]);
        // For two classes, the map gives the second probability, and the first is its complement.
        let block = RowBlock {
            scores: &scores[..2],
            order: &[],
            classes: 2,
        };
        let mut logits = [0.0; 2];
        write_logits(&Zero, 0.1, &block, &mut logits);
        assert!((logits[0].exp() - 0.95).abs() < 1e-12 && (logits[1].exp() - 0.05).abs() < 1e-12);
    }
}

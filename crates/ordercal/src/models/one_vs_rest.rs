//! Each class against the rest, and back to one distribution: what class-by-class forms share.

use super::check;
use super::form::RowBlock;
use crate::error::Result;
use crate::math::softmax;

/// Log-odds beyond this are held there: e⁻⁵⁰⁰ is as good as 0, and ±1e30 would drown every other row.
pub(crate) const MOST_ODDS: f64 = 500.0;

/// A map from a class's log-odds ℓ = ln(p/(1 − p)) to its calibrated probability.
pub(crate) trait ClassMap {
    /// The probability of the given map's class.
    fn probability(&self, map: usize, log_odds: f64) -> f64;
}

/// How many maps K classes need: a binary problem has one, for the second class.
pub(crate) fn maps(classes: usize) -> usize {
    if classes == 2 { 1 } else { classes }
}

/// The log-odds of every class under softmax(scores): x_k − ln Σ_{j≠k} e^(x_j), held within ±[`MOST_ODDS`].
/// `-inf` for masked classes.
pub(crate) fn log_odds(scores: &[f32], odds: &mut [f64]) {
    let mut top = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[top] {
            top = class;
        }
    }
    let highest = f64::from(scores[top]);
    let second = scores
        .iter()
        .enumerate()
        .filter(|(class, _)| *class != top)
        .fold(f64::NEG_INFINITY, |m, (_, &s)| m.max(f64::from(s)));
    for (odds, &score) in odds.iter_mut().zip(scores) {
        *odds = f64::from(score);
    }
    // The top class on its own: 1 − p would cancel for it, and for no other.
    odds[top] = f64::NEG_INFINITY;
    let top_odds = if second > f64::NEG_INFINITY {
        let (_, rest) = softmax::exponentials(odds);
        highest - second - rest.ln()
    } else {
        f64::INFINITY
    };
    let mut others = 1.0;
    for (class, (odds, &score)) in odds.iter_mut().zip(scores).enumerate() {
        *odds = if class == top {
            0.0
        } else {
            (f64::from(score) - highest).exp()
        };
        others += *odds;
    }
    for (class, (odds, &score)) in odds.iter_mut().zip(scores).enumerate() {
        *odds = if class == top {
            top_odds.min(MOST_ODDS)
        } else if score > f32::NEG_INFINITY {
            let log = (f64::from(score) - highest) - (others - *odds).ln();
            log.clamp(-MOST_ODDS, MOST_ODDS)
        } else {
            f64::NEG_INFINITY
        };
    }
}

/// Writes the logits of a block: each class by its map, normalised, smoothed.
///
/// A row's probabilities are divided by their sum; if that is 0 the row becomes uniform. Then a `share` of
/// the uniform distribution over the possible classes is mixed in: maps learned by counting do say 0,
/// and the NLL of a single label there would be infinite.
pub(crate) fn write_logits(
    model: &impl ClassMap,
    share: f64,
    block: &RowBlock<'_>,
    logits: &mut [f64],
) {
    let classes = block.classes;
    let mut odds = vec![0.0; classes];
    for (row, probs) in logits.chunks_exact_mut(classes).enumerate() {
        let scores = block.row(row);
        log_odds(scores, &mut odds);
        let possible = scores.iter().filter(|s| **s > f32::NEG_INFINITY).count();
        if classes == 2 && possible == 2 {
            let second = model.probability(0, odds[1]);
            probs.copy_from_slice(&[1.0 - second, second]);
        } else {
            for (class, (p, &odds)) in probs.iter_mut().zip(&odds).enumerate() {
                *p = if odds == f64::NEG_INFINITY {
                    0.0
                } else if possible == 1 {
                    1.0
                } else {
                    model.probability(class, odds)
                };
            }
        }
        let total: f64 = probs.iter().sum();
        let uniform = 1.0 / possible as f64;
        for (p, &score) in probs.iter_mut().zip(scores) {
            if score == f32::NEG_INFINITY {
                *p = f64::NEG_INFINITY;
                continue;
            }
            let normalised = if total > 0.0 { *p / total } else { uniform };
            *p = ((1.0 - share) * normalised + share * uniform).ln();
        }
    }
}

/// Checks a stored share.
pub(super) fn check_share(share: f64) -> Result<()> {
    let good = share > 0.0 && share <= 1.0;
    check(good, "share", share, "a share above 0 and up to 1")
}

/// p of log-odds: the logistic function.
pub(crate) fn logistic(log_odds: f64) -> f64 {
    let e = (-log_odds.abs()).exp();
    let large_side = 1.0 / (1.0 + e);
    if log_odds < 0.0 {
        e * large_side
    } else {
        large_side
    }
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
            let mut odds = vec![0.0; classes];
            log_odds(&scores, &mut odds);
            for class in 0..classes {
                let others = (0..classes).filter(|&c| c != class);
                let rest: f64 = others.map(|c| f64::from(scores[c]).exp()).sum();
                let expected = f64::from(scores[class]) - rest.ln();
                assert!(
                    (odds[class] - expected).abs() < 1e-9 || odds[class] == expected,
                    "{odds:?}"
                );
            }
        }
    }

    #[test]
    fn log_odds_stay_exact_where_probabilities_round_to_one() {
        let mut odds = [0.0; 3];
        log_odds(&[100.0, 0.0, 0.0], &mut odds);
        assert!((odds[0] - (100.0 - 2_f64.ln())).abs() < 1e-12, "{odds:?}");
        log_odds(&[1e30, -1e30, f32::NEG_INFINITY], &mut odds);
        assert_eq!(odds, [MOST_ODDS, -MOST_ODDS, f64::NEG_INFINITY]);
        log_odds(&[f32::NEG_INFINITY, 5.0, f32::NEG_INFINITY], &mut odds);
        assert_eq!(odds, [f64::NEG_INFINITY, MOST_ODDS, f64::NEG_INFINITY]);
    }

    struct Nothing;

    impl ClassMap for Nothing {
        fn probability(&self, _: usize, _: f64) -> f64 {
            0.0
        }
    }

    #[test]
    fn a_row_of_zeros_becomes_uniform_and_nothing_is_zero() {
        let scores = [1.0_f32, 2.0, f32::NEG_INFINITY];
        let block = RowBlock {
            scores: &scores,
            order: &[],
            classes: 3,
        };
        let mut logits = [0.0; 3];
        write_logits(&Nothing, 0.1, &block, &mut logits);
        assert_eq!(logits, [0.5_f64.ln(), 0.5_f64.ln(), f64::NEG_INFINITY]);
        // Two classes: the map is the second's, and the first has the rest.
        let block = RowBlock {
            scores: &scores[..2],
            order: &[],
            classes: 2,
        };
        let mut logits = [0.0; 2];
        write_logits(&Nothing, 0.1, &block, &mut logits);
        assert!((logits[0].exp() - 0.95).abs() < 1e-12 && (logits[1].exp() - 0.05).abs() < 1e-12);
    }
}

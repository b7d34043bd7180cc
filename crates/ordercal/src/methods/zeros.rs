//! Probabilities of exactly zero, and what is as good as zero.
//!
//! Forests, nearest neighbours, naive Bayes and many text models give probabilities of exactly 0, often to the class
//! that turns out to be right. Such a zero does not mean "impossible": it means "less than the smallest that the source
//! could say". Read as a logarithm it is a score that is tens or hundreds below the others, and a single one on a
//! label would rule the likelihood of every map that multiplies scores.
//!
//! What a zero means is stated here, once for every method: **a probability of at most [`SMALLEST`] counts as zero**,
//! whether it came as a probability of 0, as the logarithm of one, or as a logit. It is
//! the smallest normal 32-bit number, so what counts as zero is what 32-bit probabilities cannot tell from zero. Where
//! the calibration data have zeros, methods that read scores as logarithms read
//!
//! ln((1 − s)·p + s/K), p = softmax(x),
//!
//! in their place: a zero is worth s/K. The share s, a tenth at most, belongs to the data: it maximises the likelihood
//! of the labels after temperature scaling, given one row more whose label was a surprise. The map increases with every
//! score, so it keeps the order. Data without zeros are read as they are, and so are wide scores of a network whose
//! labels are likelier under a temperature alone, the surprise included.

use rayon::prelude::*;

use super::Fitted;
use super::likelihood::plain_nll;
use super::temperature::fit_beta;
use crate::data::{Dataset, ScoreKind, Scores};
use crate::error::Result;
use crate::math::softmax;
use crate::models::{ChainModel, EtsModel, EtsParts, Model};
use crate::watch::Unwatched;

/// The largest probability that counts as zero. A probability of exactly 0 is read as this.
pub const SMALLEST: f32 = f32::MIN_POSITIVE;

/// Probabilities that were rounded may sum to a little more or less than 1.
const SLACK: f64 = 0.01;

/// The largest share of the uniform distribution that is tried. More would be better for a temperature on some
/// scores that are far off, but blurs what other methods can learn from them.
const LARGEST_SHARE: f64 = 0.1;

/// From one share that is tried to the next.
const RATIO: f64 = 0.5;

/// A learned floor.
pub(crate) struct Floor {
    model: Model,
    zeros: Zeros,
    share: f64,
}

/// The zeros of some rows.
#[derive(Debug, Clone, Copy)]
struct Zeros {
    /// Rows that count and have a class at zero.
    rows: usize,
    /// Those whose label is at zero.
    labels: usize,
    /// How far the lowest score is below the top of its row.
    depth: f32,
}

impl Floor {
    /// Learns the floor; nothing for data without zeros.
    pub(crate) fn learn(data: &Dataset<'_>) -> Result<Option<Self>> {
        let zeros = count(data);
        if zeros.rows == 0 {
            return Ok(None);
        }
        let total = data.total_weight();
        // Wide scores that a temperature brings into range are no zeros: nothing is lost by reading them as they are.
        let (beta, plain) = fit_beta(data, &Unwatched)?;
        let as_they_are = total * plain.nll_after + beta * f64::from(zeros.depth);
        let mut best: Option<(f64, f64)> = None;
        let mut share = LARGEST_SHARE;
        while best.is_none() || share > 0.5 / (total + 1.0) {
            let (_, fit) = fit_beta(
                &read(&with_share(data.classes(), share)?, data)?,
                &Unwatched,
            )?;
            let value = total * fit.nll_after - share.ln();
            if best.is_none_or(|(least, _)| value < least) {
                best = Some((value, share));
            }
            share *= RATIO;
        }
        let (value, share) = best.expect("at least one share is tried");
        if as_they_are <= value {
            return Ok(None);
        }
        Ok(Some(Self {
            model: with_share(data.classes(), share)?,
            zeros,
            share,
        }))
    }

    /// The data as methods read them.
    pub(crate) fn read(&self, data: &Dataset<'_>) -> Result<Dataset<'static>> {
        read(&self.model, data)
    }

    /// The map itself.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// What there is to say of the zeros.
    pub(crate) fn note(&self, data: &Dataset<'_>) -> String {
        let verb = if self.zeros.rows == 1 { "has" } else { "have" };
        format!(
            "{} of {} rows {verb} a class of probability 0, and in {} of them it was the right one: zeros are read as {:.1e}",
            self.zeros.rows,
            data.rows(),
            self.zeros.labels,
            self.share / data.classes() as f64
        )
    }

    /// The floor with a model behind it that was fitted to what it gives.
    pub(crate) fn before(self, then: Fitted, data: &Dataset<'_>) -> Result<Fitted> {
        let mut report = then.report;
        report.nll_before = plain_nll(data);
        report.notes.push(self.note(data));
        Ok(Fitted {
            model: ChainModel::new(self.model, then.model)?.into(),
            report,
        })
    }
}

fn with_share(classes: usize, share: f64) -> Result<Model> {
    let parts = EtsParts {
        classes,
        beta: 1.0,
        weights: [0.0, 1.0 - share, share],
    };
    Ok(EtsModel::from_parts(parts)?.into())
}

fn read(model: &Model, data: &Dataset<'_>) -> Result<Dataset<'static>> {
    let logs = model.apply::<f32>(data.scores(), ScoreKind::LogProbs)?;
    data.with_scores(Scores::new(ScoreKind::LogProbs, logs)?.into_owned())
}

/// Counts the zeros.
fn count(data: &Dataset<'_>) -> Zeros {
    let depth = f64::from(SMALLEST).ln() + SLACK;
    // No log-sum-exp is further above the largest score, and rounding counts for less than 1.
    let most = (data.classes() as f64).ln() + 1.0;
    let rows = data.scores().as_slice().par_chunks(data.classes());
    let (rows, labels, depth) = rows
        .enumerate()
        .filter(|(row, _)| data.weight(*row) > 0.0)
        .map(|(row, scores)| {
            let (top, lowest) = softmax::range(scores);
            let below = (top - lowest).min(f32::MAX);
            if lowest > (f64::from(top) + most + depth) as f32 {
                return (0, 0, below);
            }
            let least = (softmax::log_sum_exp(scores) + depth) as f32;
            let zero = |score: f32| score > f32::NEG_INFINITY && score <= least;
            let any = scores.iter().any(|&score| zero(score));
            let label = zero(scores[data.labels()[row] as usize]);
            (usize::from(any), usize::from(label), below)
        })
        .reduce(|| (0, 0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2.max(b.2)));
    Zeros {
        rows,
        labels,
        depth,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Method;
    use crate::rng::Rng;
    use ndarray::Array2;

    /// Rows of which every other is certain, wrongly one time in ten.
    fn certain(zero: f32) -> Dataset<'static> {
        let mut rng = Rng::new(4);
        let mut labels = Vec::new();
        let logits = Array2::from_shape_fn((400, 3), |(row, class)| {
            if class == 0 {
                let wrong = rng.uniform() < 0.1;
                labels.push(u32::from(wrong));
                0.0
            } else if row % 2 == 0 {
                zero
            } else {
                -2.0 - rng.uniform() as f32
            }
        });
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap().into_owned();
        Dataset::new(scores, &labels).unwrap()
    }

    #[test]
    fn zeros_do_not_ruin_a_temperature() {
        let data = certain(-690.0);
        for key in ["ts", "diag", "oi", "op", "vs", "sms"] {
            let fitted = Method::from_key(key).unwrap().fit(&data).unwrap();
            let report = &fitted.report;
            assert!(report.nll_after < 0.5, "{key}: {report:?}");
            assert!(report.notes.join(" ").contains("of probability 0"), "{key}");
            let row: Vec<f64> = fitted
                .model
                .apply_row(&[0.0, -690.0, -691.0], ScoreKind::Probs)
                .unwrap();
            assert!((0.8..0.99).contains(&row[0]), "{key}: {row:?}");
            if fitted.model.order_preserving() {
                assert!(row[1] > row[2], "{key}: {row:?}");
            }
        }
    }

    #[test]
    fn probabilities_of_exactly_zero_are_zeros() {
        let logits = certain(-690.0);
        let probs = logits.scores().as_slice().chunks_exact(3).flat_map(|row| {
            let powers: Vec<f32> = row.iter().map(|x| x.exp()).collect();
            let sum: f32 = powers.iter().sum();
            powers.into_iter().map(move |p| p / sum)
        });
        let probs = Array2::from_shape_vec((400, 3), probs.collect()).unwrap();
        assert!(probs.iter().any(|&p| p == 0.0));
        let scores = Scores::new(ScoreKind::Probs, probs).unwrap();
        let given = Dataset::new(scores, logits.labels()).unwrap();
        let fit = |data| Method::from_key("ts").unwrap().fit(data).unwrap().report;
        let (found, expected) = (fit(&given), fit(&logits));
        assert!((found.nll_after - expected.nll_after).abs() < 1e-6);
        assert_eq!(found.notes, expected.notes);
    }

    #[test]
    fn how_small_a_zero_is_makes_no_difference() {
        let nll = |zero: f32| {
            let data = certain(zero);
            Method::from_key("ts")
                .unwrap()
                .fit(&data)
                .unwrap()
                .report
                .nll_after
        };
        assert!((nll(-690.0) - nll(-95.0)).abs() < 1e-6);
    }

    #[test]
    fn data_without_zeros_are_read_as_they_are() {
        assert!(Floor::learn(&certain(-80.0)).unwrap().is_none());
    }
}

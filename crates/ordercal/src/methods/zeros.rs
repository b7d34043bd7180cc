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

/// The zeros of calibration data.
pub(crate) struct Zeros {
    /// Rows with a class at zero, and rows whose label was.
    rows: usize,
    labels: usize,
    /// The map that they are read through, and its share s; `None` if they are read as they are.
    floor: Option<(Model, f64)>,
}

impl Zeros {
    /// Counts zeros and learns the floor; nothing for data without zeros.
    pub(crate) fn learn(data: &Dataset<'_>) -> Result<Option<Self>> {
        let (rows, labels, depth) = count(data);
        if rows == 0 {
            return Ok(None);
        }
        let total = data.total_weight();
        // Wide scores that a temperature brings into range are no zeros: nothing is lost by reading them as they are.
        let (beta, plain) = fit_beta(data, &Unwatched)?;
        let as_they_are = total * plain.nll_after + beta * f64::from(depth);
        let mut best: Option<(f64, f64, Model)> = None;
        let mut share = LARGEST_SHARE;
        while best.is_none() || share > 0.5 / (total + 1.0) {
            let model = with_share(data.classes(), share)?;
            let (_, fit) = fit_beta(&read(&model, data)?, &Unwatched)?;
            let value = total * fit.nll_after - share.ln();
            if best.as_ref().is_none_or(|(least, ..)| value < *least) {
                best = Some((value, share, model));
            }
            share *= RATIO;
        }
        let (value, share, model) = best.expect("at least one share is tried");
        let floor = (as_they_are > value).then_some((model, share));
        // Of logits, what is not worth a floor is a wide score and no zero.
        if floor.is_none() && data.scores().kind() == ScoreKind::Logits {
            return Ok(None);
        }
        Ok(Some(Self {
            rows,
            labels,
            floor,
        }))
    }

    /// The data as methods read them; `None` if that is as they are.
    pub(crate) fn read(&self, data: &Dataset<'_>) -> Result<Option<Dataset<'static>>> {
        self.floor().map(|floor| read(floor, data)).transpose()
    }

    /// The map that zeros are read through, if they are not read as they are.
    pub(crate) fn floor(&self) -> Option<&Model> {
        self.floor.as_ref().map(|(model, _)| model)
    }

    /// What there is to say of the zeros.
    pub(crate) fn note(&self, data: &Dataset<'_>) -> String {
        let verb = if self.rows == 1 { "has" } else { "have" };
        let how = match &self.floor {
            Some((_, share)) => format!("zeros are read as {:.1e}", share / data.classes() as f64),
            None => "these are likelier as they are than with a floor".to_owned(),
        };
        format!(
            "{} of {} rows {verb} a class of probability 0, and in {} of them it was the right one: {how}",
            self.rows,
            data.rows(),
            self.labels,
        )
    }

    /// What a fit to the data as they are read came to, as a model of the data as they are.
    pub(crate) fn before(&self, mut fitted: Fitted, data: &Dataset<'_>) -> Result<Fitted> {
        if let Some(floor) = self.floor() {
            fitted.model = ChainModel::new(floor.clone(), fitted.model)?.into();
            fitted.report.nll_before = plain_nll(data);
        }
        fitted.report.notes.push(self.note(data));
        Ok(fitted)
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

/// Rows that count and have a class at zero, how many of their labels are, and how far the lowest is below the top.
fn count(data: &Dataset<'_>) -> (usize, usize, f32) {
    let depth = f64::from(SMALLEST).ln() + SLACK;
    let rows = data.scores().as_slice().par_chunks(data.classes());
    rows.enumerate()
        .filter(|(row, _)| data.weight(*row) > 0.0)
        .map(|(row, scores)| {
            let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let least = (softmax::log_sum_exp(scores) + depth) as f32;
            let zero = |score: f32| score > f32::NEG_INFINITY && score <= least;
            let any = scores.iter().any(|&score| zero(score));
            let label = zero(scores[data.labels()[row] as usize]);
            let possible = scores.iter().filter(|s| **s > f32::NEG_INFINITY);
            let lowest = possible.fold(top, |lowest, &score| lowest.min(score));
            let below = (top - lowest).min(f32::MAX);
            (usize::from(any), usize::from(label), below)
        })
        .reduce(|| (0, 0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2.max(b.2)))
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
        assert!(Zeros::learn(&certain(-80.0)).unwrap().is_none());
    }

    #[test]
    fn zeros_that_are_read_as_they_are_are_counted_too() {
        // Far too sure, but by the same factor everywhere, so that a temperature reads zeros best.
        let mut rng = Rng::new(8);
        let (mut logs, mut labels) = (Array2::zeros((400, 2)), Vec::new());
        for mut row in logs.outer_iter_mut() {
            let below = 5.0 + 95.0 * rng.uniform();
            row[0] = (-(-below).exp()).ln_1p() as f32;
            row[1] = -below as f32;
            let wrong = rng.uniform() < 1.0 / (1.0 + (0.03 * below).exp());
            labels.push(u32::from(wrong));
        }
        let data = |kind| Dataset::new(Scores::new(kind, logs.view()).unwrap(), &labels).unwrap();
        let notes = |data: &Dataset<'_>| {
            let fitted = Method::from_key("ts").unwrap().fit(data).unwrap();
            fitted.report.notes.join(" ")
        };
        let said = notes(&data(ScoreKind::LogProbs));
        assert!(
            said.contains("of 400 rows have a class of probability 0"),
            "{said}"
        );
        assert!(said.contains("likelier as they are"), "{said}");
        assert_eq!(notes(&data(ScoreKind::Logits)), "");
    }
}

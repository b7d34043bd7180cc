//! Temperature scaling: f(x) = βx with one positive inverse temperature β = 1/T (Guo et al., 2017).

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::apply::Block;
use crate::data::Dataset;
use crate::error::Result;
use crate::math::exp::exp_f32;
use crate::math::simd::vectorized;
use crate::optim::StopReason;
use crate::optim::scalar::{self, Local};
use crate::traits::{Calibrator, FitReport, Transform, Watch, tell};

/// The bounds of β times the data's spread: the median, over the rows that are not flat, of the largest
/// score less the row's mean. β = 1 is always within the bounds, so a fit never does harm.
///
/// On separable data (every label is its row's top score) the likelihood grows for ever with β; the fit
/// stops at the upper bound and reports [`StopReason::UpperBound`]. There an ordinary row is as good as
/// certain, so nothing is lost by not going further. Likewise [`StopReason::LowerBound`] for scores that
/// say nothing about the labels, where the output is as good as uniform.
pub const SPREAD_BOUNDS: (f64, f64) = (1e-3, 1e2);

/// How closely ln β is determined.
const TOLERANCE: f64 = 1e-7;

/// Rows per partial sum; fixed, so that sums do not depend on the number of threads.
const ROWS: usize = 256;

/// Temperature scaling: minimises the NLL of softmax(βx) over β > 0.
///
/// The NLL has a single valley in β. Newton's method in ln β, kept in a bracket, finds it to 1e-7 in a
/// handful of passes; β can never be negative. On data where the minimum lies at infinity or zero, see
/// [`SPREAD_BOUNDS`].
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Ts};
///
/// let logits = array![[9.0_f32, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]];
/// let scores = Scores::new(ScoreKind::Logits, logits.view())?;
/// let data = Dataset::new(scores.clone(), &[0, 0, 0, 1])?;
/// let fitted = Method::from(Ts::default()).fit(&data)?;
/// // The first class is right three times in four, and that is what it now says.
/// let probs = fitted.model.apply::<f64>(&scores, ScoreKind::Probs)?;
/// assert!((probs[[0, 0]] - 0.75).abs() < 1e-6);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ts {}

/// A fitted temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct TsModel {
    classes: usize,
    beta: f64,
}

impl TsModel {
    /// A model with a given inverse temperature β > 0.
    pub fn new(classes: usize, beta: f64) -> Self {
        assert!(
            beta > 0.0 && beta.is_finite(),
            "an inverse temperature is positive"
        );
        Self { classes, beta }
    }

    /// β, what logits are multiplied by.
    pub fn inverse_temperature(&self) -> f64 {
        self.beta
    }

    /// T = 1/β, what logits are divided by.
    pub fn temperature(&self) -> f64 {
        1.0 / self.beta
    }
}

impl Transform for TsModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        for (logit, &score) in logits.iter_mut().zip(block.scores) {
            *logit = self.beta * f64::from(score);
        }
    }
}

impl Calibrator for Ts {
    type Model = TsModel;

    fn key(&self) -> &'static str {
        "ts"
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(TsModel, FitReport)> {
        let (beta, report) = fit_beta(data, watch)?;
        Ok((TsModel::new(data.classes(), beta), report))
    }
}

/// Finds β. Other families start from it.
pub(crate) fn fit_beta(data: &Dataset<'_>, watch: &dyn Watch) -> Result<(f64, FitReport)> {
    let spread = spread(data);
    let before = mean_nll(data, 1.0);
    if spread == 0.0 {
        // Every row is flat: all temperatures give the uniform distribution.
        let report = FitReport {
            iterations: 0,
            evaluations: 2,
            loss: before.value,
            nll_before: before.value,
            nll_after: before.value,
            stop: StopReason::Nothing,
            notes: Vec::new(),
        };
        return Ok((1.0, report));
    }
    let low = (SPREAD_BOUNDS.0 / spread)
        .max(f64::from(f32::MIN_POSITIVE))
        .ln();
    let high = (SPREAD_BOUNDS.1 / spread).min(f64::from(f32::MAX)).ln();
    let bounds = (low.min(0.0), high.max(0.0));
    let mut steps = 0;
    let minimum = scalar::minimize(bounds, 0.0, TOLERANCE, |log_beta| {
        let beta = log_beta.exp();
        // The starting point has been looked at already.
        let at = if log_beta == 0.0 {
            before
        } else {
            mean_nll(data, beta)
        };
        tell(watch, steps, steps + 1, at.value)?;
        steps += 1;
        Ok(Local {
            value: at.value,
            slope: beta * at.slope,
            curvature: beta * beta * at.curvature + beta * at.slope,
        })
    })?;
    let report = FitReport {
        iterations: steps,
        evaluations: minimum.evaluations + 1,
        loss: minimum.value,
        nll_before: before.value,
        nll_after: minimum.value,
        stop: minimum.stop,
        notes: Vec::new(),
    };
    Ok((minimum.at.exp(), report))
}

/// The median, over the rows that count and are not flat, of the largest score less the mean of the possible ones;
/// 0 if all are flat. A median, because a single wild row must not move the bounds.
pub(crate) fn spread(data: &Dataset<'_>) -> f64 {
    let row_spread = |scores: &[f32]| {
        let (mut top, mut sum, mut count) = (f64::NEG_INFINITY, 0.0, 0.0);
        for &score in scores.iter().filter(|s| **s > f32::NEG_INFINITY) {
            top = top.max(f64::from(score));
            sum += f64::from(score);
            count += 1.0;
        }
        top - sum / count
    };
    let rows = data.scores().as_slice().par_chunks(data.classes());
    let mut spreads: Vec<f64> = rows
        .enumerate()
        .filter(|(row, _)| data.weight(*row) > 0.0)
        .map(|(_, scores)| row_spread(scores))
        .filter(|&s| s > 0.0)
        .collect();
    if spreads.is_empty() {
        return 0.0;
    }
    let middle = spreads.len() / 2;
    *spreads.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The mean NLL at β with its first two derivatives in β.
pub(crate) fn mean_nll(data: &Dataset<'_>, beta: f64) -> Local {
    let classes = data.classes();
    let sums: Vec<[f64; 3]> = chunks(data)
        .map(|(first, scores)| {
            let mut sums = [0.0; 3];
            for (row, scores) in scores.chunks_exact(classes).enumerate() {
                let row = first + row;
                let weight = data.weight(row);
                let at = row_nll(scores, beta as f32, data.labels()[row] as usize);
                for (sum, value) in sums.iter_mut().zip(at) {
                    *sum += weight * value;
                }
            }
            sums
        })
        .collect();
    let total = data.total_weight();
    let mut mean = [0.0; 3];
    for sums in sums {
        for (mean, sum) in mean.iter_mut().zip(sums) {
            *mean += sum / total;
        }
    }
    Local {
        value: mean[0],
        slope: mean[1],
        curvature: mean[2],
    }
}

/// The rows in pieces of fixed size, with the number of the first.
fn chunks<'a>(data: &'a Dataset<'_>) -> impl IndexedParallelIterator<Item = (usize, &'a [f32])> {
    data.scores()
        .as_slice()
        .par_chunks(ROWS * data.classes())
        .enumerate()
        .map(|(chunk, scores)| (chunk * ROWS, scores))
}

const LANES: usize = 16;

vectorized! {
    /// One row's NLL at β and its derivatives: with z = x − max and e = e^(βz), they are
    /// ln Σe − βz_y, the mean of z less z_y, and the variance of z, both under p = e/Σe.
    pub(super) fn row_nll(scores: &[f32], beta: f32, label: usize) -> [f64; 3] {
        let mut tops = [f32::NEG_INFINITY; LANES];
        let mut chunks = scores.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (top, &score) in tops.iter_mut().zip(chunk) {
                *top = if score > *top { score } else { *top };
            }
        }
        let mut top = f32::NEG_INFINITY;
        for &score in tops.iter().chain(chunks.remainder()) {
            top = if score > top { score } else { top };
        }

        let (mut zeroth, mut first, mut second) = ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
        let mut add = |lane: usize, score: f32| {
            // Masked classes weigh nothing, but 0 · −∞ would.
            let z = (score - top).max(f32::MIN);
            let e = f64::from(exp_f32(beta * z));
            let z = f64::from(z);
            zeroth[lane] += e;
            first[lane] += e * z;
            second[lane] += e * z * z;
        };
        let mut chunks = scores.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &score) in chunk.iter().enumerate() {
                add(lane, score);
            }
        }
        for (lane, &score) in chunks.remainder().iter().enumerate() {
            add(lane, score);
        }
        let (mut sum, mut mean, mut square) = (0.0, 0.0, 0.0);
        for lane in 0..LANES {
            sum += zeroth[lane];
            mean += first[lane];
            square += second[lane];
        }
        mean /= sum;
        square /= sum;
        let label_z = f64::from(scores[label]) - f64::from(top);
        [sum.ln() - f64::from(beta) * label_z, mean - label_z, (square - mean * mean).max(0.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn derivatives_agree_with_differences() {
        let mut rng = Rng::new(41);
        for classes in [2, 3, 16, 37, 100] {
            let mut scores: Vec<f32> = (0..classes).map(|_| (rng.normal() * 4.0) as f32).collect();
            if classes > 2 {
                scores[2] = f32::NEG_INFINITY;
            }
            let nll = |beta: f64| -> f64 {
                let possible = || scores.iter().filter(|s| s.is_finite());
                let logit = |s: f32| beta * f64::from(s);
                possible()
                    .map(|&s| (logit(s) - logit(scores[1])).exp())
                    .sum::<f64>()
                    .ln()
            };
            for beta in [0.1_f32, 0.7, 1.0, 2.5] {
                let [value, slope, curvature] = row_nll(&scores, beta, 1);
                let beta = f64::from(beta);
                let h = 1e-4;
                let (left, middle, right) = (nll(beta - h), nll(beta), nll(beta + h));
                assert!((value - middle).abs() < 1e-5, "{classes} {beta}");
                assert!(
                    (slope - (right - left) / (2.0 * h)).abs() < 1e-4,
                    "{classes} {beta}"
                );
                assert!(
                    (curvature - (right - 2.0 * middle + left) / (h * h)).abs()
                        < 1e-2 * curvature.max(0.1)
                );
            }
        }
    }

    #[test]
    fn extreme_scores_stay_finite() {
        let scores = [3e38_f32, -3e38, f32::NEG_INFINITY, 1.0];
        for beta in [1e-38_f32, 1e-3, 1.0] {
            for label in [0, 1, 3] {
                assert!(
                    row_nll(&scores, beta, label).iter().all(|v| v.is_finite()),
                    "{beta} {label}"
                );
            }
        }
    }
}

//! Temperature scaling: f(x) = βx with one positive inverse temperature β = 1/T (Guo et al., 2017).

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::apply::Block;
use crate::data::Dataset;
use crate::error::Result;
use crate::math::exp::{exp_f32, ln_f64};
use crate::math::simd::vectorized;
use crate::math::softmax;
use crate::optim::StopReason;
use crate::optim::scalar::{self, Local};
use crate::rank::Steady;
use crate::traits::{Calibrator, FitReport, Transform, Unwatched, Watch, tell};

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
/// handful of passes, of which large data see only the last: the first are made on a sample of the rows.
/// β can never be negative. On data where the minimum lies at infinity or zero, see
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

    fn reads_order(&self) -> bool {
        false
    }

    fn steady(&self) -> Option<Steady> {
        Some(Steady {
            least_slope: self.beta,
            most_slope: self.beta,
            reach: 0.0,
        })
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        multiply(block.scores, self.beta, logits);
    }
}

vectorized! {
    fn multiply(scores: &[f32], beta: f64, logits: &mut [f64]) {
        for (logit, &score) in logits.iter_mut().zip(scores) {
            *logit = beta * f64::from(score);
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
    let start = sampled(data).unwrap_or(0.0);
    let minimum = scalar::minimize(bounds, start, TOLERANCE, |log_beta| {
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

/// Rows whose minimum is a start for all.
const SAMPLE: usize = 2048;

/// ln β on a sample of the rows, where there are many more of them.
fn sampled(data: &Dataset<'_>) -> Option<f64> {
    if data.rows() < 4 * SAMPLE || data.rows() * data.classes() < 1 << 20 {
        return None;
    }
    let stride = data.rows() / SAMPLE;
    let rows: Vec<usize> = (0..SAMPLE).map(|place| place * stride).collect();
    if rows.iter().all(|&row| data.weight(row) == 0.0) {
        return None;
    }
    let found = fit_beta(&data.select(&rows), &Unwatched);
    found.ok().map(|(beta, _)| beta.ln())
}

/// The median, over the rows that count and are not flat, of the largest score less the mean of the possible ones;
/// 0 if all are flat. A median, because a single wild row must not move the bounds.
pub(crate) fn spread(data: &Dataset<'_>) -> f64 {
    let classes = data.classes();
    let mut spreads: Vec<f64> = vec![0.0; data.rows()];
    spreads
        .par_chunks_mut(ROWS)
        .zip(data.scores().as_slice().par_chunks(ROWS * classes))
        .for_each(|(spreads, scores)| row_spreads(scores, classes, spreads));
    let mut row = 0;
    spreads.retain(|&spread| {
        row += 1;
        spread > 0.0 && data.weight(row - 1) > 0.0
    });
    if spreads.is_empty() {
        return 0.0;
    }
    let middle = spreads.len() / 2;
    *spreads.select_nth_unstable_by(middle, f64::total_cmp).1
}

vectorized! {
    /// The largest score of each row less the mean of the possible ones.
    fn row_spreads(scores: &[f32], classes: usize, spreads: &mut [f64]) {
        for (scores, spread) in scores.chunks_exact(classes).zip(spreads) {
            let (mut tops, mut sums, mut counts) = ([f32::NEG_INFINITY; LANES], [0.0_f64; LANES], [0.0_f32; LANES]);
            let mut look = |lane: usize, score: f32| {
                let possible = score > f32::NEG_INFINITY;
                tops[lane] = if score > tops[lane] { score } else { tops[lane] };
                sums[lane] += f64::from(if possible { score } else { 0.0 });
                counts[lane] += if possible { 1.0 } else { 0.0 };
            };
            let mut chunks = scores.chunks_exact(LANES);
            for chunk in &mut chunks {
                for (lane, &score) in chunk.iter().enumerate() {
                    look(lane, score);
                }
            }
            for (lane, &score) in chunks.remainder().iter().enumerate() {
                look(lane, score);
            }
            let (mut top, mut sum, mut count) = (f32::NEG_INFINITY, 0.0, 0.0);
            for lane in 0..LANES {
                top = if tops[lane] > top { tops[lane] } else { top };
                sum += sums[lane];
                count += f64::from(counts[lane]);
            }
            *spread = f64::from(top) - sum / count;
        }
    }
}

/// The mean NLL at β with its first two derivatives in β.
pub(crate) fn mean_nll(data: &Dataset<'_>, beta: f64) -> Local {
    let classes = data.classes();
    let group = softmax::group(classes);
    let scores = data.scores().as_slice().par_chunks(ROWS * classes);
    let sums: Vec<[f64; 3]> = scores
        .zip(data.labels().par_chunks(ROWS))
        .enumerate()
        .map_init(
            || (vec![0.0; group * classes], vec![0.0; group * classes]),
            |(z, e), (place, (scores, labels))| {
                let first = place * ROWS;
                let weights = data
                    .weights()
                    .map_or(&[][..], |w| &w[first..][..labels.len()]);
                let mut sums = [0.0; 3];
                for start in (0..labels.len()).step_by(group) {
                    let end = (start + group).min(labels.len());
                    let part = rows_nll(
                        &scores[start * classes..end * classes],
                        beta as f32,
                        &labels[start..end],
                        weights.get(start..end).unwrap_or(&[]),
                        z,
                        e,
                    );
                    for (sum, part) in sums.iter_mut().zip(part) {
                        *sum += part;
                    }
                }
                sums
            },
        )
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

const LANES: usize = 16;

/// The sums of e, ez and ez² over a row.
#[inline(always)]
fn moments(z: &[f32], e: &[f32]) -> [f64; 3] {
    let mut moments = [0.0; 3];
    let mut rest = 0;
    if z.len() >= LANES {
        let (mut zeroth, mut first, mut second) =
            ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
        let (z_chunks, e_chunks) = (z.chunks_exact(LANES), e.chunks_exact(LANES));
        rest = z.len() - z_chunks.remainder().len();
        for (z, e) in z_chunks.zip(e_chunks) {
            for lane in 0..LANES {
                let (z, e) = (f64::from(z[lane]), f64::from(e[lane]));
                zeroth[lane] += e;
                first[lane] += e * z;
                second[lane] += e * z * z;
            }
        }
        for lane in 0..LANES {
            moments[0] += zeroth[lane];
            moments[1] += first[lane];
            moments[2] += second[lane];
        }
    }
    for (&z, &e) in z[rest..].iter().zip(&e[rest..]) {
        let (z, e) = (f64::from(z), f64::from(e));
        moments[0] += e;
        moments[1] += e * z;
        moments[2] += e * z * z;
    }
    moments
}

/// Rows below this are turned on their side: a vector holds one class of many rows.
const SHORT: usize = 24;

/// [`rows_nll`] of as many short rows as a vector has lanes, added to `sums`.
#[inline(always)]
fn tile_nll(
    scores: &[f32],
    beta: f32,
    labels: &[u32],
    weights: &[f64],
    z: &mut [f32],
    e: &mut [f32],
    sums: &mut [f64; 3],
) {
    let (z, e) = (&mut z[..scores.len()], &mut e[..scores.len()]);
    let classes = scores.len() / LANES;
    let mut tops = [f32::NEG_INFINITY; LANES];
    for (class, z) in z.chunks_exact_mut(LANES).enumerate() {
        for lane in 0..LANES {
            let score = scores[lane * classes + class];
            z[lane] = score;
            tops[lane] = if score > tops[lane] {
                score
            } else {
                tops[lane]
            };
        }
    }
    let (mut zeroth, mut first, mut second) =
        ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
    for (z, e) in z.chunks_exact_mut(LANES).zip(e.chunks_exact_mut(LANES)) {
        for lane in 0..LANES {
            // Masked classes weigh nothing, but 0 · −∞ would.
            z[lane] = (z[lane] - tops[lane]).max(f32::MIN);
            e[lane] = exp_f32(beta * z[lane]);
        }
        for lane in 0..LANES {
            let (z, e) = (f64::from(z[lane]), f64::from(e[lane]));
            zeroth[lane] += e;
            first[lane] += e * z;
            second[lane] += e * z * z;
        }
    }
    let mut label_z = [0.0_f64; LANES];
    for lane in 0..LANES {
        label_z[lane] = f64::from(z[labels[lane] as usize * LANES + lane]);
    }
    let mut at = [[0.0_f64; LANES]; 3];
    for lane in 0..LANES {
        let (mean, square) = (first[lane] / zeroth[lane], second[lane] / zeroth[lane]);
        let variance = square - mean * mean;
        at[0][lane] = weights[lane] * (ln_f64(zeroth[lane]) - f64::from(beta) * label_z[lane]);
        at[1][lane] = weights[lane] * (mean - label_z[lane]);
        at[2][lane] = weights[lane] * if variance > 0.0 { variance } else { 0.0 };
    }
    for (sum, at) in sums.iter_mut().zip(at) {
        for value in at {
            *sum += value;
        }
    }
}

/// Logarithms of sums up to a product of this are taken together.
const LARGE: f64 = 1e200;

vectorized! {
    /// The NLL of some rows at β and its derivatives, all summed over the rows with their weights (1 if there
    /// are none): with z = x − max and e = e^(βz), they are ln Σe − βz_y, the mean of z less z_y, and the
    /// variance of z, both under p = e/Σe. `z` and `e` have room for all rows.
    pub(super) fn rows_nll(
        scores: &[f32],
        beta: f32,
        labels: &[u32],
        weights: &[f64],
        z: &mut [f32],
        e: &mut [f32],
    ) -> [f64; 3] {
        let classes = scores.len() / labels.len();
        let tiled = if classes < SHORT { labels.len() - labels.len() % LANES } else { 0 };
        let mut sums = [0.0; 3];
        for first in (0..tiled).step_by(LANES) {
            let scores = &scores[first * classes..][..LANES * classes];
            let weights = weights.get(first..first + LANES).unwrap_or(&[1.0; LANES]);
            tile_nll(scores, beta, &labels[first..first + LANES], weights, z, e, &mut sums);
        }
        let scores = &scores[tiled * classes..];
        let (labels, weights) = (&labels[tiled..], weights.get(tiled..).unwrap_or(&[]));
        let (z, e) = (&mut z[..scores.len()], &mut e[..scores.len()]);
        for (scores, z) in scores.chunks_exact(classes).zip(z.chunks_exact_mut(classes)) {
            let top = softmax::top(scores);
            for (z, &score) in z.iter_mut().zip(scores) {
                // Masked classes weigh nothing, but 0 · −∞ would.
                *z = (score - top).max(f32::MIN);
            }
        }
        // All rows at once, so that short ones fill the vectors, too.
        for (e, &z) in e.iter_mut().zip(&*z) {
            *e = exp_f32(beta * z);
        }
        let mut product = 1.0;
        for (row, (z, e)) in z.chunks_exact(classes).zip(e.chunks_exact(classes)).enumerate() {
            let [sum, first, second] = moments(z, e);
            let (mean, square) = (first / sum, second / sum);
            let label_z = f64::from(z[labels[row] as usize]);
            let at = [-f64::from(beta) * label_z, mean - label_z, (square - mean * mean).max(0.0)];
            let weight = match weights.get(row) {
                Some(&weight) => {
                    sums[0] += weight * sum.ln();
                    weight
                }
                None => {
                    // One logarithm for many rows: it would take as long as a dozen exponentials.
                    product *= sum;
                    if product > LARGE {
                        sums[0] += product.ln();
                        product = 1.0;
                    }
                    1.0
                }
            };
            for (sum, at) in sums.iter_mut().zip(at) {
                *sum += weight * at;
            }
        }
        sums[0] += product.ln();
        sums
    }
}

/// One row of that, without a weight.
pub(super) fn row_nll(
    scores: &[f32],
    beta: f32,
    label: usize,
    z: &mut [f32],
    e: &mut [f32],
) -> [f64; 3] {
    rows_nll(scores, beta, &[label as u32], &[], z, e)
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
                let (mut z, mut e) = (vec![0.0; classes], vec![0.0; classes]);
                let [value, slope, curvature] = row_nll(&scores, beta, 1, &mut z, &mut e);
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
    fn many_rows_are_the_sum_of_single_ones() {
        let mut rng = Rng::new(42);
        for classes in [2, 3, 10, 23, 24, 40] {
            for rows in [1, 15, 16, 37] {
                let mut scores: Vec<f32> = (0..rows * classes)
                    .map(|_| (rng.normal() * 4.0) as f32)
                    .collect();
                if classes > 2 {
                    scores[classes - 1] = f32::NEG_INFINITY;
                }
                let labels: Vec<u32> = (0..rows)
                    .map(|_| rng.below(classes.min(2)) as u32)
                    .collect();
                let weights: Vec<f64> = (0..rows).map(|_| rng.uniform() * 3.0).collect();
                let (mut z, mut e) = (vec![0.0; scores.len()], vec![0.0; scores.len()]);
                for weights in [&weights[..], &[]] {
                    let mut exact = [0.0; 3];
                    for (row, scores) in scores.chunks_exact(classes).enumerate() {
                        let label = labels[row] as usize;
                        let one = row_nll(scores, 0.8, label, &mut z, &mut e);
                        let weight = weights.get(row).copied().unwrap_or(1.0);
                        exact
                            .iter_mut()
                            .zip(one)
                            .for_each(|(sum, v)| *sum += weight * v);
                    }
                    let all = rows_nll(&scores, 0.8, &labels, weights, &mut z, &mut e);
                    for (all, exact) in all.iter().zip(exact) {
                        assert!((all - exact).abs() < 1e-10 * exact.abs().max(1.0));
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_scores_stay_finite() {
        let scores = [3e38_f32, -3e38, f32::NEG_INFINITY, 1.0];
        for beta in [1e-38_f32, 1e-3, 1.0] {
            for label in [0, 1, 3] {
                let (mut z, mut e) = ([0.0; 4], [0.0; 4]);
                let found = row_nll(&scores, beta, label, &mut z, &mut e);
                assert!(found.iter().all(|v| v.is_finite()), "{beta} {label}");
            }
        }
    }
}

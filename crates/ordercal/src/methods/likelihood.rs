//! The mean NLL of softmax(βx) as a function of the inverse temperature β, with its derivatives.

use rayon::prelude::*;

use crate::data::Dataset;
use crate::math::exp::{exp_f32, ln_f64};
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::math::softmax;
use crate::optim::scalar::Local;

/// Rows per partial sum; fixed, so that sums do not depend on the number of threads.
const ROWS: usize = 256;
/// Elements of a vector.
const LANES: usize = 16;

/// The mean NLL of softmax(βx) on the data, as a function of β.
pub(crate) struct Likelihood<'a> {
    data: &'a Dataset<'a>,
    /// The transposed scores, for short rows.
    tiles: Option<Tiles>,
}

impl<'a> Likelihood<'a> {
    pub(crate) fn new(data: &'a Dataset<'a>) -> Self {
        Self {
            data,
            tiles: (data.classes() < SHORT).then(|| Tiles::new(data)),
        }
    }

    /// The mean NLL at β with its first two derivatives in β.
    pub(crate) fn at(&self, beta: f64) -> Local {
        let parts = match &self.tiles {
            Some(tiles) => tiles.sums(beta as f32),
            None => long_rows(self.data, beta),
        };
        let mut all = [0.0; 3];
        for sums in parts {
            for (all, sum) in all.iter_mut().zip(sums) {
                *all += sum;
            }
        }
        let total = self.data.total_weight();
        let [value, slope, curvature] = all.map(|sum| sum / total);
        Local {
            value,
            slope,
            curvature,
        }
    }
}

/// The mean NLL of the uncalibrated scores (β = 1), in 32 bits.
pub(crate) fn plain_nll(data: &Dataset<'_>) -> f64 {
    Likelihood::new(data).at(1.0).value
}

/// Rows with fewer classes are transposed, so that a vector holds one class of several rows.
const SHORT: usize = 24;
/// The least number of scores per thread: for fewer, starting a thread takes longer than the work.
const MIN_PARALLEL: usize = 1 << 17;

/// Scores minus the maximum of their row, z = x − max, which do not depend on β.
///
/// Transposed in tiles of 16 rows: the first class of the 16 rows, then the second, and so on.
struct Tiles {
    classes: usize,
    z: Vec<f32>,
    /// z of each row's label.
    label_z: Vec<f64>,
    /// The weight of each row; 0 for the padding of the last tile.
    weights: Vec<f64>,
}

/// The z of a tile, and `label_z` and `weights` of its rows.
type TileMut<'a> = ((&'a mut [f32], &'a mut [f64]), &'a mut [f64]);

impl Tiles {
    fn new(data: &Dataset<'_>) -> Self {
        let classes = data.classes();
        let rows = data.rows().next_multiple_of(LANES);
        let mut z = vec![0.0; rows * classes];
        let mut label_z = vec![0.0; rows];
        let mut weights = vec![0.0; rows];
        let fill = |(place, ((tile, label_z), weights)): (usize, TileMut<'_>)| {
            let rows = place * LANES..data.rows().min((place + 1) * LANES);
            for (lane, row) in rows.enumerate() {
                let scores = data.scores().row(row);
                let top = softmax::top(scores);
                for (class, &score) in scores.iter().enumerate() {
                    // Finite for masked classes: their exponential is 0, and 0 · −∞ would be NaN.
                    tile[class * LANES + lane] = (score - top).max(f32::MIN);
                }
                let label = data.labels()[row] as usize;
                label_z[lane] = f64::from(tile[label * LANES + lane]);
                weights[lane] = data.weight(row);
            }
        };
        let cells = LANES * classes;
        let tiles = z.par_chunks_mut(cells).zip(label_z.par_chunks_mut(LANES));
        let tiles = tiles.zip(weights.par_chunks_mut(LANES)).enumerate();
        tiles.with_min_len(MIN_PARALLEL / cells).for_each(fill);
        Self {
            classes,
            z,
            label_z,
            weights,
        }
    }

    /// Partial sums of the NLL and its two derivatives over the rows.
    fn sums(&self, beta: f32) -> Vec<[f64; 3]> {
        let part = |(z, (label_z, weights)): (&[f32], (&[f64], &[f64]))| {
            tiles_nll(z, self.classes, beta, label_z, weights)
        };
        let cells = ROWS * self.classes;
        let labels = self.label_z.par_chunks(ROWS);
        let rows = labels.zip(self.weights.par_chunks(ROWS));
        let parts = self.z.par_chunks(cells).zip(rows);
        parts.with_min_len(MIN_PARALLEL / cells).map(part).collect()
    }
}

vectorized! {
    /// [`rows_nll`] for tiles.
    fn tiles_nll(z: &[f32], classes: usize, beta: f32, label_z: &[f64], weights: &[f64]) -> [f64; 3] {
        let mut sums = [[0.0_f64; LANES]; 3];
        let rows = label_z.chunks_exact(LANES).zip(weights.chunks_exact(LANES));
        for (z, (label_z, weights)) in z.chunks_exact(LANES * classes).zip(rows) {
            let (mut zeroth, mut first, mut second) = ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
            for z in z.chunks_exact(LANES) {
                let mut e = [0.0_f32; LANES];
                for (e, &z) in e.iter_mut().zip(z) {
                    *e = exp_f32(beta * z);
                }
                for lane in 0..LANES {
                    let (z, e) = (f64::from(z[lane]), f64::from(e[lane]));
                    zeroth[lane] += e;
                    first[lane] += e * z;
                    second[lane] += e * z * z;
                }
            }
            for lane in 0..LANES {
                let (mean, square) = (first[lane] / zeroth[lane], second[lane] / zeroth[lane]);
                let variance = square - mean * mean;
                let (label_z, weight) = (label_z[lane], weights[lane]);
                sums[0][lane] += weight * (ln_f64(zeroth[lane]) - f64::from(beta) * label_z);
                sums[1][lane] += weight * (mean - label_z);
                sums[2][lane] += weight * if variance > 0.0 { variance } else { 0.0 };
            }
        }
        sums.map(|lanes| lanes.iter().sum())
    }
}

/// Partial sums of the NLL and its two derivatives over rows that are not transposed.
fn long_rows(data: &Dataset<'_>, beta: f64) -> Vec<[f64; 3]> {
    let classes = data.classes();
    let group = softmax::group(classes);
    let scores = data.scores().as_slice().par_chunks(ROWS * classes);
    scores
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
        .collect()
}

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

vectorized! {
    /// The weighted sums of the NLL and its first two derivatives in β over some rows (weight 1 if `weights` is empty).
    ///
    /// With z = x − max, e = e^(βz) and the label y, they are ln Σe − βz_y, E(z) − z_y and Var(z), where the
    /// expectations are under p = e/Σe. `z` and `e` are scratch for all rows.
    fn rows_nll(
        scores: &[f32],
        beta: f32,
        labels: &[u32],
        weights: &[f64],
        z: &mut [f32],
        e: &mut [f32],
    ) -> [f64; 3] {
        let classes = scores.len() / labels.len();
        let (z, e) = (&mut z[..scores.len()], &mut e[..scores.len()]);
        let mut sums = [0.0; 3];
        for (scores, z) in scores.chunks_exact(classes).zip(z.chunks_exact_mut(classes)) {
            let top = softmax::top(scores);
            for (z, &score) in z.iter_mut().zip(scores) {
                // Finite for masked classes: their exponential is 0, and 0 · −∞ would be NaN.
                *z = (score - top).max(f32::MIN);
            }
        }
        // In one loop over all rows, so that rows shorter than a vector are vectorised too.
        for (e, &z) in e.iter_mut().zip(&*z) {
            *e = exp_f32(beta * z);
        }
        for (row, (z, e)) in z.chunks_exact(classes).zip(e.chunks_exact(classes)).enumerate() {
            let [sum, first, second] = moments(z, e);
            let (mean, square) = (first / sum, second / sum);
            let label_z = f64::from(z[labels[row] as usize]);
            let at = [
                ln_f64(sum) - f64::from(beta) * label_z,
                mean - label_z,
                (square - mean * mean).max(0.0),
            ];
            let weight = weights.get(row).copied().unwrap_or(1.0);
            for (sum, at) in sums.iter_mut().zip(at) {
                *sum += weight * at;
            }
        }
        sums
    }
}

/// [`rows_nll`] for a single row of weight 1.
pub(crate) fn row_nll(
    scores: &[f32],
    beta: f32,
    label: usize,
    z: &mut [f32],
    e: &mut [f32],
) -> [f64; 3] {
    rows_nll(scores, beta, &[label as u32], &[], z, e)
}

/// The spread of the scores: the median, over the rows of positive weight that are not constant, of the largest score minus
/// the mean of the unmasked ones; 0 if all rows are constant. The median is robust against outliers.
pub(crate) fn spread(data: &Dataset<'_>) -> f64 {
    let classes = data.classes();
    let mut spreads: Vec<f64> = vec![0.0; data.rows()];
    let scores = data.scores().as_slice();
    spreads
        .par_chunks_mut(ROWS)
        .zip(scores.par_chunks(ROWS * classes))
        .with_min_len(MIN_PARALLEL.div_ceil(ROWS * classes))
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
    /// The largest score of each row minus the mean of the unmasked ones.
    fn row_spreads(scores: &[f32], classes: usize, spreads: &mut [f64]) {
        for (scores, spread) in scores.chunks_exact(classes).zip(spreads) {
            let possible = |score: f32| score > f32::NEG_INFINITY;
            let add = |sum: f64, score: f32| sum + f64::from(if possible(score) { score } else { 0.0 });
            let count = |count: f64, score: f32| count + if possible(score) { 1.0 } else { 0.0 };
            let (sum, count) = if classes < SHORT {
                let all = scores.iter().copied();
                (all.clone().fold(0.0, add), all.fold(0.0, count))
            } else {
                let join = |a, b| a + b;
                (
                    lanes::fold::<32, _, _>(scores, 0.0, add, join),
                    lanes::fold::<32, _, _>(scores, 0.0, count, join),
                )
            };
            *spread = f64::from(softmax::top(scores)) - sum / count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use crate::rng::Rng;
    use ndarray::Array2;

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
    fn the_mean_over_all_rows_agrees_with_single_rows() {
        let mut rng = Rng::new(42);
        for classes in [2, 3, 10, 23, 24, 40] {
            for rows in [1, 15, 16, 37, 600] {
                let mut scores =
                    Array2::from_shape_fn((rows, classes), |_| (rng.normal() * 4.0) as f32);
                if classes > 2 {
                    scores[[0, classes - 1]] = f32::NEG_INFINITY;
                }
                let labels: Vec<u32> = (0..rows).map(|_| rng.below(2) as u32).collect();
                let weights: Vec<f64> = (0..rows).map(|_| 0.1 + rng.uniform() * 3.0).collect();
                let (mut z, mut e) = (vec![0.0; classes], vec![0.0; classes]);
                let plain = Scores::new(ScoreKind::Logits, scores.view()).unwrap();
                let plain = Dataset::new(plain, &labels).unwrap();
                for data in [plain.clone(), plain.with_weights(weights).unwrap()] {
                    let mut exact = [0.0; 3];
                    for (row, &label) in labels.iter().enumerate() {
                        let label = label as usize;
                        let one = row_nll(data.scores().row(row), 0.8, label, &mut z, &mut e);
                        let share = data.weight(row) / data.total_weight();
                        exact
                            .iter_mut()
                            .zip(one)
                            .for_each(|(sum, v)| *sum += share * v);
                    }
                    let all = Likelihood::new(&data).at(f64::from(0.8_f32));
                    for (all, exact) in [all.value, all.slope, all.curvature].iter().zip(exact) {
                        assert!(
                            (all - exact).abs() < 1e-10 * exact.abs().max(1.0),
                            "{rows} {classes}"
                        );
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

//! The two heads: the loss of a row as a function of the network's outputs, and its gradient.

use crate::math::exp::{exp_f32, multiplier_f32};
use crate::math::lanes;
use crate::math::simd::vectorized;

/// Scratch memory for one row.
#[derive(Debug, Clone)]
pub(crate) struct RowScratch {
    /// A multiple of [`LANES`].
    logits: Vec<f32>,
}

impl RowScratch {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            logits: vec![0.0; classes.next_multiple_of(LANES)],
        }
    }
}

const LANES: usize = 16;

/// Gaps are clamped to this in training. Beyond a hundred or so they make no difference to a softmax, but the gradient
/// could overflow in 32 bits.
pub(super) const MAX_GAP: f32 = 1e4;

/// Overwrites v by e^(v − shift), and returns the sum in 64 bits.
#[inline(always)]
fn exponentiate(values: &mut [f32], shift: f32) -> f64 {
    for value in values.iter_mut() {
        *value = exp_f32(*value - shift);
    }
    let add = |sum: f64, value: f32| sum + f64::from(value);
    lanes::accumulate::<LANES, _, _>(values, 0.0, add)
        .iter()
        .sum()
}

/// Running sums within a chunk. Those of several chunks overlap, whereas in a running sum over the whole row every addition
/// would wait for the one before.
#[inline(always)]
fn running_sums(values: &[f32]) -> [f64; LANES] {
    let values: &[f32; LANES] = values.try_into().expect("a whole chunk");
    let mut sum = 0.0;
    values.map(|value| {
        sum += f64::from(value);
        sum
    })
}

vectorized! {
    /// The order-preserving head: the NLL of one row in sorted space.
    ///
    /// With multipliers m = s⁺(z + c), which are 1 at z = 0, gaps d_i = `unit`·(y_i − y_{i+1}) and w = d·m, the logits
    /// relative to the largest are v_i = −Σ_{j<i} w_j, and NLL = ln Σ e^v − v_r for the label's rank r. The gradient on
    /// z_j is d_j s⁺′(z_j + c) Σ_{i≤j} (p_i − 1{i=r}), because w_j lowers all logits after position j by the same amount.
    ///
    /// `y` holds the scores in descending order, without masked classes, for which z gets no gradient. Where z is shorter
    /// than y, all gaps from the last z on share its multiplier. Returns the unweighted NLL; `z` is overwritten by
    /// `weight` times the gradient.
    pub(crate) fn sorted_row(
        z: &mut [f32],
        y: &[f32],
        unit: f32,
        label_rank: usize,
        weight: f64,
        scratch: &mut RowScratch,
    ) -> f64 {
        // The last position before the tail; without a tail, the last of the row.
        let last = (y.len() - 1).min(z.len() - 1);
        let v = &mut scratch.logits[..(last + 1).next_multiple_of(LANES)];
        let tail = Tail::new(&y[last..], z[last], unit);
        for (((v, z), &here), &next) in v.iter_mut().zip(z.iter_mut()).zip(&y[..last]).zip(&y[1..]) {
            let (m, slope) = multiplier_f32(*z);
            let gap = ((here - next) * unit).min(MAX_GAP);
            *v = gap * m;
            *z = gap * slope;
        }
        // What follows the last gap only fills the last chunk.
        v[last..].fill(0.0);
        let mut below = 0.0_f64;
        let (mut label_logit, mut last_logit) = (0.0, 0.0);
        for (place, chunk) in v.chunks_exact_mut(LANES).enumerate() {
            let (start, steps) = (below, running_sums(chunk));
            below -= steps[LANES - 1];
            let logit = |rank: usize| {
                let behind = (rank % LANES).checked_sub(1);
                start - behind.map_or(0.0, |behind| steps[behind])
            };
            if place == label_rank / LANES {
                label_logit = logit(label_rank);
            }
            if place == last / LANES {
                last_logit = logit(last);
            }
            chunk[0] = start as f32;
            for (v, step) in chunk[1..].iter_mut().zip(steps) {
                *v = (start - step) as f32;
            }
        }
        let mut sum = exponentiate(&mut v[..=last], 0.0);
        v[last + 1..].fill(0.0);
        let (tail_sum, tail_moment) = tail.sums(last_logit);
        sum += tail_sum;
        let label_distance = label_rank.checked_sub(last + 1).map(|rank| tail.distance(rank));
        if let Some(distance) = label_distance {
            label_logit = last_logit - f64::from(tail.multiplier * distance);
        }
        let scale = 1.0 / sum;
        let mut before = 0.0_f64;
        let chunks = z[..last].chunks_mut(LANES).zip(v.chunks_exact(LANES));
        for (place, (z, v)) in chunks.enumerate() {
            let masses = running_sums(v);
            // From this offset on, the sum includes the label's −1.
            let label = label_rank.saturating_sub(place * LANES);
            for (offset, (z, mass)) in z.iter_mut().zip(masses).enumerate() {
                let reached = if offset >= label { 1.0 } else { 0.0 };
                *z *= (weight * ((before + mass) * scale - reached)) as f32;
            }
            before += masses[LANES - 1];
        }
        z[last..].fill(0.0);
        let pull = f64::from(label_distance.unwrap_or(0.0)) - tail_moment * scale;
        z[last] = (weight * f64::from(tail.slope) * pull) as f32;
        sum.ln() - label_logit
    }
}

/// The scores behind the last position with a gap of its own. Their logits are v = last logit − multiplier · distance,
/// where the distance is that to the score at the last position.
struct Tail<'a> {
    first: f32,
    scores: &'a [f32],
    unit: f32,
    multiplier: f32,
    /// The derivative of the multiplier.
    slope: f32,
}

impl<'a> Tail<'a> {
    /// `y` begins with the score at the last position before the tail.
    #[inline(always)]
    fn new(y: &'a [f32], z: f32, unit: f32) -> Self {
        let (multiplier, slope) = multiplier_f32(z);
        Self {
            first: y[0],
            scores: &y[1..],
            unit,
            multiplier,
            slope,
        }
    }

    #[inline(always)]
    fn distance(&self, place: usize) -> f32 {
        ((self.first - self.scores[place]) * self.unit).min(MAX_GAP)
    }

    /// Σ e^v and Σ e^v · distance.
    #[inline(always)]
    fn sums(&self, last_logit: f64) -> (f64, f64) {
        let last_logit = last_logit as f32;
        let (mut sums, mut moments) = ([0.0_f64; LANES], [0.0_f64; LANES]);
        let mut add = |scores: &[f32]| {
            for ((sum, moment), &score) in sums.iter_mut().zip(&mut moments).zip(scores) {
                let distance = ((self.first - score) * self.unit).min(MAX_GAP);
                let power = exp_f32(last_logit - self.multiplier * distance);
                *sum += f64::from(power);
                *moment += f64::from(power * distance);
            }
        };
        let chunks = self.scores.chunks_exact(LANES);
        let rest = chunks.remainder();
        chunks.for_each(|chunk| add(<&[f32; LANES]>::try_from(chunk).expect("a whole chunk")));
        add(rest);
        (sums.iter().sum(), moments.iter().sum())
    }
}

vectorized! {
    /// The unconstrained head: z are the logits; masked classes are skipped.
    ///
    /// Returns the unweighted NLL; `z` is overwritten by `weight` times the gradient p − 1{label}.
    pub(crate) fn free_row(z: &mut [f32], scores: &[f32], label: usize, weight: f64) -> f64 {
        let mut top = f32::NEG_INFINITY;
        for (z, &score) in z.iter_mut().zip(scores) {
            *z = if score == f32::NEG_INFINITY { score } else { *z };
            top = if *z > top { *z } else { top };
        }
        let label_logit = f64::from(z[label]) - f64::from(top);
        let sum = exponentiate(z, top);
        let scale = (weight / sum) as f32;
        for z in z.iter_mut() {
            *z *= scale;
        }
        z[label] -= weight as f32;
        sum.ln() - label_logit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::exp::multiplier_f64;
    use crate::rank::{Sorter, reverse_cumsum};
    use crate::rng::Rng;

    /// Theorem 1 literally: sort, multiply, reverse cumulative sum, scatter back, softmax, NLL.
    fn plain_sorted(scores: &[f32], z: &[f64], label: usize) -> f64 {
        let classes = scores.len();
        let mut sorter = Sorter::new(classes);
        let order = sorter.sort(scores).to_vec();
        let y: Vec<f64> = order
            .iter()
            .map(|&c| f64::from(scores[c as usize]))
            .collect();
        let mut w: Vec<f64> = (0..classes)
            .map(|i| {
                if i + 1 < classes {
                    (y[i] - y[i + 1]).abs() * multiplier_f64(z[i.min(z.len() - 1)]).0
                } else {
                    0.0
                }
            })
            .collect();
        reverse_cumsum(&mut w);
        let mut f = vec![0.0; classes];
        for (position, &class) in order.iter().enumerate() {
            f[class as usize] = w[position];
        }
        f.iter().map(|v| (v - f[label]).exp()).sum::<f64>().ln()
    }

    #[test]
    fn sorted_rows_agree_with_scatter_and_softmax() {
        let mut rng = Rng::new(21);
        for classes in [2, 3, 10, 16, 33, 100] {
            for draw in 0..20 {
                // Every other time the last gaps share a multiplier.
                let own = if draw % 2 == 0 {
                    classes
                } else {
                    1 + rng.below(classes)
                };
                let mut scores: Vec<f32> =
                    (0..classes).map(|_| (rng.normal() * 3.0) as f32).collect();
                if classes > 3 {
                    scores[1] = scores[2];
                }
                let z: Vec<f32> = (0..own).map(|_| rng.normal() as f32).collect();
                let label = rng.below(classes);
                let weight = 1.7;
                let order = Sorter::new(classes).sort(&scores).to_vec();
                let y: Vec<f32> = order.iter().map(|&c| scores[c as usize] / 2.0).collect();
                let rank = order.iter().position(|&c| c as usize == label).unwrap();
                let mut gradient = z.clone();
                let mut scratch = RowScratch::new(classes);
                let loss = sorted_row(&mut gradient, &y, 2.0, rank, weight, &mut scratch);
                let wide: Vec<f64> = z.iter().map(|&v| f64::from(v)).collect();
                let exact = plain_sorted(&scores, &wide, label);
                assert!(
                    (loss - exact).abs() < 1e-5 * exact.max(1.0),
                    "{classes}: {loss} {exact}"
                );
                for j in 0..own {
                    let at = |step: f64| {
                        let mut moved = wide.clone();
                        moved[j] += step;
                        plain_sorted(&scores, &moved, label)
                    };
                    let difference = weight * (at(1e-5) - at(-1e-5)) / 2e-5;
                    let error = (f64::from(gradient[j]) - difference).abs();
                    assert!(
                        error < 1e-4 * difference.abs().max(0.1),
                        "{classes} classes, z {j}: {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn free_rows_agree_with_softmax_and_skip_masked_classes() {
        let mut rng = Rng::new(22);
        for classes in [2, 5, 16, 40] {
            let z: Vec<f32> = (0..classes).map(|_| rng.normal() as f32 * 3.0).collect();
            let mut scores = vec![0.0_f32; classes];
            if classes > 2 {
                scores[1] = f32::NEG_INFINITY;
            }
            let label = classes - 1;
            let nll = |z: &[f64]| -> f64 {
                let possible = || z.iter().zip(&scores).filter(|(_, s)| s.is_finite());
                possible()
                    .map(|(v, _)| (v - z[label]).exp())
                    .sum::<f64>()
                    .ln()
            };
            let wide: Vec<f64> = z.iter().map(|&v| f64::from(v)).collect();
            let mut gradient = z.clone();
            let loss = free_row(&mut gradient, &scores, label, 0.5);
            assert!((loss - nll(&wide)).abs() < 1e-5);
            for j in 0..classes {
                let at = |step: f64| {
                    let mut moved = wide.clone();
                    moved[j] += step;
                    nll(&moved)
                };
                let difference = 0.5 * (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!(
                    (f64::from(gradient[j]) - difference).abs() < 1e-5,
                    "{classes} classes, z {j}"
                );
            }
        }
    }

    #[test]
    fn a_row_with_one_possible_class_is_certain() {
        let mut z = [0.3, -0.2, 0.9];
        let loss = sorted_row(&mut z, &[1.5], 1.0, 0, 1.0, &mut RowScratch::new(3));
        assert_eq!(loss, 0.0);
        assert_eq!(z, [0.0; 3]);
    }
}

//! Rounding a row to the caller's float type without changing its ranking, and with the fewest changes.

use super::elementwise::TieDetector;
use super::sort::Sorter;
use crate::real::Real;

/// Scratch memory of [`round_logits`] and [`round_probs`]; one serves any number of rows.
#[derive(Debug, Default, Clone)]
pub struct Repair {
    pools: Vec<Pool>,
}

/// Neighbouring groups of tied classes that share one mean, in the pool-adjacent-violators algorithm.
#[derive(Debug, Clone, Copy)]
struct Pool {
    /// Sums and their products are exact.
    sum: i128,
    weight: i128,
    groups: usize,
}

/// The range of rounded values, and where ties are allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputBounds {
    lowest: f64,
    highest: f64,
    /// The value of masked classes.
    masked: f64,
    /// Values below this may be equal though their inputs differ.
    pub(super) strict_from: f64,
}

impl OutputBounds {
    /// For logits of type `T`.
    pub(crate) fn logits<T: Real>() -> Self {
        Self {
            lowest: -T::LIMIT,
            highest: T::LIMIT,
            masked: f64::NEG_INFINITY,
            strict_from: f64::NEG_INFINITY,
        }
    }

    /// For probabilities of type `T`.
    pub(crate) fn probs<T: Real>() -> Self {
        Self {
            lowest: 0.0,
            highest: 1.0,
            masked: 0.0,
            strict_from: T::MIN_POSITIVE,
        }
    }

    /// What to clamp results to; a softmax leaves nothing to clamp.
    pub(crate) fn clamp(&self) -> Option<(f64, f64)> {
        (self.strict_from <= 0.0).then_some((self.lowest, self.highest))
    }
}

/// Rounds a row of logits to `T` so that `output` has the ranking of `input`.
///
/// Where rounding makes two results equal whose inputs differ, the values around them are moved apart by the fewest
/// units in the last place, in both directions, so that the mean of the row does not change. Equal inputs get the value of the
/// first of them. Masked classes (`-inf`) stay masked. Values beyond half of `T`'s range are clamped there, which leaves
/// space to move them apart.
///
/// # Parameters
/// - `input`: the row of scores, K values.
/// - `order`: the classes from the largest score to the smallest, as [`Sorter::sort`] gives them.
/// - `values`: the result of each class in 64 bits.
/// - `repair`: scratch memory.
/// - `output`: where the rounded values go, in class order.
///
/// ```
/// use ordercal::rank::{Repair, Sorter, round_logits};
///
/// let input = [2.0_f32, 3.0, 1.0];
/// // 32 bits cannot tell the first two results apart.
/// let values = [0.5, 0.5 + 1e-12, 0.0];
/// let mut output = [0.0_f32; 3];
/// let mut sorter = Sorter::new(3);
/// round_logits(&input, sorter.sort(&input), &values, &mut Repair::default(), &mut output);
/// assert!(output[1] > output[0] && output[0] > output[2]);
/// ```
pub fn round_logits<X: PartialOrd + Copy + Into<f64>, T: Real>(
    input: &[X],
    order: &[u32],
    values: &[f64],
    repair: &mut Repair,
    output: &mut [T],
) {
    let bounds = OutputBounds::logits::<T>();
    round_in_order(&bounds, input, order, values, repair, output);
}

/// Rounds a row of probabilities to `T`, as [`round_logits`] does, with values in [0, 1].
///
/// Values below `T`'s smallest normal number may become equal though their inputs are not; they never
/// change places. The largest probability of a row is far above that, so its argmax is always kept.
pub fn round_probs<X: PartialOrd + Copy + Into<f64>, T: Real>(
    input: &[X],
    order: &[u32],
    values: &[f64],
    repair: &mut Repair,
    output: &mut [T],
) {
    let bounds = OutputBounds::probs::<T>();
    round_in_order(&bounds, input, order, values, repair, output);
}

/// Rounds rows of 64-bit scores to `f32` without changing their ranking.
pub(crate) struct Narrower {
    ties: TieDetector,
    sorter: Sorter,
    repair: Repair,
}

impl Narrower {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            ties: TieDetector::new(classes),
            sorter: Sorter::new(classes),
            repair: Repair::default(),
        }
    }

    /// Rounds one row of `values`, which increase with what was `given`. It is sorted only if there is a tie.
    pub(crate) fn narrow(&mut self, given: &[f64], values: &[f64], narrow: &mut [f32]) {
        f32::round_all(values, None, narrow);
        let bounds = OutputBounds::logits::<f32>();
        if self.ties.has_tie(&bounds, narrow) {
            self.narrow_in_order(given, values, narrow);
        }
    }

    /// The same where errors of `values` may have changed the places of neighbours.
    pub(crate) fn narrow_in_order(&mut self, given: &[f64], values: &[f64], narrow: &mut [f32]) {
        let bounds = OutputBounds::logits::<f32>();
        let order = self.sorter.sort_wide(given);
        round_in_order(&bounds, given, order, values, &mut self.repair, narrow);
    }
}

/// [`round_logits`] or [`round_probs`], depending on the bounds.
pub(crate) fn round_in_order<X: PartialOrd + Copy + Into<f64>, T: Real>(
    bounds: &OutputBounds,
    input: &[X],
    order: &[u32],
    values: &[f64],
    repair: &mut Repair,
    output: &mut [T],
) {
    let possible = order.partition_point(|&c| input[c as usize].into() > f64::NEG_INFINITY);
    for &class in &order[possible..] {
        output[class as usize] = T::from_f64(bounds.masked);
    }
    let order = &order[..possible];
    let mut broken = false;
    for (position, &class) in order.iter().enumerate() {
        let class = class as usize;
        let value = T::from_f64(values[class].clamp(bounds.lowest, bounds.highest));
        output[class] = value;
        if position > 0 {
            let above = order[position - 1] as usize;
            if input[above] > input[class] {
                let exempt = value.to_f64() < bounds.strict_from && value <= output[above];
                broken |= !(value < output[above] || exempt);
            } else {
                output[class] = output[above];
            }
        }
    }
    if broken {
        spread(input, order, bounds, repair, output);
    }
}

/// Replaces the rounded values by the nearest strictly decreasing sequence of floats.
///
/// [`Real::key`] numbers the floats in order. A sequence of integers is strictly decreasing if and only if it is
/// non-increasing after each has been increased by its position. The nearest non-increasing sequence (least squares) is
/// isotonic regression, computed by pooling adjacent violators.
fn spread<X: PartialOrd + Copy, T: Real>(
    input: &[X],
    order: &[u32],
    bounds: &OutputBounds,
    repair: &mut Repair,
    output: &mut [T],
) {
    let same = |&a: &u32, &b: &u32| input[a as usize] == input[b as usize];
    // Probabilities that are zero stay zero.
    let zero = T::from_f64(0.0).key();
    let positive = |&class: &u32| bounds.strict_from <= 0.0 || output[class as usize].key() > zero;
    let order = &order[..order.partition_point(positive)];
    let pools = &mut repair.pools;
    pools.clear();
    for (index, tied) in order.chunk_by(same).enumerate() {
        let weight = tied.len() as i128;
        let key = output[tied[0] as usize].key() + index as i64;
        let mut pool = Pool {
            sum: i128::from(key) * weight,
            weight,
            groups: 1,
        };
        while let Some(above) = pools.last()
            && pool.sum * above.weight > above.sum * pool.weight
        {
            pool.sum += above.sum;
            pool.weight += above.weight;
            pool.groups += above.groups;
            pools.pop();
        }
        pools.push(pool);
    }
    let lowest = T::from_f64(bounds.lowest).key();
    let mut groups = order.chunk_by(same).enumerate();
    for pool in pools {
        let level = pool.sum.div_euclid(pool.weight) as i64;
        for (index, tied) in groups.by_ref().take(pool.groups) {
            let key = level - index as i64;
            let value = T::from_key(if bounds.strict_from > 0.0 {
                key.max(lowest)
            } else {
                key
            });
            for &class in tied {
                output[class as usize] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::same_ranking;

    /// Rounds the row `values` whose inputs are 0, −1, −2, … (or as given) in that order.
    fn rounded<T: Real>(input: &[f32], values: &[f64], probs: bool) -> Vec<T> {
        let order: Vec<u32> = (0..input.len() as u32).collect();
        let mut output = vec![T::default(); input.len()];
        let mut repair = Repair::default();
        if probs {
            round_probs(input, &order, values, &mut repair, &mut output);
        } else {
            round_logits(input, &order, values, &mut repair, &mut output);
        }
        output
    }

    #[test]
    fn what_needs_no_repair_is_rounded_to_the_nearest() {
        let values = [3.0, 0.1, -0.1, -1e-50];
        assert_eq!(
            rounded::<f32>(&[4.0, 3.0, 2.0, -9.0], &[3.0, 0.2, 0.1, -0.1], false),
            [3.0, 0.2, 0.1, -0.1]
        );
        assert_eq!(
            rounded::<f64>(&[4.0, 3.0, 2.0], &values[..3], false),
            values[..3]
        );
    }

    #[test]
    fn collapsed_steps_move_apart_evenly() {
        let x = [5.0, 4.0, 3.0, 2.0, 1.0];
        let out = rounded::<f32>(&x, &[1.0; 5], false);
        // Two units up, two units down, the middle stays; below 1 the units are half as large.
        let (up, down) = (1_f32.next_up(), 1_f32.next_down());
        assert_eq!(out, [up.next_up(), up, 1.0, down, down.next_down()]);
        let tied = rounded::<f32>(&[5.0, 4.0, 4.0, 4.0, 1.0], &[1.0; 5], false);
        assert_eq!(tied, [up, 1.0, 1.0, 1.0, down]);
    }

    #[test]
    fn steps_that_went_backwards_are_repaired_too() {
        let out = rounded::<f64>(&[3.0, 2.0, 1.0], &[1.0, 1.5, 0.0], false);
        assert!(
            out[0] > out[1] && out[1] > out[2] && (out[0] - 1.25).abs() < 0.01,
            "{out:?}"
        );
    }

    #[test]
    fn huge_logits_are_clamped_with_space_for_strict_steps() {
        let x: Vec<f32> = (0..2000).map(|i| -(i as f32)).collect();
        for end in [1e300, -1e300] {
            let out = rounded::<f32>(&x, &vec![end; 2000], false);
            assert!(out.iter().all(|v| v.is_finite()) && out.windows(2).all(|w| w[0] > w[1]));
        }
    }

    #[test]
    fn probabilities_that_vanish_keep_their_place() {
        let x = [9.0, 8.0, 7.0, 6.0, f32::NEG_INFINITY];
        let out = rounded::<f32>(&x, &[1.0, 1e-40, 1e-60, 0.0, 0.0], true);
        assert_eq!(out, [1.0, 1e-40, 0.0, 0.0, 0.0]);
        // A repair elsewhere in the row leaves zeros alone.
        let out = rounded::<f32>(&x, &[0.5, 0.5, 1e-60, 0.0, 0.0], true);
        assert!(out[0] > out[1] && out[2..] == [0.0; 3], "{out:?}");
    }

    #[test]
    fn wide_scores_are_narrowed_in_order() {
        let wide = [1.0, 1.0 + 1e-10, 1.0 - 1e-10, 1.0, f64::NEG_INFINITY];
        let mut narrow = [0.0; 5];
        Narrower::new(5).narrow(&wide, &wide, &mut narrow);
        assert!(same_ranking(&wide, &narrow), "{narrow:?}");
    }
}

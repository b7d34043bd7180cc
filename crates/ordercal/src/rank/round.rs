//! Rounding a row so that its ranking stays: nothing is moved that need not be.

use super::sort::Sorter;
use crate::real::Real;

/// Scratch of the repair, kept so that a row in need of one allocates nothing either.
#[derive(Debug, Default, Clone)]
pub struct Repair {
    groups: Vec<Group>,
    blocks: Vec<Block>,
}

/// Classes with equal scores, `first..end` in sorted order.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: usize,
    end: usize,
    key: i64,
}

/// Neighbouring groups that share one mean while pooling violators.
#[derive(Debug, Clone, Copy)]
struct Block {
    sum: i128,
    weight: i128,
    groups: usize,
}

/// Which numbers a rounded row may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lowest: f64,
    pub(super) highest: f64,
    pub(super) masked: f64,
    /// Below this, equal outputs may stand for different inputs.
    pub(super) strict_from: f64,
}

impl Bounds {
    pub(super) fn of_logits<T: Real>() -> Self {
        Self {
            lowest: -T::LIMIT,
            highest: T::LIMIT,
            masked: f64::NEG_INFINITY,
            strict_from: f64::NEG_INFINITY,
        }
    }

    pub(super) fn of_probs<T: Real>() -> Self {
        Self {
            lowest: 0.0,
            highest: 1.0,
            masked: 0.0,
            strict_from: T::MIN_POSITIVE,
        }
    }
}

/// Rounds a row of logits to `T` so that `input` and `output` share the same ranking.
///
/// `values[c]` is class c's result in 64 bits and `order` the sorted classes of `input`. Equal inputs get
/// the value of the first of them. Where rounding collapsed a strict step, the values around it are moved
/// apart by the fewest units in the last place, up and down alike, so the row's mean stays. Masked classes
/// (`-inf`) stay masked; values beyond half of `T`'s range are held there, which leaves room for steps.
pub fn round_logits<X: PartialOrd + Copy + Into<f64>, T: Real>(
    input: &[X],
    order: &[u32],
    values: &[f64],
    repair: &mut Repair,
    output: &mut [T],
) {
    let bounds = Bounds::of_logits::<T>();
    round(input, order, values, &bounds, repair, output);
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
    let bounds = Bounds::of_probs::<T>();
    round(input, order, values, &bounds, repair, output);
}

/// Rounds a row of 64-bit scores to `f32` in order; what [`crate::Scores`] does to wide input.
pub(crate) fn narrow_in_order(wide: &[f64], sorter: &mut Sorter, narrow: &mut [f32]) {
    for (narrow, &wide) in narrow.iter_mut().zip(wide) {
        *narrow = wide as f32;
    }
    let order = sorter.sort_wide(wide);
    let collapsed = order.windows(2).any(|pair| {
        let (a, b) = (pair[0] as usize, pair[1] as usize);
        wide[a] > wide[b] && narrow[a] <= narrow[b]
    });
    if collapsed {
        round_logits(wide, order, wide, &mut Repair::default(), narrow);
    }
}

fn round<X: PartialOrd + Copy + Into<f64>, T: Real>(
    input: &[X],
    order: &[u32],
    values: &[f64],
    bounds: &Bounds,
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

/// Moves collapsed steps apart: the strictly decreasing sequence of floats nearest to the rounded one.
///
/// Floats are counted by integers (`Real::key`), one per representable number. A sequence of integers is
/// strictly decreasing exactly if adding each one's position makes it non-increasing, and the nearest
/// non-increasing sequence comes from pooling adjacent violators.
fn spread<X: PartialOrd + Copy, T: Real>(
    input: &[X],
    order: &[u32],
    bounds: &Bounds,
    repair: &mut Repair,
    output: &mut [T],
) {
    let Repair { groups, blocks } = repair;
    groups.clear();
    blocks.clear();
    for (position, &class) in order.iter().enumerate() {
        let class = class as usize;
        match groups.last_mut() {
            Some(group) if input[order[group.first] as usize] == input[class] => {
                group.end = position + 1;
            }
            _ => groups.push(Group {
                first: position,
                end: position + 1,
                key: output[class].key(),
            }),
        }
    }
    // Probabilities that are zero stay zero.
    let zero = T::from_f64(0.0).key();
    if bounds.strict_from > 0.0 {
        let positive = groups.partition_point(|group| group.key > zero);
        groups.truncate(positive);
    }
    for (index, group) in groups.iter().enumerate() {
        let weight = (group.end - group.first) as i128;
        let mut block = Block {
            sum: (i128::from(group.key) + index as i128) * weight,
            weight,
            groups: 1,
        };
        while let Some(above) = blocks.last() {
            if block.sum * above.weight <= above.sum * block.weight {
                break;
            }
            block.sum += above.sum;
            block.weight += above.weight;
            block.groups += above.groups;
            blocks.pop();
        }
        blocks.push(block);
    }
    let lowest = T::from_f64(bounds.lowest).key();
    let mut index = 0;
    for block in blocks.iter() {
        let level = block.sum.div_euclid(block.weight);
        for group in &groups[index..index + block.groups] {
            let key = (level - index as i128) as i64;
            let value = T::from_key(if bounds.strict_from > 0.0 {
                key.max(lowest)
            } else {
                key
            });
            for &class in &order[group.first..group.end] {
                output[class as usize] = value;
            }
            index += 1;
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
    fn huge_logits_are_held_with_room_for_steps() {
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
        narrow_in_order(&wide, &mut Sorter::new(5), &mut narrow);
        assert!(same_ranking(&wide, &narrow), "{narrow:?}");
    }
}

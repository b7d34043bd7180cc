//! Sorting, ties, and rounding that never changes an order.
//!
//! A row x sorted in descending order is y = S(x)x. Everything the order-preserving families promise is
//! about S(x), so it is computed in one place, by integer keys that put `-0.0` and `0.0` together, and it
//! is enforced in one place: [`round_logits`] and [`round_probs`] turn a model's 64-bit result into what
//! the caller asked for and repair what rounding would have broken.

use crate::error::{Error, Result};
use crate::real::Real;

/// Which of two equal scores comes first: the class with the smaller priority.
///
/// The order-preserving families give the same result whatever the tie breaker; it matters to code that
/// needs one definite permutation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TieBreaker {
    /// `classes[p]` is the class with priority p + 1; `None` is 1, 2, …, K.
    classes: Option<Vec<u32>>,
}

impl TieBreaker {
    /// The smaller class index first.
    pub fn by_index() -> Self {
        Self::default()
    }

    /// The paper's tie breaker t: a permutation of 1, …, K; among equal scores the class with the
    /// smallest t comes first.
    ///
    /// # Errors
    /// If `priorities` is not a permutation of 1, …, K.
    pub fn from_priorities(priorities: &[u32]) -> Result<Self> {
        let classes = priorities.len();
        let mut by_priority = vec![u32::MAX; classes];
        for (position, &priority) in priorities.iter().enumerate() {
            let slot = (priority as usize).checked_sub(1);
            match slot.and_then(|s| by_priority.get_mut(s)) {
                Some(class) if *class == u32::MAX => *class = position as u32,
                _ => return Err(Error::InvalidTieBreaker { classes, position }),
            }
        }
        Ok(Self {
            classes: Some(by_priority),
        })
    }
}

/// Sorts rows of one width in descending order, without allocating per row.
///
/// ```
/// use ordercal::rank::{Sorter, TieBreaker};
///
/// let mut sorter = Sorter::new(4);
/// assert_eq!(sorter.sort(&[1.0, 3.0, 1.0, 2.0]), [1, 3, 0, 2]);
///
/// let mut sorter = Sorter::with_ties(4, TieBreaker::from_priorities(&[4, 3, 2, 1])?);
/// assert_eq!(sorter.sort(&[1.0, 3.0, 1.0, 2.0]), [1, 3, 2, 0]);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sorter {
    ties: TieBreaker,
    /// Score and priority in one integer: sorting integers is several times faster than comparing floats.
    keys: Vec<u64>,
    wide_keys: Vec<u128>,
    order: Vec<u32>,
}

impl Sorter {
    /// For rows of `classes` scores, ties by class index.
    pub fn new(classes: usize) -> Self {
        Self::with_ties(classes, TieBreaker::by_index())
    }

    /// For rows of `classes` scores.
    ///
    /// # Panics
    /// If the tie breaker is for another number of classes.
    pub fn with_ties(classes: usize, ties: TieBreaker) -> Self {
        if let Some(by_priority) = &ties.classes {
            assert_eq!(by_priority.len(), classes, "tie breaker of another width");
        }
        Self {
            ties,
            keys: vec![0; classes],
            wide_keys: Vec::new(),
            order: vec![0; classes],
        }
    }

    /// S(x): the classes from the largest score to the smallest.
    ///
    /// # Panics
    /// If the row is of another width.
    pub fn sort(&mut self, row: &[f32]) -> &[u32] {
        assert_eq!(row.len(), self.keys.len(), "a row of another width");
        for (priority, key) in self.keys.iter_mut().enumerate() {
            let class = self
                .ties
                .classes
                .as_ref()
                .map_or(priority, |c| c[priority] as usize);
            *key = (u64::from(descending_key(row[class])) << 32) | priority as u64;
        }
        self.keys.sort_unstable();
        for (class, key) in self.order.iter_mut().zip(&self.keys) {
            let priority = (key & u64::from(u32::MAX)) as u32;
            *class = self
                .ties
                .classes
                .as_ref()
                .map_or(priority, |c| c[priority as usize]);
        }
        &self.order
    }

    /// The same for a row of 64-bit scores.
    ///
    /// # Panics
    /// If the row is of another width.
    pub fn sort_wide(&mut self, row: &[f64]) -> &[u32] {
        assert_eq!(row.len(), self.order.len(), "a row of another width");
        self.wide_keys.clear();
        self.wide_keys.extend((0..row.len()).map(|priority| {
            let class = self
                .ties
                .classes
                .as_ref()
                .map_or(priority, |c| c[priority] as usize);
            (u128::from(descending_wide_key(row[class])) << 32) | priority as u128
        }));
        self.wide_keys.sort_unstable();
        for (class, key) in self.order.iter_mut().zip(&self.wide_keys) {
            let priority = (key & u128::from(u32::MAX)) as u32;
            *class = self
                .ties
                .classes
                .as_ref()
                .map_or(priority, |c| c[priority as usize]);
        }
        &self.order
    }
}

/// Smaller for larger floats; one key for both zeros.
fn descending_key(value: f32) -> u32 {
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 0 {
        !(bits | 1 << 31)
    } else {
        bits
    }
}

fn descending_wide_key(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 {
        !(bits | 1 << 63)
    } else {
        bits
    }
}

/// S(x)⁻¹: `rank[class]` is the position of the class in the sorted row.
pub fn invert(order: &[u32], rank: &mut [u32]) {
    for (position, &class) in order.iter().enumerate() {
        rank[class as usize] = position as u32;
    }
}

/// Uv for the upper-triangular matrix of ones U: each element becomes the sum of itself and all behind it.
pub fn reverse_cumsum(values: &mut [f64]) {
    let mut sum = 0.0;
    for value in values.iter_mut().rev() {
        sum += *value;
        *value = sum;
    }
}

/// Whether `output` keeps every tie and every strict step of `input`.
pub fn same_ranking<X: PartialOrd, T: PartialOrd>(input: &[X], output: &[T]) -> bool {
    let classes = input.len();
    classes == output.len()
        && (0..classes).all(|i| {
            (0..i).all(|j| input[i].partial_cmp(&input[j]) == output[i].partial_cmp(&output[j]))
        })
}

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
struct Bounds {
    lowest: f64,
    highest: f64,
    masked: f64,
    /// Below this, equal outputs may stand for different inputs.
    strict_from: f64,
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
    let bounds = Bounds {
        lowest: -T::LIMIT,
        highest: T::LIMIT,
        masked: f64::NEG_INFINITY,
        strict_from: f64::NEG_INFINITY,
    };
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
    let bounds = Bounds {
        lowest: 0.0,
        highest: 1.0,
        masked: 0.0,
        strict_from: T::MIN_POSITIVE,
    };
    round(input, order, values, &bounds, repair, output);
}

/// Rounds a row of 64-bit scores to `f32` in order; what [`crate::Scores`] does to wide input.
pub(crate) fn narrow_in_order(wide: &[f64], sorter: &mut Sorter, narrow: &mut [f32]) {
    for (narrow, &wide) in narrow.iter_mut().zip(wide) {
        *narrow = wide as f32;
    }
    sorter.sort_wide(wide);
    let order = &sorter.order;
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
    use crate::rng::Rng;

    #[test]
    fn sorting_agrees_with_a_stable_sort() {
        let mut rng = Rng::new(71);
        for classes in [2, 5, 64, 300] {
            let mut priorities: Vec<u32> = (1..=classes as u32).collect();
            rng.shuffle(&mut priorities);
            let ties = TieBreaker::from_priorities(&priorities).unwrap();
            let mut by_index = Sorter::new(classes);
            let mut by_priority = Sorter::with_ties(classes, ties);
            for _ in 0..50 {
                let values = [
                    0.0,
                    -0.0,
                    1.0,
                    -1.0,
                    f32::NEG_INFINITY,
                    f32::MIN_POSITIVE / 4.0,
                    -3e38,
                ];
                let row: Vec<f32> = (0..classes)
                    .map(|_| values[rng.below(values.len())])
                    .collect();
                let wide: Vec<f64> = row.iter().map(|&v| f64::from(v)).collect();
                let mut plain: Vec<u32> = (0..classes as u32).collect();
                let descending =
                    |a: &u32, b: &u32| row[*b as usize].partial_cmp(&row[*a as usize]).unwrap();
                plain.sort_by(descending);
                assert_eq!(by_index.sort(&row), plain);
                assert_eq!(by_index.sort_wide(&wide), plain);
                plain.sort_by_key(|&c| priorities[c as usize]);
                plain.sort_by(descending);
                assert_eq!(by_priority.sort(&row), plain);
                assert_eq!(by_priority.sort_wide(&wide), plain);
                let mut rank = vec![0; classes];
                invert(&plain, &mut rank);
                assert!(
                    plain
                        .iter()
                        .enumerate()
                        .all(|(p, &c)| rank[c as usize] == p as u32)
                );
            }
        }
    }

    #[test]
    fn a_tie_breaker_is_a_permutation() {
        let fails = |priorities: &[u32]| TieBreaker::from_priorities(priorities).unwrap_err();
        let (classes, position) = (3, 2);
        assert_eq!(
            fails(&[1, 2, 2]),
            Error::InvalidTieBreaker { classes, position }
        );
        assert_eq!(
            fails(&[1, 2, 4]),
            Error::InvalidTieBreaker { classes, position }
        );
        assert_eq!(
            fails(&[0, 2, 1]),
            Error::InvalidTieBreaker {
                classes,
                position: 0
            }
        );
    }

    #[test]
    fn reverse_cumulative_sums() {
        let mut values = [1.0, 2.0, 4.0, 8.0];
        reverse_cumsum(&mut values);
        assert_eq!(values, [15.0, 14.0, 12.0, 8.0]);
    }

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

//! S(x): the classes of a row from the largest score to the smallest.

use crate::error::{Error, Result};

/// Which of several equal scores comes first.
///
/// The order-preserving families give the same result for every tie breaker. It matters only to code that needs one
/// definite permutation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TieBreaker {
    /// `classes[p]` is the class with priority p + 1. `None`: the smaller class index first.
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

    /// The class with a priority, counted from 0.
    #[inline(always)]
    fn class(&self, priority: u32) -> u32 {
        match &self.classes {
            Some(classes) => classes[priority as usize],
            None => priority,
        }
    }
}

/// Sorts rows of one width in descending order, without allocating per row.
#[derive(Debug, Clone)]
pub struct Sorter {
    ties: TieBreaker,
    /// Score and priority in one integer: sorting integers is several times faster than comparing floats.
    keys: Vec<u64>,
    /// The second buffer of the radix sort; empty for short rows.
    spare: Vec<u64>,
    order: Vec<u32>,
}

impl Sorter {
    /// For rows of `classes` scores, ties by class index.
    pub fn new(classes: usize) -> Self {
        Self {
            ties: TieBreaker::by_index(),
            keys: vec![0; classes],
            spare: match classes < RADIX_SORT_FROM {
                true => Vec::new(),
                false => vec![0; classes],
            },
            order: vec![0; classes],
        }
    }

    /// For rows of `classes` scores, ties by the given tie breaker.
    ///
    /// # Errors
    /// [`Error::InvalidTieBreaker`] if the tie breaker is for another number of classes.
    pub fn with_ties(classes: usize, ties: TieBreaker) -> Result<Self> {
        match &ties.classes {
            Some(by_priority) if by_priority.len() != classes => Err(Error::InvalidTieBreaker {
                classes,
                position: by_priority.len().min(classes),
            }),
            _ => Ok(Self {
                ties,
                ..Self::new(classes)
            }),
        }
    }

    /// S(x): the classes from the largest score to the smallest.
    ///
    /// # Panics
    /// If the row is of another width.
    pub fn sort(&mut self, row: &[f32]) -> &[u32] {
        assert_eq!(row.len(), self.keys.len(), "a row of another width");
        for (priority, key) in self.keys.iter_mut().enumerate() {
            let class = self.ties.class(priority as u32) as usize;
            *key = (u64::from(descending_key(row[class])) << 32) | priority as u64;
        }
        if self.keys.len() < RADIX_SORT_FROM {
            self.keys.sort_unstable();
        } else {
            radix_sort(&mut self.keys, &mut self.spare);
        }
        for (class, &key) in self.order.iter_mut().zip(&self.keys) {
            *class = self.ties.class(key as u32);
        }
        &self.order
    }

    /// [`sort`](Self::sort) of a row of 64-bit scores.
    ///
    /// # Panics
    /// If the row is of another width.
    pub fn sort_wide(&mut self, row: &[f64]) -> &[u32] {
        assert_eq!(row.len(), self.order.len(), "a row of another width");
        for (priority, class) in self.order.iter_mut().enumerate() {
            *class = self.ties.class(priority as u32);
        }
        // Without −0, bits compare as values do. The sort is stable, so ties stay in order of their priority.
        let score = |class: u32| row[class as usize] + 0.0;
        self.order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        &self.order
    }
}

/// Longer rows are sorted by a radix sort.
const RADIX_SORT_FROM: usize = 128;

/// A least-significant-digit radix sort by the upper 32 bits. It is stable, so equal scores stay in order of their
/// lower 32 bits.
fn radix_sort(keys: &mut Vec<u64>, spare: &mut Vec<u64>) {
    let mut counts = [[0_u32; 256]; 4];
    for &key in keys.iter() {
        for (byte, counts) in counts.iter_mut().enumerate() {
            counts[usize::from((key >> (32 + 8 * byte)) as u8)] += 1;
        }
    }
    let all = keys.len() as u32;
    for (byte, places) in counts.iter_mut().enumerate() {
        // Scores of one row often share a sign or an exponent: there is nothing to sort by.
        if places.contains(&all) {
            continue;
        }
        let mut next = 0;
        for place in places.iter_mut() {
            next += std::mem::replace(place, next);
        }
        for &key in keys.iter() {
            let place = &mut places[usize::from((key >> (32 + 8 * byte)) as u8)];
            spare[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(keys, spare);
    }
}

/// An integer that is smaller for larger floats; both zeros have the same.
fn descending_key(value: f32) -> u32 {
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 0 {
        !(bits | 1 << 31)
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn sorting_agrees_with_a_stable_sort() {
        let mut rng = Rng::new(71);
        for classes in [2, 5, 64, 127, 128, 300] {
            let mut priorities: Vec<u32> = (1..=classes as u32).collect();
            rng.shuffle(&mut priorities);
            let ties = TieBreaker::from_priorities(&priorities).unwrap();
            let mut by_index = Sorter::new(classes);
            let mut by_priority = Sorter::with_ties(classes, ties).unwrap();
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
                let few = rng.below(2) == 0;
                let row: Vec<f32> = (0..classes)
                    .map(|_| match few {
                        true => values[rng.below(values.len())],
                        false => f32::from_bits((rng.uniform() * f64::from(u32::MAX)) as u32),
                    })
                    .map(|v| if v.is_nan() { 7.0 } else { v })
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
            }
        }
    }

    #[test]
    fn a_tie_breaker_of_another_width_is_refused() {
        let ties = TieBreaker::from_priorities(&[2, 1]).unwrap();
        let refused = Sorter::with_ties(3, ties).unwrap_err();
        let (classes, position) = (3, 2);
        assert_eq!(refused, Error::InvalidTieBreaker { classes, position });
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
}

//! Sorting, ties, and rounding that keeps the ranking of a row.
//!
//! A row x sorted in descending order is y = S(x)x. The order-preserving families are defined by S(x). [`Sorter`]
//! computes it, with `-0.0` and `0.0` tied. [`round_logits`] and [`round_probs`] round a model's 64-bit results to the
//! type that the caller asked for, and repair what rounding would do to the ranking.

pub(crate) mod elementwise;
mod round;
mod sort;

pub(crate) use elementwise::Elementwise;
pub(crate) use round::{Narrower, OutputBounds, round_in_order};
pub use round::{Repair, round_logits, round_probs};
pub use sort::{Sorter, TieBreaker};

/// The class with the largest score; the smallest class index if there are several.
pub fn argmax<'a, T: PartialOrd + 'a>(row: impl IntoIterator<Item = &'a T>) -> usize {
    let scores = row.into_iter().enumerate();
    let largest = scores.reduce(|best, next| if next.1 > best.1 { next } else { best });
    largest.map_or(0, |(class, _)| class)
}

/// The reverse cumulative sum, in place: Uv for the upper-triangular matrix of ones U.
pub fn reverse_cumsum(values: &mut [f64]) {
    let mut sum = 0.0;
    for value in values.iter_mut().rev() {
        sum += *value;
        *value = sum;
    }
}

/// Whether every pair of classes compares in `output` as it does in `input`, ties included.
pub fn same_ranking<X: PartialOrd, T: PartialOrd>(input: &[X], output: &[T]) -> bool {
    let classes = input.len();
    classes == output.len()
        && (0..classes).all(|i| {
            (0..i).all(|j| input[i].partial_cmp(&input[j]) == output[i].partial_cmp(&output[j]))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_cumulative_sums() {
        let mut values = [1.0, 2.0, 4.0, 8.0];
        reverse_cumsum(&mut values);
        assert_eq!(values, [15.0, 14.0, 12.0, 8.0]);
    }
}

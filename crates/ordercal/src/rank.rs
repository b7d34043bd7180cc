//! Sorting, ties, and rounding that never changes an order.
//!
//! A row x sorted in descending order is y = S(x)x. Everything the order-preserving families promise is
//! about S(x), so it is computed in one place, by integer keys that put `-0.0` and `0.0` together, and it
//! is enforced in one place: [`round_logits`] and [`round_probs`] turn a model's 64-bit result into what
//! the caller asked for and repair what rounding would have broken.

pub(crate) mod elementwise;
mod round;
mod sort;

pub use elementwise::Elementwise;
pub(crate) use round::narrow_in_order;
pub use round::{Repair, round_logits, round_probs};
pub use sort::{Sorter, TieBreaker};

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

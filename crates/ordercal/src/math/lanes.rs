//! Folding a slice in several independent lanes, which the compiler turns into vector instructions.

/// Folds values into `LANES` accumulators side by side: value i goes to accumulator i mod `LANES`.
///
/// `LANES` should be several vectors wide: with a single vector, each step would wait for the result of the step before.
#[inline(always)]
pub(crate) fn accumulate<const LANES: usize, T: Copy, S: Copy>(
    values: &[T],
    start: S,
    step: impl Fn(S, T) -> S,
) -> [S; LANES] {
    let mut lanes = [start; LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = step(*lane, value);
    }
    lanes
}

/// [`accumulate`]s values and joins the accumulators by halves.
#[inline(always)]
pub(crate) fn fold<const LANES: usize, T: Copy, S: Copy>(
    values: &[T],
    start: S,
    step: impl Fn(S, T) -> S,
    join: impl Fn(S, S) -> S,
) -> S {
    let mut lanes = accumulate::<LANES, _, _>(values, start, step);
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        let (left, right) = lanes.split_at_mut(width);
        for (left, &right) in left.iter_mut().zip(&*right) {
            *left = join(*left, right);
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts_once() {
        for count in 0..200_u64 {
            let values: Vec<u64> = (0..count).map(|i| i * i).collect();
            let sum = fold::<32, _, _>(&values, 0, |sum, value| sum + value, |a, b| a + b);
            assert_eq!(sum, values.iter().sum::<u64>());
            let most = fold::<16, _, _>(&values, 0, u64::max, u64::max);
            assert_eq!(most, values.iter().copied().max().unwrap_or(0));
        }
    }
}

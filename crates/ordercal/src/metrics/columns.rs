//! The columns of the matrix of probabilities, a block of classes at a time.
//!
//! Metrics of single classes need columns, but models give rows. The rows' normalisers are computed once;
//! then every thread takes a block of neighbouring classes and computes their probabilities for all rows
//! into a buffer of its own. All buffers together hold at most half the bytes of an f32 matrix. One thread
//! handles a class, its rows in order, so results do not depend on the number of threads.

use rayon::prelude::*;

use super::predictions::{Normaliser, Predictions};

/// The number of rows transposed at a time: 64-bit values in a cache line.
const TILE: usize = 8;
/// The largest number of classes in a block.
const BLOCK: usize = 64;

/// Calls `work` once for each class with its column of probabilities and a buffer of the thread's own, and
/// returns the results in order of the classes. `work` may overwrite the column.
pub(crate) fn for_each_class<S, T: Send>(
    predictions: &Predictions<'_>,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(usize, &mut [f64], &mut S) -> T + Sync,
) -> Vec<T> {
    let rows = predictions.rows();
    let classes = predictions.classes();
    let normalisers: Vec<Normaliser> = (0..rows)
        .into_par_iter()
        .with_min_len(64)
        .map_init(
            || vec![0.0; classes],
            |buffer, row| predictions.exponentials(row, buffer),
        )
        .collect();
    let block = (classes / (4 * rayon::current_num_threads())).clamp(1, BLOCK);
    let starts: Vec<usize> = (0..classes).step_by(block).collect();
    let nested: Vec<Vec<T>> = starts
        .into_par_iter()
        .with_max_len(1)
        .map_init(
            || (Vec::new(), scratch()),
            |(columns, scratch), first| {
                let width = block.min(classes - first);
                columns.resize(width * rows, 0.0);
                fill(predictions, &normalisers, first, width, columns);
                columns
                    .chunks_mut(rows)
                    .enumerate()
                    .map(|(offset, column)| work(first + offset, column, scratch))
                    .collect()
            },
        )
        .collect();
    nested.into_iter().flatten().collect()
}

fn fill(
    predictions: &Predictions<'_>,
    normalisers: &[Normaliser],
    first: usize,
    width: usize,
    columns: &mut [f64],
) {
    let rows = normalisers.len();
    let mut tile = [0.0; TILE * BLOCK];
    for start in (0..rows).step_by(TILE) {
        let height = TILE.min(rows - start);
        for (row, part) in tile.chunks_mut(width).take(height).enumerate() {
            let row = start + row;
            predictions.part(row, first, normalisers[row], part);
        }
        for (class, column) in columns.chunks_mut(rows).enumerate() {
            for (row, target) in column[start..start + height].iter_mut().enumerate() {
                *target = tile[row * width + class];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, ScoreKind, Scores};
    use crate::rng::Rng;
    use ndarray::Array2;

    #[test]
    fn columns_hold_the_same_bits_as_rows() {
        let mut rng = Rng::new(21);
        for (rows, classes) in [(1, 2), (7, 3), (8, 5), (33, 130), (100, 700)] {
            let logits = Array2::from_shape_fn((rows, classes), |_| (rng.normal() * 4.0) as f32);
            let scores = Scores::new(ScoreKind::Logits, logits.view()).unwrap();
            let data = Dataset::new(scores, &vec![0; rows]).unwrap();
            let predictions = Predictions::from(&data);
            let columns = for_each_class(
                &predictions,
                || (),
                |class, column, ()| (class, column.to_vec()),
            );
            assert_eq!(columns.len(), classes);
            let mut probs = vec![0.0; classes];
            for row in 0..rows {
                predictions.probabilities(row, &mut probs);
                for (class, (index, column)) in columns.iter().enumerate() {
                    assert_eq!(class, *index);
                    assert_eq!(column[row].to_bits(), probs[class].to_bits());
                }
            }
        }
    }
}

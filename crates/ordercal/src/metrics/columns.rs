//! The columns of the matrix of probabilities, a block of classes at a time.
//!
//! Metrics of single classes need columns, but models give rows. The rows' normalisers are computed once;
//! then every thread takes a block of neighbouring classes and computes their probabilities for all rows
//! into a buffer of its own. All buffers together hold at most half the bytes of an f32 matrix. One thread
//! handles a class, its rows in order, so results do not depend on the number of threads.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::predictions::{Normaliser, Predictions};

/// The number of rows transposed at a time: 64-bit values in a cache line.
const TILE: usize = 8;
/// The largest number of classes in a block.
const BLOCK: usize = 64;

/// Calls `work` once for each class with its column of probabilities and a buffer of the thread's own, and
/// returns the results in order of the classes. `work` may overwrite the column.
pub(crate) fn for_each_class<S: Send, T: Send>(
    predictions: &Predictions<'_>,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(usize, &mut [f64], &mut S) -> T + Sync,
) -> Vec<T> {
    let rows = predictions.rows();
    let classes = predictions.classes();
    let normalisers: Vec<Normaliser> = predictions.normalisers().collect();
    let block = (classes / (4 * rayon::current_num_threads())).clamp(1, BLOCK);
    let starts: Vec<usize> = (0..classes).step_by(block).collect();
    // Buffers that no thread uses at the moment: new ones for every block would be new pages.
    let idle = Mutex::new(Vec::new());
    let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
    let nested: Vec<Vec<T>> = starts
        .into_par_iter()
        .with_max_len(1)
        .map(|first| {
            let found = lock().pop();
            let (mut columns, mut own) = found.unwrap_or_else(|| (Vec::new(), scratch()));
            let width = block.min(classes - first);
            columns.resize(width * rows, 0.0);
            fill(predictions, &normalisers, first, width, &mut columns);
            let work = |(offset, column)| work(first + offset, column, &mut own);
            let results = columns.chunks_mut(rows).enumerate().map(work).collect();
            lock().push((columns, own));
            results
        })
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
    let mut copy = Vec::with_capacity(TILE * BLOCK);
    for start in (0..rows).step_by(TILE) {
        let height = TILE.min(rows - start);
        let normalisers = &normalisers[start..start + height];
        let part = &mut tile[..height * width];
        predictions.parts(start, first, normalisers, &mut copy, part);
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

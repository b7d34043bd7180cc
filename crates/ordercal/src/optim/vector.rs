//! Vector operations of the optimisers, vectorised, and on all cores for long vectors.
//!
//! Sums are taken over parts of fixed length, so they do not depend on the number of threads.

use rayon::prelude::*;

use crate::math::simd::vectorized;

/// Elements that one thread works on: enough to be worth a task, few enough for its cache.
const PART: usize = 32 * 1024;

/// The dot product.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    if a.len() <= PART {
        return dot_part(a, b);
    }
    let parts = a.par_chunks(PART).zip(b.par_chunks(PART));
    let sums: Vec<f64> = parts.map(|(a, b)| dot_part(a, b)).collect();
    sums.iter().sum()
}

/// `target` += `factor` · `values`.
pub(crate) fn add_scaled(target: &mut [f64], factor: f64, values: &[f64]) {
    let part = |(target, values): (&mut [f64], &[f64])| {
        for (target, &value) in target.iter_mut().zip(values) {
            *target += factor * value;
        }
    };
    if target.len() <= PART {
        return part((target, values));
    }
    let parts = target.par_chunks_mut(PART).zip(values.par_chunks(PART));
    parts.for_each(part);
}

/// `target` = `work`(`a`, `b`), elementwise.
pub(crate) fn combine(
    target: &mut [f64],
    a: &[f64],
    b: &[f64],
    work: impl Fn(f64, f64) -> f64 + Sync,
) {
    let part = |(target, (a, b)): (&mut [f64], (&[f64], &[f64]))| {
        for ((target, &a), &b) in target.iter_mut().zip(a).zip(b) {
            *target = work(a, b);
        }
    };
    if target.len() <= PART {
        return part((target, (a, b)));
    }
    let sources = a.par_chunks(PART).zip(b.par_chunks(PART));
    target.par_chunks_mut(PART).zip(sources).for_each(part);
}

const LANES: usize = 8;

vectorized! {
    fn dot_part(a: &[f64], b: &[f64]) -> f64 {
        let mut lanes = [0.0; LANES];
        let (mut a, mut b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
        for (a, b) in (&mut a).zip(&mut b) {
            for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
                *lane += a * b;
            }
        }
        let mut sum = 0.0;
        for (a, b) in a.remainder().iter().zip(b.remainder()) {
            sum += a * b;
        }
        for lane in lanes {
            sum += lane;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn long_vectors_give_the_results_of_short_ones() {
        let mut rng = Rng::new(44);
        for n in [0, 1, 7, 8, 1000, PART, PART + 1, 3 * PART + 5] {
            let a: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let b: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!((dot(&a, &b) - plain).abs() <= 1e-12 * n as f64, "{n}");
            let mut sum = a.clone();
            add_scaled(&mut sum, 0.5, &b);
            let mut product = vec![0.0; n];
            combine(&mut product, &a, &b, |a, b| (a - b) * b);
            for i in 0..n {
                assert_eq!(
                    (sum[i], product[i]),
                    (a[i] + 0.5 * b[i], (a[i] - b[i]) * b[i])
                );
            }
        }
    }

    #[test]
    fn a_sum_does_not_depend_on_the_number_of_threads() {
        let mut rng = Rng::new(45);
        let a: Vec<f64> = (0..5 * PART + 3).map(|_| rng.normal()).collect();
        let sums = [1, 2, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| dot(&a, &a)).to_bits()
        });
        assert!(sums[0] == sums[1] && sums[1] == sums[2]);
    }
}

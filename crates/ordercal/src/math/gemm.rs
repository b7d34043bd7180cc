//! Matrix products through the `gemm-f32` crate, behind checked views.
//!
//! The crate picks its kernel by itself: AVX-512, FMA or plain. `ORDERCAL_SIMD` does not reach it, so on one machine
//! products are the same bits at every [level](super::simd). Machines with different kernels may round differently. A
//! sum of n products is then within n·2⁻²⁴·Σ|aᵢbᵢ| of the exact one; a test verifies that for the kernel in use.
//!
//! This is one of the two modules with `unsafe` code: the crate takes raw pointers, and the views here guarantee that
//! they are valid.

#![allow(unsafe_code)]

/// A matrix to read: row-major storage, or its transpose.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` × `cols`, row by row.
    pub(crate) fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "a matrix of another size");
        Self {
            data,
            rows,
            cols,
            row_stride: cols,
            col_stride: 1,
        }
    }

    /// The transpose; nothing is copied.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Some neighbouring columns; nothing is copied.
    pub(crate) fn columns(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.cols, "columns that are not there");
        Self {
            data: &self.data[first * self.col_stride..],
            cols: count,
            ..self
        }
    }
}

/// `target` = `left` · `right`, row-major, on the calling thread.
///
/// Each element is summed in an order that depends on the inner dimension alone, so a row's result does not depend on the
/// other rows; a test verifies it.
pub(crate) fn multiply(target: &mut [f32], left: Matrix<'_>, right: Matrix<'_>) {
    product(target, left, right, false);
}

/// `target` += `left` · `right`, row-major, on the calling thread.
pub(crate) fn multiply_add(target: &mut [f32], left: Matrix<'_>, right: Matrix<'_>) {
    product(target, left, right, true);
}

/// The crate splits a longer inner dimension, in a way that depends on the other two.
const INNER: usize = 512;

fn product(target: &mut [f32], left: Matrix<'_>, right: Matrix<'_>, add: bool) {
    assert_eq!(left.cols, right.rows, "inner dimensions differ");
    assert_eq!(
        target.len(),
        left.rows * right.cols,
        "a result of another size"
    );
    if right.cols == 1 {
        // Here the crate picks among kernels that sum in different orders, depending on the number of rows.
        for (row, target) in target.iter_mut().enumerate() {
            let mut sum = if add { *target } else { 0.0 };
            for inner in 0..left.cols {
                let factor = left.data[row * left.row_stride + inner * left.col_stride];
                sum += factor * right.data[inner * right.row_stride];
            }
            *target = sum;
        }
        return;
    }
    if left.rows == 1 {
        // As above. Two rows take the same path as two hundred.
        let row = |inner: usize| left.data[inner * left.col_stride];
        let twice: Vec<f32> = (0..2 * left.cols).map(|i| row(i % left.cols)).collect();
        let mut both = [&*target, &*target].concat();
        product(&mut both, Matrix::new(&twice, 2, left.cols), right, add);
        target.copy_from_slice(&both[..right.cols]);
        return;
    }
    if target.is_empty() {
        return;
    }
    for start in (0..left.cols).step_by(INNER) {
        let inner = INNER.min(left.cols - start);
        let left_data = &left.data[start * left.col_stride..];
        let right_data = &right.data[start * right.row_stride..];
        // SAFETY: `Matrix` guarantees that rows × cols elements with these strides lie inside its slice,
        // and a part of the inner dimension lies inside the whole; the asserts guarantee that the result
        // fits, and `target` is borrowed mutably, so nothing overlaps it.
        unsafe {
            // Column-major, as its kernels prefer: the transposed product, which is what `gemm::gemm`
            // makes of this call, too.
            gemm_f32::gemm::f32::get_gemm_fn()(
                right.cols,
                left.rows,
                inner,
                target.as_mut_ptr(),
                right.cols as isize,
                1,
                add || start > 0,
                right_data.as_ptr(),
                right.row_stride as isize,
                right.col_stride as isize,
                left_data.as_ptr(),
                left.row_stride as isize,
                left.col_stride as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm_common::Parallelism::None,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn random(rng: &mut Rng, len: usize) -> Vec<f32> {
        (0..len).map(|_| rng.normal() as f32).collect()
    }

    #[test]
    fn products_agree_with_the_triple_loop() {
        let mut rng = Rng::new(5);
        for (m, k, n) in [
            (1, 1, 1),
            (1, 7, 3),
            (5, 2, 9),
            (33, 17, 21),
            (64, 1100, 10),
        ] {
            let a = random(&mut rng, m * k);
            let b = random(&mut rng, k * n);
            let start = random(&mut rng, m * n);
            let mut c = start.clone();
            multiply_add(&mut c, Matrix::new(&a, m, k), Matrix::new(&b, k, n));
            let mut fresh = vec![9.0; m * n];
            // The transposes of the transposes: other strides, same product.
            let (at, bt) = (transpose(&a, m, k), transpose(&b, k, n));
            let (left, right) = (Matrix::new(&at, k, m), Matrix::new(&bt, n, k));
            multiply(&mut fresh, left.transposed(), right.transposed());
            for i in 0..m {
                for j in 0..n {
                    let term = |l: usize| f64::from(a[i * k + l]) * f64::from(b[l * n + j]);
                    let exact: f64 = (0..k).map(term).sum();
                    let size: f64 = (0..k).map(|l| term(l).abs()).sum();
                    // The bound on every kernel, in any order of summation.
                    let bound = |terms: usize, size: f64| terms as f64 * 0.5_f64.powi(24) * size;
                    let error = (f64::from(fresh[i * n + j]) - exact).abs();
                    assert!(error <= bound(k, size), "{m} {k} {n}: {error}");
                    let added = f64::from(start[i * n + j]);
                    let error = (f64::from(c[i * n + j]) - (exact + added)).abs();
                    assert!(
                        error <= bound(k + 1, size + added.abs()),
                        "{m} {k} {n}: {error}"
                    );
                }
            }
        }
    }

    fn transpose(data: &[f32], rows: usize, cols: usize) -> Vec<f32> {
        (0..cols)
            .flat_map(|j| (0..rows).map(move |i| data[i * cols + j]))
            .collect()
    }

    #[test]
    fn columns_are_a_part_of_the_product() {
        let mut rng = Rng::new(7);
        let (m, k, n) = (9, 14, 6);
        let (a, b) = (random(&mut rng, m * k), random(&mut rng, k * n));
        let (left, right) = (Matrix::new(&a, m, k), Matrix::new(&b, k, n));
        let mut all = vec![0.0; m * n];
        multiply(&mut all, left, right);
        let mut part = vec![0.0; m * 3];
        multiply(&mut part, left, right.columns(2, 3));
        for i in 0..m {
            for j in 0..3 {
                assert!((part[i * 3 + j] - all[i * n + j + 2]).abs() < 1e-5);
            }
        }
        // As rows of a transpose, which is how gradients read them.
        let mut rows = vec![0.0; 3 * m];
        multiply(
            &mut rows,
            right.columns(2, 3).transposed(),
            left.transposed(),
        );
        assert!((0..m * 3).all(|i| (rows[(i % 3) * m + i / 3] - part[i]).abs() < 1e-5));
    }

    #[test]
    fn gradients_do_not_depend_on_how_they_are_divided() {
        // The number of threads decides how: a gradient is inputs × outputs, summed over rows.
        let mut rng = Rng::new(8);
        for (rows, inputs, outputs) in [
            (128, 150, 1000),
            (128, 400, 150),
            (70, 100, 100),
            (1500, 40, 40),
            (9, 30, 1),
        ] {
            let values = random(&mut rng, rows * inputs);
            let deltas = random(&mut rng, rows * outputs);
            let left = Matrix::new(&values, rows, inputs);
            let right = Matrix::new(&deltas, rows, outputs);
            let mut whole = vec![0.0; inputs * outputs];
            multiply(&mut whole, left.transposed(), right);
            for size in [1, 2, 4, 7, 25, 64, 75, 134] {
                for first in (0..inputs).step_by(size) {
                    let count = size.min(inputs - first);
                    let mut part = vec![0.0; count * outputs];
                    multiply(&mut part, left.columns(first, count).transposed(), right);
                    assert!(
                        part == whole[first * outputs..][..count * outputs],
                        "{count} inputs of {inputs} × {outputs} differ"
                    );
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_neighbours() {
        let mut rng = Rng::new(6);
        for (k, n) in [
            (1, 1),
            (2, 2),
            (7, 1),
            (1000, 1),
            (3, 10),
            (10, 3),
            (100, 100),
            (1000, 150),
            (150, 1000),
        ] {
            let a = random(&mut rng, 300 * k);
            let b = random(&mut rng, k * n);
            let start = random(&mut rng, 300 * n);
            let mut all = start.clone();
            multiply_add(&mut all, Matrix::new(&a, 300, k), Matrix::new(&b, k, n));
            for m in [1, 2, 3, 5, 16, 17, 64, 299] {
                let mut some = start[..m * n].to_vec();
                multiply_add(
                    &mut some,
                    Matrix::new(&a[..m * k], m, k),
                    Matrix::new(&b, k, n),
                );
                assert!(some == all[..m * n], "{m} rows of {k} × {n} differ");
            }
        }
    }
}

//! A kernel model: logits ln p + b + Σ_j k(p, c_j) v_j.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::linear::add_terms;
use super::parts::stored_as_parts;
use super::{check, check_classes};
use crate::error::Result;
use crate::math::exp::exp_f32;
use crate::math::gemm::{Matrix, multiply};
use crate::math::simd::vectorized;
use crate::math::softmax;

/// A fitted kernel model.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelModel {
    parts: KernelParts,
    centres: Centres,
}

/// Everything a [`KernelModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelParts {
    /// K.
    pub classes: usize,
    /// s.
    pub scale: f64,
    /// √c of each centre, R×K.
    #[serde(skip)]
    pub centres: Vec<f32>,
    /// V, R×K.
    #[serde(skip)]
    pub coefficients: Vec<f32>,
    /// b, K numbers.
    #[serde(skip)]
    pub bias: Vec<f32>,
}

impl KernelParts {
    /// Log-probabilities below this are read as this.
    pub const LOWEST_LOG: f32 = -12.0;
}

/// The largest coefficient or bias in absolute value.
pub(crate) const LARGEST_COEFFICIENT: f32 = 1e6;

impl KernelModel {
    /// Takes a model apart.
    pub fn to_parts(&self) -> KernelParts {
        self.parts.clone()
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that does not fit the others.
    pub fn from_parts(parts: KernelParts) -> Result<Self> {
        let classes = parts.classes;
        check_classes(classes)?;
        let good = parts.scale > 0.0 && parts.scale <= 1e6;
        check(good, "scale", parts.scale, "a number from 0 to 1e6")?;
        let found = parts.centres.len();
        let good = found > 0 && found.is_multiple_of(classes);
        check(
            good,
            "centres",
            found,
            "one number per class for each centre",
        )?;
        let found = parts.coefficients.len();
        let good = found == parts.centres.len();
        check(
            good,
            "coefficients",
            found,
            "as many numbers as the centres have",
        )?;
        let found = parts.bias.len();
        check(found == classes, "bias", found, "one number per class")?;
        let good = parts.centres.iter().all(|c| (0.0..=1.0).contains(c));
        check(good, "centres", "out of range", "numbers from 0 to 1")?;
        for (name, values) in [("coefficients", &parts.coefficients), ("bias", &parts.bias)] {
            let good = values.iter().all(|v| v.abs() <= LARGEST_COEFFICIENT);
            check(good, name, "too large or NaN", "numbers within ±1e6")?;
        }
        let centres = Centres::new(&parts.centres, classes);
        Ok(Self { parts, centres })
    }
}

/// ‖r‖² of each row of roots.
fn norms(roots: &[f32], classes: usize) -> Vec<f32> {
    let rows = roots.chunks_exact(classes);
    rows.map(|row| row.iter().map(|r| r * r).sum()).collect()
}

/// Log-probabilities of rows, none of them below [`KernelParts::LOWEST_LOG`]; masked classes read that.
pub(crate) fn read(scores: &[f32], classes: usize, logs: &mut [f32]) {
    let mut shifts = vec![0.0; scores.len() / classes];
    softmax::log_sums(scores, classes, &mut shifts);
    subtract(scores, &shifts, logs);
}

vectorized! {
    fn subtract(scores: &[f32], shifts: &[f64], logs: &mut [f32]) {
        let classes = scores.len() / shifts.len();
        let rows = scores.chunks_exact(classes).zip(logs.chunks_exact_mut(classes));
        for ((scores, logs), shift) in rows.zip(shifts) {
            for (log, &score) in logs.iter_mut().zip(scores) {
                let value = (f64::from(score) - shift) as f32;
                *log = if value > KernelParts::LOWEST_LOG { value } else { KernelParts::LOWEST_LOG };
            }
        }
    }
}

vectorized! {
    /// √p of log-probabilities.
    pub(crate) fn roots(logs: &[f32], roots: &mut [f32]) {
        for (root, &log) in roots.iter_mut().zip(logs) {
            *root = exp_f32(0.5 * log).min(1.0);
        }
    }
}

vectorized! {
    /// From products of roots to the kernel's values.
    fn kernel_row(products: &mut [f32], norm: f32, norms: &[f32], scale: f32) {
        for (product, &other) in products.iter_mut().zip(norms) {
            let distance = norm + other - 2.0 * *product;
            let distance = if distance > 0.0 { distance } else { 0.0 };
            *product = exp_f32(-scale * distance);
        }
    }
}

/// The centres of a kernel, laid out for products with rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Centres {
    classes: usize,
    /// √c of each centre, transposed: K×R. Products with a transposed matrix would depend on the number of rows.
    columns: Vec<f32>,
    /// ‖√c‖² of each centre.
    pub(crate) norms: Vec<f32>,
}

impl Centres {
    /// From √c of each centre, R×K.
    pub(crate) fn new(roots: &[f32], classes: usize) -> Self {
        let columns = (0..classes).flat_map(|class| roots[class..].iter().step_by(classes));
        Self {
            classes,
            columns: columns.copied().collect(),
            norms: norms(roots, classes),
        }
    }

    /// R.
    pub(crate) fn count(&self) -> usize {
        self.norms.len()
    }

    /// Products of rows, given as roots, with the centres, N×R.
    pub(crate) fn products(&self, rows: &[f32]) -> Vec<f32> {
        let (classes, count) = (self.classes, rows.len() / self.classes);
        let mut values = vec![0.0; count * self.count()];
        let right = Matrix::new(&self.columns, classes, self.count());
        multiply(&mut values, Matrix::new(rows, count, classes), right);
        values
    }

    /// k between rows, given as roots, and the centres, N×R.
    pub(crate) fn kernel(&self, rows: &[f32], scale: f32) -> Vec<f32> {
        let mut values = self.products(rows);
        let row_norms = norms(rows, self.classes);
        for (values, norm) in values.chunks_exact_mut(self.count()).zip(row_norms) {
            kernel_row(values, norm, &self.norms, scale);
        }
        values
    }
}

impl Form for KernelModel {
    fn classes(&self) -> usize {
        self.parts.classes
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let (classes, count) = (block.classes, self.centres.count());
        let mut logs = vec![0.0; block.scores.len()];
        read(block.scores, classes, &mut logs);
        let mut rows = vec![0.0; logs.len()];
        roots(&logs, &mut rows);
        let values = self.centres.kernel(&rows, self.parts.scale as f32);
        let mut changes = rows;
        let left = Matrix::new(&values, block.rows(), count);
        let right = Matrix::new(&self.parts.coefficients, count, classes);
        multiply(&mut changes, left, right);
        add_terms(block.scores, &logs, &changes, &self.parts.bias, logits);
    }
}

stored_as_parts!(KernelModel, KernelParts, bias, centres, coefficients);

//! A kernel model: logits ln p + b + Σ_j k(p, c_j) v_j.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::linear::add_terms;
use super::mixing::{Shared, add_narrow_terms, add_softmax, repeated};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_classes};
use crate::error::Result;
use crate::math::exp::exp_f32;
use crate::math::gemm::{Matrix, multiply};
use crate::math::simd::vectorized;
use crate::math::softmax;

/// A fitted kernel model.
///
/// ```
/// use ordercal::models::{KernelModel, KernelParts};
/// use ordercal::{Model, ScoreKind};
///
/// // One centre without a weight: the logarithms of the probabilities plus a bias.
/// let model = Model::from(KernelModel::from_parts(KernelParts {
///     classes: 2,
///     scale: 1.0,
///     centres: vec![0.5_f32.sqrt(); 2],
///     coefficients: vec![0.0; 2],
///     bias: vec![0.0, 1.0],
/// })?);
/// let logits: Vec<f64> = model.apply_row(&[2.0, 2.0], ScoreKind::Logits)?;
/// assert!((logits[1] - logits[0] - 1.0).abs() < 1e-6);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct KernelModel {
    parts: KernelParts,
    centres: Centres,
    /// The biases as loops over several short rows read them.
    biases: Vec<f32>,
}

/// Everything a [`KernelModel`] is made of, to be stored or built by hand.
///
/// ```
/// use ordercal::models::{KernelModel, KernelParts};
///
/// let centres = vec![0.5_f32.sqrt(); 2];
/// let parts = KernelParts { classes: 2, scale: 1.0, centres, coefficients: vec![0.5, -0.5], bias: vec![0.0; 2] };
/// assert_eq!(KernelModel::from_parts(parts.clone())?.to_parts(), parts);
/// # Ok::<(), ordercal::Error>(())
/// ```
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
        let biases = repeated(&parts.bias);
        Ok(Self {
            parts,
            centres,
            biases,
        })
    }

    /// The log-probabilities that some rows are read as, and Σ_j k(p, c_j) v_j.
    fn changes(&self, block: &RowBlock<'_>, changes: &mut [f32]) -> Vec<f32> {
        let mut logs = vec![0.0; block.scores.len()];
        read(block.scores, block.classes, &mut logs);
        let mut rows = vec![0.0; logs.len()];
        roots(&logs, &mut rows);
        let values = self.centres.kernel(&rows, self.parts.scale as f32);
        let left = Matrix::new(&values, block.rows(), self.centres.count());
        let right = Matrix::new(
            &self.parts.coefficients,
            self.centres.count(),
            block.classes,
        );
        multiply(changes, left, right);
        logs
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
        let mut changes = vec![0.0; block.scores.len()];
        let logs = self.changes(block, &mut changes);
        add_terms(block.scores, &logs, &changes, &self.parts.bias, logits);
    }

    fn add_probabilities(
        &self,
        block: &RowBlock<'_>,
        weight: f64,
        shared: &mut Shared,
        sum: &mut [f64],
    ) {
        let logits = shared.narrow(sum.len());
        let logs = self.changes(block, logits);
        add_narrow_terms(block.scores, &logs, &self.biases, logits);
        add_softmax(logits, block.classes, weight, sum);
    }
}

impl Stored for KernelModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let own = self.to_parts();
        parts.set(&own);
        parts.tensor("bias", own.bias);
        parts.tensor("centres", own.centres);
        parts.tensor("coefficients", own.coefficients);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let (bias, centres) = (parts.tensor("bias")?, parts.tensor("centres")?);
        let coefficients = parts.tensor("coefficients")?;
        let settings: KernelParts = parts.settings()?;
        Self::from_parts(KernelParts {
            bias,
            centres,
            coefficients,
            ..settings
        })
    }
}

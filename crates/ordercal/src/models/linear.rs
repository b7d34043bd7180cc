//! A linear map: logits u + uD + b.

use serde::{Deserialize, Serialize};

use super::features::Features;
use super::form::{Form, RowBlock};
use super::mixing::{Shared, add_narrow_terms, add_softmax, multiply_by_class, repeated};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_classes};
use crate::error::Result;
use crate::math::gemm::{Matrix, multiply};
use crate::math::simd::vectorized;

/// A fitted linear map: the logits of a row are u + uD + b, where u are its K [`Features`], D is a K×K matrix or the K
/// diagonal elements of one, and b are K biases.
///
/// D = 0 and b = 0 is temperature scaling.
///
/// ```
/// use ordercal::models::{Features, LinearModel, LinearParts};
/// use ordercal::{InputKind, Model, ScoreKind};
///
/// let model = Model::from(LinearModel::from_parts(LinearParts {
///     classes: 2,
///     features: Features::Tempered { input: InputKind::Raw, beta: 1.0, range: (-1e6, 1e6) },
///     deviation: vec![0.5, 0.0],
///     bias: vec![0.0, 1.0],
/// })?);
/// let logits: Vec<f64> = model.apply_row(&[2.0, 1.0], ScoreKind::Logits)?;
/// assert_eq!(logits, [3.0, 2.0]);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModel {
    features: Features,
    deviation: Vec<f32>,
    bias: Vec<f32>,
    /// The biases, and the weights of a diagonal matrix, as loops over several short rows read them.
    biases: Vec<f32>,
    diagonals: Vec<f32>,
}

/// All data of a [`LinearModel`], to be stored or built by hand.
///
/// ```
/// use ordercal::models::{Features, LinearModel, LinearParts};
///
/// let features = Features::Mixed { beta: 1.0, share: 0.1 };
/// // Two classes: two weights of a diagonal matrix, or four of a full one.
/// let parts = LinearParts { classes: 2, features, deviation: vec![0.0; 4], bias: vec![0.0; 2] };
/// assert_eq!(LinearModel::from_parts(parts.clone())?.to_parts(), parts);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearParts {
    /// K.
    pub classes: usize,
    /// The features u of a row.
    pub features: Features,
    /// D: K diagonal elements, or K×K in row-major order; row i holds the weights of feature i.
    #[serde(skip)]
    pub deviation: Vec<f32>,
    /// b, K numbers.
    #[serde(skip)]
    pub bias: Vec<f32>,
}

impl LinearModel {
    /// The data of the model.
    pub fn to_parts(&self) -> LinearParts {
        LinearParts {
            classes: self.bias.len(),
            features: self.features.clone(),
            deviation: self.deviation.clone(),
            bias: self.bias.clone(),
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that is invalid.
    pub fn from_parts(parts: LinearParts) -> Result<Self> {
        let classes = parts.classes;
        check_classes(classes)?;
        parts.features.validate()?;
        let found = parts.deviation.len();
        let good = found == classes || Some(found) == classes.checked_mul(classes);
        let expected = "one number per class, or per pair of classes";
        check(good, "deviation", found, expected)?;
        let found = parts.bias.len();
        check(found == classes, "bias", found, "one number per class")?;
        for (name, values) in [("deviation", &parts.deviation), ("bias", &parts.bias)] {
            let good = values.iter().all(|v| v.abs() <= LARGEST_WEIGHT);
            check(good, name, "too large or NaN", "numbers within ±1e25")?;
        }
        let diagonal = parts.deviation.len() == classes;
        let diagonals = diagonal.then(|| repeated(&parts.deviation));
        Ok(Self {
            biases: repeated(&parts.bias),
            diagonals: diagonals.unwrap_or_default(),
            features: parts.features,
            deviation: parts.deviation,
            bias: parts.bias,
        })
    }

    /// The features of a row.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// uD for the features u of some rows.
    fn changes(&self, features: &[f32], changes: &mut [f32]) {
        let classes = self.bias.len();
        match self.shape() {
            LinearShape::Vector => multiply_by_class(features, &self.diagonals, changes),
            LinearShape::Matrix => {
                let left = Matrix::new(features, features.len() / classes, classes);
                multiply(
                    changes,
                    left,
                    Matrix::new(&self.deviation, classes, classes),
                );
            }
        }
    }

    /// Whether D is diagonal or a full matrix.
    pub(crate) fn shape(&self) -> LinearShape {
        if self.deviation.len() == self.bias.len() {
            LinearShape::Vector
        } else {
            LinearShape::Matrix
        }
    }
}

/// The shape of the weights of a linear map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinearShape {
    /// One weight per class: a diagonal matrix.
    Vector,
    /// One weight per pair of classes: a full matrix.
    Matrix,
}

/// The largest absolute value of a weight or bias. Features are at most 1e6, so sums of up to 1e7 products do not overflow
/// 32-bit floats.
pub(crate) const LARGEST_WEIGHT: f32 = 1e25;

impl Form for LinearModel {
    fn classes(&self) -> usize {
        self.bias.len()
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let mut features = vec![0.0_f32; block.scores.len()];
        self.features
            .of_block(block.scores, classes, &mut Vec::new(), &mut features);
        let mut changes = vec![0.0_f32; features.len()];
        self.changes(&features, &mut changes);
        add_terms(block.scores, &features, &changes, &self.bias, logits);
    }

    fn add_probabilities(
        &self,
        block: &RowBlock<'_>,
        weight: f64,
        shared: &mut Shared,
        sum: &mut [f64],
    ) {
        // The product is one of 32-bit numbers, so its softmax loses nothing in 32 bits.
        let (features, logits) = shared.features(&self.features, block);
        self.changes(features, logits);
        add_narrow_terms(block.scores, features, &self.biases, logits);
        add_softmax(logits, block.classes, weight, sum);
    }
}

vectorized! {
    /// The sum of the three terms of every logit; `-inf` for masked classes. There is a bias for each class.
    pub(super) fn add_terms(scores: &[f32], own: &[f32], changes: &[f32], bias: &[f32], logits: &mut [f64]) {
        let classes = bias.len();
        let rows = scores.chunks_exact(classes).zip(logits.chunks_exact_mut(classes));
        let terms = own.chunks_exact(classes).zip(changes.chunks_exact(classes));
        for ((scores, logits), (own, changes)) in rows.zip(terms) {
            for (class, logit) in logits.iter_mut().enumerate() {
                let sum = f64::from(own[class]) + f64::from(changes[class]) + f64::from(bias[class]);
                *logit = if scores[class] > f32::NEG_INFINITY { sum } else { f64::NEG_INFINITY };
            }
        }
    }
}

impl Stored for LinearModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let own = self.to_parts();
        parts.set(&own);
        parts.tensor("bias", own.bias);
        parts.tensor("deviation", own.deviation);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let (bias, deviation) = (parts.tensor("bias")?, parts.tensor("deviation")?);
        let settings: LinearParts = parts.settings()?;
        Self::from_parts(LinearParts {
            bias,
            deviation,
            ..settings
        })
    }
}

//! A linear map: logits u + uD + b.

use serde::{Deserialize, Serialize};

use super::features::Features;
use super::form::{Form, RowBlock};
use super::parts::stored_as_parts;
use super::{check, check_classes};
use crate::error::Result;
use crate::math::gemm::{Matrix, multiply};
use crate::math::simd::vectorized;

/// A fitted linear map: the logits of a row are u + uD + b, where u are its K [`Features`], D is a K×K matrix or the K
/// diagonal elements of one, and b are K biases.
///
/// D = 0 and b = 0 is temperature scaling.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModel {
    parts: LinearParts,
}

/// All data of a [`LinearModel`], to be stored or built by hand.
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
        self.parts.clone()
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
        Ok(Self { parts })
    }

    /// The features of a row.
    pub fn features(&self) -> &Features {
        &self.parts.features
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
        self.parts.classes
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let mut features = vec![0.0_f32; block.scores.len()];
        self.parts
            .features
            .of_block(block.scores, classes, &mut Vec::new(), &mut features);
        let mut changes = vec![0.0_f32; features.len()];
        let deviation = &self.parts.deviation;
        if deviation.len() == classes {
            multiply_by_class(&features, deviation, &mut changes);
        } else {
            let left = Matrix::new(&features, block.rows(), classes);
            let right = Matrix::new(deviation, classes, classes);
            multiply(&mut changes, left, right);
        }
        add_terms(block.scores, &features, &changes, &self.parts.bias, logits);
    }
}

vectorized! {
    fn multiply_by_class(values: &[f32], factors: &[f32], products: &mut [f32]) {
        let rows = values.chunks_exact(factors.len());
        for (values, products) in rows.zip(products.chunks_exact_mut(factors.len())) {
            for ((product, value), factor) in products.iter_mut().zip(values).zip(factors) {
                *product = value * factor;
            }
        }
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

stored_as_parts!(LinearModel, LinearParts, bias, deviation);

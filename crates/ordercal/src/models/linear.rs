//! A linear map: logits u + uD + b.

use serde::{Deserialize, Serialize};

use super::features::Features;
use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_classes};
use crate::error::Result;
use crate::math::gemm::{Matrix, multiply};

/// A fitted linear map: logits u + uD + b, with u the [`Features`] of a row and D a vector or a matrix.
///
/// D = 0 and b = 0 is temperature scaling, so D and b are what the labels said beyond it.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModel {
    features: Features,
    deviation: Vec<f32>,
    bias: Vec<f32>,
}

/// Everything a [`LinearModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearParts {
    /// K.
    pub classes: usize,
    /// What a row's scores become before they are weighted.
    pub features: Features,
    /// D: K numbers, one per class, or K×K, the first row being what the first feature adds to every class.
    #[serde(skip)]
    pub deviation: Vec<f32>,
    /// b, K numbers.
    #[serde(skip)]
    pub bias: Vec<f32>,
}

impl LinearModel {
    /// Takes a model apart.
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
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that does not fit the others.
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
        Ok(Self {
            features: parts.features,
            deviation: parts.deviation,
            bias: parts.bias,
        })
    }

    /// What a row's scores become before they are weighted.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Whether D is a vector or a matrix.
    pub(crate) fn shape(&self) -> LinearShape {
        if self.deviation.len() == self.bias.len() {
            LinearShape::Vector
        } else {
            LinearShape::Matrix
        }
    }
}

/// How many weights a linear map has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinearShape {
    /// A weight per class.
    Vector,
    /// A weight per pair of classes.
    Matrix,
}

/// Features are at most 1e6, so a product with K such numbers stays within 32 bits for any K in use.
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
        let rows = block.rows();
        let mut features = vec![0.0_f32; block.scores.len()];
        let mut scratch = vec![0.0; classes];
        for (row, features) in features.chunks_exact_mut(classes).enumerate() {
            self.features.read(block.row(row), &mut scratch, features);
        }
        let mut changes = vec![0.0_f32; features.len()];
        match self.shape() {
            LinearShape::Vector => {
                for (change, u) in changes
                    .chunks_exact_mut(classes)
                    .zip(features.chunks_exact(classes))
                {
                    for ((change, u), d) in change.iter_mut().zip(u).zip(&self.deviation) {
                        *change = d * u;
                    }
                }
            }
            LinearShape::Matrix => {
                let right = Matrix::new(&self.deviation, classes, classes);
                multiply(&mut changes, Matrix::new(&features, rows, classes), right);
            }
        }
        for (index, logit) in logits.iter_mut().enumerate() {
            *logit = if block.scores[index] > f32::NEG_INFINITY {
                f64::from(features[index])
                    + f64::from(changes[index])
                    + f64::from(self.bias[index % classes])
            } else {
                f64::NEG_INFINITY
            };
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

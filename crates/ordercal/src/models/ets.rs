//! A mixture of the tempered, the original and the uniform distribution.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_beta, check_classes};
use crate::error::Result;
use crate::math::softmax;

/// A fitted mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct EtsModel {
    pub(crate) parts: EtsParts,
}

/// Everything an [`EtsModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtsParts {
    /// K.
    pub classes: usize,
    /// β.
    pub beta: f64,
    /// The weights of the tempered, the original and the uniform distribution.
    pub weights: [f64; 3],
}

impl EtsModel {
    /// Takes a model apart.
    pub fn to_parts(&self) -> EtsParts {
        self.parts.clone()
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that is out of range.
    pub fn from_parts(parts: EtsParts) -> Result<Self> {
        check_classes(parts.classes)?;
        check_beta(parts.beta)?;
        let sum: f64 = parts.weights.iter().sum();
        let good = parts.weights.iter().all(|&w| w >= 0.0) && (sum - 1.0).abs() <= 1e-6;
        let found = format!("{:?}", parts.weights);
        check(good, "weights", found, "three shares that sum to 1")?;
        Ok(Self { parts })
    }

    /// The weights of the tempered, the original and the uniform distribution.
    pub fn weights(&self) -> [f64; 3] {
        self.parts.weights
    }

    /// β.
    pub fn inverse_temperature(&self) -> f64 {
        self.parts.beta
    }
}

impl Form for EtsModel {
    fn classes(&self) -> usize {
        self.parts.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let logs = self.parts.weights.map(f64::ln);
        let mut tempered = vec![0.0; classes];
        let mut scratch = vec![0.0; classes];
        for (row, logits) in logits.chunks_exact_mut(classes).enumerate() {
            let scores = block.row(row);
            for ((logit, tempered), &score) in logits.iter_mut().zip(&mut tempered).zip(scores) {
                *logit = f64::from(score);
                *tempered = self.parts.beta * f64::from(score);
            }
            softmax::log_probabilities(&mut tempered, &mut scratch);
            softmax::log_probabilities(logits, &mut scratch);
            let possible = scores.iter().filter(|s| **s > f32::NEG_INFINITY).count();
            let uniform = logs[2] - (possible as f64).ln();
            // Logarithms all along: a probability that underflows still has its place in the order.
            for ((logit, &tempered), &score) in logits.iter_mut().zip(&tempered).zip(scores) {
                if score > f32::NEG_INFINITY {
                    let terms = [logs[0] + tempered, logs[1] + *logit, uniform];
                    *logit = log_sum(&terms);
                }
            }
        }
    }
}

impl Stored for EtsModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        parts.set(&self.parts);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        Self::from_parts(parts.settings()?)
    }
}

/// ln Σ eᵗ.
pub(super) fn log_sum(terms: &[f64]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn the_mixture_is_what_the_formula_says() {
        let parts = EtsParts {
            classes: 3,
            beta: 0.5,
            weights: [0.6, 0.3, 0.1],
        };
        let model = EtsModel::from_parts(parts.clone()).unwrap();
        assert_eq!(model.to_parts(), parts);
        let scores = [2.0_f32, f32::NEG_INFINITY, 0.0];
        let block = RowBlock {
            scores: &scores,
            order: &[0, 2, 1],
            classes: 3,
        };
        let mut logits = [0.0; 3];
        model.logits(&block, &mut logits);
        let soft = |beta: f64| {
            let (a, b) = ((2.0 * beta).exp(), 1.0);
            [a / (a + b), b / (a + b)]
        };
        for (at, class) in [0, 2].into_iter().enumerate() {
            let expected = 0.6 * soft(0.5)[at] + 0.3 * soft(1.0)[at] + 0.1 / 2.0;
            assert!((logits[class].exp() - expected).abs() < 1e-12);
        }
        assert_eq!(logits[1], f64::NEG_INFINITY);
    }

    #[test]
    fn parts_are_checked() {
        let good = EtsParts {
            classes: 3,
            beta: 0.5,
            weights: [0.6, 0.3, 0.1],
        };
        let name = |change: &dyn Fn(&mut EtsParts)| {
            let mut parts = good.clone();
            change(&mut parts);
            match EtsModel::from_parts(parts) {
                Err(Error::InvalidPart { part, .. }) => part,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(&*name(&|p| p.classes = 1), "classes");
        assert_eq!(&*name(&|p| p.beta = 0.0), "beta");
        assert_eq!(&*name(&|p| p.weights = [0.5, 0.6, -0.1]), "weights");
        assert_eq!(&*name(&|p| p.weights = [0.5, 0.6, 0.1]), "weights");
    }
}

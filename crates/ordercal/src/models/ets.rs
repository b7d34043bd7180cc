//! A mixture of the tempered, the original and the uniform distribution.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock, count_unmasked};
use super::parts::stored_as_parts;
use super::{check, check_beta, check_classes};
use crate::error::Result;
use crate::math::exp::{exp_f64, ln_f64};
use crate::math::simd::vectorized;
use crate::math::softmax;

/// A fitted mixture w₁ softmax(βx) + w₂ softmax(x) + w₃/K for K classes.
#[derive(Debug, Clone, PartialEq)]
pub struct EtsModel {
    pub(crate) parts: EtsParts,
}

/// All data of an [`EtsModel`], to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtsParts {
    /// K.
    pub classes: usize,
    /// β > 0, the inverse temperature.
    pub beta: f64,
    /// w: the weights of the tempered, the original and the uniform distribution, which sum to 1.
    pub weights: [f64; 3],
}

impl EtsModel {
    /// The data of the model.
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
        check(
            good,
            "weights",
            found,
            "three non-negative numbers that sum to 1",
        )?;
        Ok(Self { parts })
    }

    /// The weights of the tempered, the original and the uniform distribution.
    pub fn weights(&self) -> [f64; 3] {
        self.parts.weights
    }

    /// β, the inverse temperature.
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
        let mut tempered = vec![0.0; logits.len()];
        let mut scratch = Vec::new();
        let scores = block.scores.iter();
        for ((logit, tempered), &score) in logits.iter_mut().zip(&mut tempered).zip(scores) {
            *logit = f64::from(score);
            *tempered = self.parts.beta * f64::from(score);
        }
        softmax::log_probabilities(&mut tempered, classes, &mut scratch);
        softmax::log_probabilities(logits, classes, &mut scratch);
        let rows = logits.chunks_exact_mut(classes);
        for (row, (logits, tempered)) in rows.zip(tempered.chunks_exact(classes)).enumerate() {
            let scores = block.row(row);
            let uniform = logs[2] - (count_unmasked(scores) as f64).ln();
            mix(logs, tempered, uniform, scores, logits);
        }
    }
}

vectorized! {
    /// ln(w₁eᵗ + w₂eˡ + eᵘ) for the tempered t and the logit l of every class and the uniform u. In the log domain, because
    /// the order must be kept where probabilities underflow.
    fn mix(logs: [f64; 3], tempered: &[f64], uniform: f64, scores: &[f32], logits: &mut [f64]) {
        for ((logit, &tempered), &score) in logits.iter_mut().zip(tempered).zip(scores) {
            let terms = [logs[0] + tempered, logs[1] + *logit, uniform];
            let top = terms[0].max(terms[1]).max(terms[2]);
            let sum = exp_f64(terms[0] - top) + exp_f64(terms[1] - top) + exp_f64(terms[2] - top);
            *logit = if score > f32::NEG_INFINITY { top + ln_f64(sum) } else { f64::NEG_INFINITY };
        }
    }
}

stored_as_parts!(EtsModel, EtsParts);

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
        for (index, class) in [0, 2].into_iter().enumerate() {
            let expected = 0.6 * soft(0.5)[index] + 0.3 * soft(1.0)[index] + 0.1 / 2.0;
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

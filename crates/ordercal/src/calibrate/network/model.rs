//! A fitted network family, and how it transforms rows.

use serde::{Deserialize, Serialize};

use super::{Wiring, check_hidden};
use crate::calibrate::apply::Block;
use crate::error::{Error, Result};
use crate::math::exp::multiplier_f32;
use crate::nn::input::{InputKind, Inputs};
use crate::nn::mlp::Shape;
use crate::rank::Sorter;
use crate::traits::Transform;

/// A fitted network family.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkModel {
    pub(super) wiring: Wiring,
    pub(super) inputs: Inputs,
    pub(super) shape: Shape,
    pub(super) beta: f64,
    pub(super) params: Vec<f32>,
}

/// Everything a [`NetworkModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParts {
    /// What the network reads and what its outputs mean.
    pub wiring: Wiring,
    /// K.
    pub classes: usize,
    /// Units of each hidden layer.
    pub hidden: Vec<usize>,
    /// The shift of a row before the network reads it.
    pub input: InputKind,
    /// What the shifted scores are divided by.
    pub scale: f64,
    /// The range inputs are held in, after the division.
    pub range: (f64, f64),
    /// The multiplier of every gap where the network says 0; without meaning for an unconstrained one.
    pub beta: f64,
    /// Weights (inputs × outputs, row by row) and biases, layer by layer.
    #[serde(skip)]
    pub params: Vec<f32>,
}

impl NetworkModel {
    /// Takes a model apart.
    pub fn to_parts(&self) -> NetworkParts {
        NetworkParts {
            wiring: self.wiring,
            classes: self.shape.outputs(),
            hidden: self.shape.hidden().to_vec(),
            input: self.inputs.kind,
            scale: self.inputs.scale,
            range: (self.inputs.low, self.inputs.high),
            beta: self.beta,
            params: self.params.clone(),
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first part that does not fit the others.
    pub fn from_parts(parts: NetworkParts) -> Result<Self> {
        let fail = |name, value: String, expected| {
            Err(Error::InvalidParameter {
                name,
                value,
                expected,
            })
        };
        check_hidden(&parts.hidden)?;
        if parts.classes < 2 {
            return fail("classes", parts.classes.to_string(), "at least 2");
        }
        if !(parts.scale > 0.0 && parts.scale.is_finite()) {
            return fail("scale", parts.scale.to_string(), "a positive number");
        }
        let (low, high) = parts.range;
        if !(low <= high && low.is_finite() && high.is_finite()) {
            return fail(
                "range",
                format!("{low}..{high}"),
                "two finite numbers in order",
            );
        }
        if !(parts.beta > 0.0 && parts.beta.is_finite()) {
            return fail("beta", parts.beta.to_string(), "a positive number");
        }
        let shape = Shape::new(parts.classes, &parts.hidden, parts.classes);
        if parts.params.len() != shape.params() {
            return fail(
                "params",
                parts.params.len().to_string(),
                "as many as the layers' widths call for",
            );
        }
        if !parts.params.iter().all(|p| p.is_finite()) {
            return fail("params", "NaN or infinity".to_owned(), "finite numbers");
        }
        Ok(Self {
            wiring: parts.wiring,
            inputs: Inputs {
                kind: parts.input,
                scale: parts.scale,
                low,
                high,
            },
            shape,
            beta: parts.beta,
            params: parts.params,
        })
    }
}

impl Transform for NetworkModel {
    fn classes(&self) -> usize {
        self.shape.outputs()
    }

    fn order_preserving(&self) -> bool {
        self.wiring != Wiring::ClassesToLogits
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let rows = block.rows();
        let mut network_inputs = vec![0.0_f32; block.scores.len()];
        let mut sorter = Sorter::new(classes);
        for (row, inputs) in network_inputs.chunks_exact_mut(classes).enumerate() {
            let scores = block.row(row);
            let order = if block.order.is_empty() {
                sorter.sort(scores)
            } else {
                block.row_order(row)
            };
            self.read(scores, order, inputs);
        }
        let mut buffers = self.shape.buffers(rows);
        let outputs = self
            .shape
            .forward(&self.params, &network_inputs, rows, &mut buffers);
        for (row, (logits, outputs)) in logits
            .chunks_exact_mut(classes)
            .zip(outputs.chunks_exact(classes))
            .enumerate()
        {
            let scores = block.row(row);
            if self.order_preserving() {
                self.stack(scores, block.row_order(row), outputs, logits);
            } else {
                for ((logit, &output), &score) in logits.iter_mut().zip(outputs).zip(scores) {
                    *logit = if score > f32::NEG_INFINITY {
                        f64::from(output)
                    } else {
                        f64::NEG_INFINITY
                    };
                }
            }
        }
    }
}

impl NetworkModel {
    /// Makes the network's inputs of a row.
    fn read(&self, scores: &[f32], order: &[u32], inputs: &mut [f32]) {
        let possible = possible(scores, order);
        let descending = possible.iter().map(|&class| scores[class as usize]);
        let shift = self.inputs.kind.shift(descending);
        let mut smallest = 0.0;
        for (position, &class) in order.iter().enumerate() {
            let target = match self.wiring {
                Wiring::SortedToGaps => position,
                Wiring::ClassesToGaps | Wiring::ClassesToLogits => class as usize,
            };
            if position < possible.len() {
                smallest = self.inputs.value(scores[class as usize], shift);
            }
            inputs[target] = smallest;
        }
    }

    /// f(x) = S(x)⁻¹ U w: gaps times multipliers, summed from the smallest class up, put back in place.
    fn stack(&self, scores: &[f32], order: &[u32], outputs: &[f32], logits: &mut [f64]) {
        let possible = possible(scores, order);
        let mut level = 0.0;
        for position in (0..possible.len()).rev() {
            let class = possible[position] as usize;
            if let Some(&below) = possible.get(position + 1) {
                let gap = f64::from(scores[class]) - f64::from(scores[below as usize]);
                // The softplus is positive, but 32 bits may not show it.
                let multiplier = multiplier_f32(outputs[position]).0.max(f32::MIN_POSITIVE);
                level += gap * self.beta * f64::from(multiplier);
            }
            logits[class] = level;
        }
        for &class in &order[possible.len()..] {
            logits[class as usize] = f64::NEG_INFINITY;
        }
    }
}

/// The sorted classes that are not masked.
fn possible<'a>(scores: &[f32], order: &'a [u32]) -> &'a [u32] {
    let count = order.partition_point(|&class| scores[class as usize] > f32::NEG_INFINITY);
    &order[..count]
}

//! A fitted network family, and how it transforms rows.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_beta, check_classes};
use crate::error::{Error, Result};
use crate::math::exp::multiplier_f32;
use crate::math::simd::vectorized;
use crate::nn::input::{InputKind, Inputs};
use crate::nn::mlp::Shape;
use crate::rank::Sorter;

/// How a network sits between scores and logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// Reads sorted scores, gives multipliers of the gaps.
    SortedToGaps,
    /// Reads scores in class order, gives multipliers of the gaps.
    ClassesToGaps,
    /// Reads scores in class order, gives logits.
    ClassesToLogits,
}

/// A fitted network family.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkModel {
    pub(crate) wiring: Wiring,
    pub(crate) inputs: Inputs,
    pub(crate) shape: Shape,
    pub(crate) beta: f64,
    pub(crate) params: Vec<f32>,
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
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that does not fit the others.
    pub fn from_parts(parts: NetworkParts) -> Result<Self> {
        check_hidden(&parts.hidden)?;
        check_classes(parts.classes)?;
        let good = parts.scale > 0.0 && parts.scale.is_finite();
        check(good, "scale", parts.scale, "a positive number")?;
        let (low, high) = parts.range;
        let good = low <= high && low.is_finite() && high.is_finite();
        let found = format!("{low}..{high}");
        check(good, "range", found, "two finite numbers in order")?;
        check_beta(parts.beta)?;
        let shape = Shape::new(parts.classes, &parts.hidden, parts.classes);
        let found = parts.params.len();
        let expected = "as many as the layers' widths call for";
        check(found == shape.params(), "params", found, expected)?;
        let good = parts.params.iter().all(|p| p.is_finite());
        check(good, "params", "NaN or infinity", "finite numbers")?;
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

impl Form for NetworkModel {
    fn classes(&self) -> usize {
        self.shape.outputs()
    }

    fn order_preserving(&self) -> bool {
        self.wiring != Wiring::ClassesToLogits
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let rows = block.rows();
        let mut sorter = Sorter::new(classes);
        // Sorted scores, and beside them what the network reads.
        let mut sorted = vec![0.0_f32; block.scores.len()];
        let mut network_inputs = vec![0.0_f32; block.scores.len()];
        let mut possible = vec![0; rows];
        for (row, possible) in possible.iter_mut().enumerate() {
            let here = row * classes..(row + 1) * classes;
            let (sorted, inputs) = (&mut sorted[here.clone()], &mut network_inputs[here]);
            let scores = block.row(row);
            let order = if block.order.is_empty() {
                sorter.sort(scores)
            } else {
                block.row_order(row)
            };
            for (sorted, &class) in sorted.iter_mut().zip(order) {
                *sorted = scores[class as usize];
            }
            *possible = sorted.partition_point(|&score| score > f32::NEG_INFINITY);
            self.read(scores, &sorted[..*possible], inputs);
        }
        let mut buffers = self.shape.buffers(rows);
        let outputs = self
            .shape
            .forward(&self.params, &network_inputs, rows, &mut buffers);
        if !self.order_preserving() {
            for ((logit, &output), &score) in logits.iter_mut().zip(&*outputs).zip(block.scores) {
                *logit = if score > f32::NEG_INFINITY {
                    f64::from(output)
                } else {
                    f64::NEG_INFINITY
                };
            }
            return;
        }
        let mut steps = vec![0.0; classes];
        for (row, (logits, outputs)) in logits
            .chunks_exact_mut(classes)
            .zip(outputs.chunks_exact(classes))
            .enumerate()
        {
            let sorted = &sorted[row * classes..][..possible[row]];
            gaps(sorted, outputs, self.beta, &mut steps);
            stack(&steps, block.row_order(row), sorted.len(), logits);
        }
    }
}

impl Stored for NetworkModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        let own = self.to_parts();
        parts.set(&own);
        parts.tensor("params", own.params);
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let params = parts.tensor("params")?;
        let settings: NetworkParts = parts.settings()?;
        Self::from_parts(NetworkParts { params, ..settings })
    }
}

/// Checks the widths of hidden layers.
///
/// # Errors
/// If there are none or too many, or one is empty.
pub(crate) fn check_hidden(hidden: &[usize]) -> Result<()> {
    if hidden.is_empty() || hidden.contains(&0) || hidden.len() > 8 {
        let found = format!("{hidden:?}");
        return Err(Error::invalid(
            "hidden",
            found,
            "1 to 8 layers of at least 1 unit",
        ));
    }
    Ok(())
}

impl NetworkModel {
    /// Makes the network's inputs of a row, whose possible scores are given in descending order, too.
    fn read(&self, scores: &[f32], possible: &[f32], inputs: &mut [f32]) {
        let shift = self.inputs.kind.shift(possible);
        let source = match self.wiring {
            Wiring::SortedToGaps => possible,
            Wiring::ClassesToGaps | Wiring::ClassesToLogits => scores,
        };
        let smallest = possible[possible.len() - 1];
        // Masked classes read as the smallest possible one.
        let (seen, masked) = inputs.split_at_mut(source.len());
        self.inputs.read(source, smallest, shift, seen);
        masked.fill(self.inputs.value(smallest, shift));
    }
}

vectorized! {
    /// What each sorted class lies above the next: gaps times multipliers.
    fn gaps(sorted: &[f32], outputs: &[f32], beta: f64, steps: &mut [f64]) {
        let pairs = sorted.iter().zip(&sorted[1..]);
        for ((&here, &next), (step, &output)) in pairs.zip(steps.iter_mut().zip(outputs)) {
            let gap = f64::from(here) - f64::from(next);
            let multiplier = multiplier_f32(output).0;
            // The softplus is positive, but 32 bits may not show it.
            let multiplier = if multiplier > f32::MIN_POSITIVE { multiplier } else { f32::MIN_POSITIVE };
            *step = gap * beta * f64::from(multiplier);
        }
        steps[sorted.len() - 1] = 0.0;
    }
}

/// f(x) = S(x)⁻¹ U w: steps summed from the smallest class up, put back in place.
fn stack(steps: &[f64], order: &[u32], possible: usize, logits: &mut [f64]) {
    let (order, masked) = order.split_at(possible);
    let mut level = 0.0;
    for (&class, &step) in order.iter().zip(steps).rev() {
        level += step;
        logits[class as usize] = level;
    }
    for &class in masked {
        logits[class as usize] = f64::NEG_INFINITY;
    }
}

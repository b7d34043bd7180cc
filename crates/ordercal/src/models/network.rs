//! Fitted networks: the models of `oi`, `op` and `unconstrained`.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::parts::stored_as_parts;
use super::{check, check_beta, check_classes};
use crate::error::{Error, Result};
use crate::math::exp::multiplier_f32;
use crate::math::simd::vectorized;
use crate::math::softmax::log_sum_exp;
use crate::nn::input::{InputKind, Inputs, read_row};
use crate::nn::mlp::Shape;
use crate::rank::Sorter;

/// The inputs of a network and the meaning of its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// From sorted scores to multipliers of the gaps between them.
    SortedToGaps,
    /// From scores in class order to multipliers of the gaps between sorted scores.
    ClassesToGaps,
    /// From scores in class order to logits.
    ClassesToLogits,
}

/// A fitted network with K inputs and K outputs, or fewer if it reads the [top](NetworkParts::top) scores only.
///
/// For the two wirings to gaps, the logits are f(x) = S(x)⁻¹ U w: with the scores sorted in descending order, y = S(x)x, the
/// gaps w_i = (y_i − y_{i+1})·m_i are multiplied by positive multipliers m = β·softplus(network + c), where softplus(c) = 1,
/// and summed from the smallest score up (U is the upper-triangular matrix of ones). Otherwise the outputs are the logits.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkModel {
    pub(crate) reader: InputReader,
    pub(crate) classes: usize,
    pub(crate) shape: Shape,
    pub(crate) beta: f64,
    pub(crate) params: Vec<f32>,
}

/// All data of a [`NetworkModel`], to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParts {
    /// The inputs of the network and the meaning of its outputs.
    pub wiring: Wiring,
    /// K.
    pub classes: usize,
    /// The network reads the `top` largest scores and ln Σ e^y of the rest, and all gaps behind these scores share one
    /// multiplier, so that there are `top` + 1 outputs. With the scores in class order, those below the first of the rest
    /// are read as that one. Less than K − 1; all scores are read without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<usize>,
    /// The number of units of each hidden layer.
    pub hidden: Vec<usize>,
    /// The shift that is subtracted from a row.
    pub input: InputKind,
    /// The divisor of the shifted scores.
    pub scale: f64,
    /// The range to which the inputs are clamped after the division.
    pub range: (f64, f64),
    /// β > 0, the multiplier of a gap where the output of the network is 0; unused if the outputs are logits.
    pub beta: f64,
    /// Layer by layer, the weights (inputs × outputs in row-major order) and the biases.
    #[serde(skip)]
    pub params: Vec<f32>,
}

impl NetworkParts {
    /// How many inputs and outputs the network has.
    pub fn ends(&self) -> (usize, usize) {
        ends(self.wiring, self.classes, self.top)
    }
}

fn ends(wiring: Wiring, classes: usize, top: Option<usize>) -> (usize, usize) {
    match (top, wiring) {
        (None, _) => (classes, classes),
        (Some(top), Wiring::SortedToGaps) => (top + 1, top + 1),
        (Some(top), Wiring::ClassesToGaps | Wiring::ClassesToLogits) => (classes + 1, top + 1),
    }
}

impl NetworkModel {
    /// The data of the model.
    pub fn to_parts(&self) -> NetworkParts {
        NetworkParts {
            wiring: self.reader.wiring,
            classes: self.classes,
            top: self.reader.top,
            hidden: self.shape.hidden().to_vec(),
            input: self.reader.inputs.kind,
            scale: self.reader.inputs.scale,
            range: (self.reader.inputs.low, self.reader.inputs.high),
            beta: self.beta,
            params: self.params.clone(),
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`] names the first part that is invalid.
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
        let possible = parts.wiring != Wiring::ClassesToLogits;
        let good = |top: usize| possible && top > 0 && top + 1 < parts.classes;
        if let Some(top) = parts.top {
            check(
                good(top),
                "top",
                top,
                "fewer scores than there are classes, and gaps as outputs",
            )?;
        }
        let reader = InputReader {
            wiring: parts.wiring,
            top: parts.top,
            inputs: Inputs {
                kind: parts.input,
                scale: parts.scale,
                low,
                high,
            },
        };
        let shape = reader.shape(parts.classes, &parts.hidden);
        let found = parts.params.len();
        let expected = "the number of weights and biases of the layers";
        check(found == shape.params(), "params", found, expected)?;
        let good = parts.params.iter().all(|p| p.is_finite());
        check(good, "params", "NaN or infinity", "finite numbers")?;
        Ok(Self {
            reader,
            classes: parts.classes,
            shape,
            beta: parts.beta,
            params: parts.params,
        })
    }
}

impl Form for NetworkModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        self.reader.wiring != Wiring::ClassesToLogits
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let rows = block.rows();
        let mut sorter = Sorter::new(classes);
        let mut sorted = vec![0.0_f32; block.scores.len()];
        let mut network_inputs = vec![0.0_f32; rows * self.shape.inputs()];
        let mut possible = vec![0; rows];
        let targets = network_inputs.chunks_exact_mut(self.shape.inputs());
        for (row, (possible, inputs)) in possible.iter_mut().zip(targets).enumerate() {
            let sorted = &mut sorted[row * classes..(row + 1) * classes];
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
            self.reader.read(scores, &sorted[..*possible], inputs);
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
            .zip(outputs.chunks_exact(self.shape.outputs()))
            .enumerate()
        {
            let sorted = &sorted[row * classes..][..possible[row]];
            scaled_gaps(sorted, outputs, self.beta, &mut steps);
            cumulate(&steps, block.row_order(row), sorted.len(), logits);
        }
    }
}

stored_as_parts!(NetworkModel, NetworkParts, params);

/// The weights between two layers as wide as this take a gigabyte.
const MOST_UNITS: usize = 1 << 14;

/// Checks the widths of hidden layers.
///
/// # Errors
/// If there is no hidden layer, there are more than 8, or one has no units or too many.
pub(crate) fn check_hidden(hidden: &[usize]) -> Result<()> {
    let fits = |units: &usize| (1..=MOST_UNITS).contains(units);
    if hidden.is_empty() || !hidden.iter().all(fits) || hidden.len() > 8 {
        let found = format!("{hidden:?}");
        return Err(Error::invalid(
            "hidden",
            found,
            "1 to 8 layers of 1 to 16384 units; 100,100 is usual",
        ));
    }
    Ok(())
}

/// What a network reads of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InputReader {
    pub(crate) wiring: Wiring,
    /// See [`NetworkParts::top`].
    pub(crate) top: Option<usize>,
    pub(crate) inputs: Inputs,
}

impl InputReader {
    /// The layers of a network that reads rows of so many classes.
    pub(crate) fn shape(&self, classes: usize, hidden: &[usize]) -> Shape {
        let (inputs, outputs) = ends(self.wiring, classes, self.top);
        Shape::new(inputs, hidden, outputs)
    }

    /// Writes the network's inputs for a row. `possible` holds its unmasked scores in descending order.
    pub(crate) fn read(&self, scores: &[f32], possible: &[f32], mut inputs: &mut [f32]) {
        let shift = self.inputs.kind.shift(possible);
        let mut known = possible;
        // A masked class is read as the smallest unmasked score.
        let mut least = possible[possible.len() - 1];
        if let Some(top) = self.top {
            let (first, last) = inputs.split_at_mut(inputs.len() - 1);
            let rest = &possible[top.min(possible.len())..];
            // Where there is no rest, its mass is 0.
            let mass = rest
                .first()
                .map_or(f64::NEG_INFINITY, |_| log_sum_exp(rest));
            last[0] = self.inputs.value(mass as f32, shift);
            least = *rest.first().unwrap_or(&least);
            known = &possible[..possible.len() - rest.len()];
            inputs = first;
        }
        let source = match self.wiring {
            Wiring::SortedToGaps => known,
            Wiring::ClassesToGaps | Wiring::ClassesToLogits => scores,
        };
        let (unmasked, masked) = inputs.split_at_mut(source.len());
        read_row(&self.inputs, source, least, shift, unmasked);
        masked.fill(self.inputs.value(least, shift));
    }
}

vectorized! {
    /// The gaps between neighbouring sorted scores, times their multipliers; from the last output on they share its.
    fn scaled_gaps(sorted: &[f32], outputs: &[f32], beta: f64, steps: &mut [f64]) {
        let scaled = |here: f32, next: f32, output: f32| {
            let gap = f64::from(here) - f64::from(next);
            let multiplier = multiplier_f32(output).0;
            // The softplus is positive, but may underflow in 32 bits.
            let multiplier = if multiplier > f32::MIN_POSITIVE { multiplier } else { f32::MIN_POSITIVE };
            gap * beta * f64::from(multiplier)
        };
        let pairs = sorted.iter().zip(&sorted[1..]);
        for ((&here, &next), (step, &output)) in pairs.zip(steps.iter_mut().zip(outputs)) {
            *step = scaled(here, next, output);
        }
        let shared = outputs[outputs.len() - 1];
        let tail = sorted.windows(2).zip(&mut *steps).skip(outputs.len());
        for (pair, step) in tail {
            *step = scaled(pair[0], pair[1], shared);
        }
        steps[sorted.len() - 1] = 0.0;
    }
}

/// f(x) = S(x)⁻¹ U w: the cumulative sums of the steps from the smallest score up, in class order.
fn cumulate(steps: &[f64], order: &[u32], possible: usize, logits: &mut [f64]) {
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

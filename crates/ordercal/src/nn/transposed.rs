//! Small networks on transposed data: a structure of arrays, in which one unit of many rows is contiguous.
//!
//! With ten classes and ten units, a matrix product is all overhead, and a row does not fill a vector register. Here a
//! vector holds the same unit of 16 rows, and a layer is a sum of such vectors times one weight each.

use super::mlp::Shape;
use crate::math::simd::vectorized;

/// The largest number of rows.
pub(crate) const ROWS: usize = 256;
/// Rows whose sums stay in registers; numbers of rows are rounded up to multiples of it.
pub(crate) const BLOCK: usize = 64;
/// Rows per vector.
pub(crate) const LANES: usize = 16;

/// The activations of some rows and the gradients on them: `values[layer][unit * ROWS + row]`.
#[derive(Debug, Clone)]
pub(crate) struct Activations {
    /// The inputs, then the values of every layer; the last layer's are overwritten by the gradient on them.
    values: Vec<Vec<f32>>,
    /// Gradients on the values of hidden layers.
    deltas: Vec<Vec<f32>>,
}

impl Activations {
    pub(crate) fn new(shape: &Shape) -> Self {
        let widths = |widths: &[usize]| widths.iter().map(|w| vec![0.0; w * ROWS]).collect();
        Self {
            values: widths(shape.widths()),
            deltas: widths(shape.hidden()),
        }
    }

    pub(crate) fn inputs(&self) -> &[f32] {
        &self.values[0]
    }

    pub(crate) fn inputs_mut(&mut self) -> &mut [f32] {
        &mut self.values[0]
    }

    /// The last layer's values, or the gradient on them.
    pub(crate) fn outputs_mut(&mut self) -> &mut [f32] {
        self.values.last_mut().expect("a network has a last layer")
    }

    /// Evaluates the network on the inputs of the first `rows` rows, a multiple of [`BLOCK`], and returns the last layer's
    /// values. The caller may overwrite them with the gradient on them, for [`backward`](Self::backward).
    pub(crate) fn forward(&mut self, shape: &Shape, params: &[f32], rows: usize) -> &mut [f32] {
        let last = self.values.len() - 2;
        let mut rest = params;
        for (layer, (inputs, outputs)) in shape.layers().enumerate() {
            let (weights, behind) = rest.split_at(inputs * outputs);
            let (biases, behind) = behind.split_at(outputs);
            rest = behind;
            let (before, here) = self.values.split_at_mut(layer + 1);
            let source = &before[layer];
            forward(weights, biases, source, rows, layer < last, &mut here[0]);
        }
        self.outputs_mut()
    }

    /// Backpropagation: sets `gradient` to the gradient on the parameters, summed over the rows.
    pub(crate) fn backward(
        &mut self,
        shape: &Shape,
        params: &[f32],
        rows: usize,
        gradient: &mut [f32],
    ) {
        let layers: Vec<(usize, usize)> = shape.layers().collect();
        let mut end = params.len();
        for (layer, &(inputs, outputs)) in layers.iter().enumerate().rev() {
            let start = end - (inputs + 1) * outputs;
            let (near, far) = self.deltas.split_at_mut(layer);
            let delta = far.first().unwrap_or(&self.values[layers.len()]);
            let (weights, biases) = gradient[start..end].split_at_mut(inputs * outputs);
            let source = &self.values[layer];
            weight_gradients(source, delta, rows, weights);
            bias_gradients(delta, rows, biases);
            if layer > 0 {
                let weights = &params[start..start + inputs * outputs];
                input_gradients(weights, delta, source, rows, &mut near[layer - 1]);
            }
            end = start;
        }
    }
}

vectorized! {
    /// One layer: Σ weight · value + bias, and the ReLU of it if `relu` is set.
    fn forward(weights: &[f32], biases: &[f32], source: &[f32], rows: usize, relu: bool, target: &mut [f32]) {
        let outputs = biases.len();
        for (output, target) in target.chunks_exact_mut(ROWS).enumerate() {
            for first in (0..rows).step_by(BLOCK) {
                let mut sums = [biases[output]; BLOCK];
                for (input, source) in source.chunks_exact(ROWS).enumerate() {
                    let weight = weights[input * outputs + output];
                    let source = &source[first..first + BLOCK];
                    for (sum, &value) in sums.iter_mut().zip(source) {
                        *sum = weight.mul_add(value, *sum);
                    }
                }
                if relu {
                    for sum in &mut sums {
                        *sum = sum.max(0.0);
                    }
                }
                target[first..first + BLOCK].copy_from_slice(&sums);
            }
        }
    }
}

vectorized! {
    /// The gradient on a layer's inputs, through the ReLU that they came from.
    fn input_gradients(weights: &[f32], delta: &[f32], source: &[f32], rows: usize, target: &mut [f32]) {
        let outputs = delta.len() / ROWS;
        for (input, target) in target.chunks_exact_mut(ROWS).enumerate() {
            for first in (0..rows).step_by(BLOCK) {
                let mut sums = [0.0_f32; BLOCK];
                let weights = &weights[input * outputs..][..outputs];
                for (&weight, delta) in weights.iter().zip(delta.chunks_exact(ROWS)) {
                    for (sum, &value) in sums.iter_mut().zip(&delta[first..first + BLOCK]) {
                        *sum = weight.mul_add(value, *sum);
                    }
                }
                let values = &source[input * ROWS + first..][..BLOCK];
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum = if value > 0.0 { *sum } else { 0.0 };
                }
                target[first..first + BLOCK].copy_from_slice(&sums);
            }
        }
    }
}

vectorized! {
    /// Σ value · delta over the rows, for every weight.
    fn weight_gradients(source: &[f32], delta: &[f32], rows: usize, gradient: &mut [f32]) {
        const TOGETHER: usize = 4;
        let outputs = delta.len() / ROWS;
        for (source, gradient) in source.chunks_exact(ROWS).zip(gradient.chunks_exact_mut(outputs)) {
            let mut targets = gradient.chunks_exact_mut(TOGETHER);
            let mut deltas = delta.chunks_exact(TOGETHER * ROWS);
            for (targets, deltas) in (&mut targets).zip(&mut deltas) {
                targets.copy_from_slice(&dot_products::<TOGETHER>(&source[..rows], deltas));
            }
            let rest = targets.into_remainder().iter_mut();
            for (target, delta) in rest.zip(deltas.remainder().chunks_exact(ROWS)) {
                [*target] = dot_products::<1>(&source[..rows], delta);
            }
        }
    }
}

/// Dot products of one unit's values with the deltas of `N` units at once, because the additions of a single one would
/// wait for each other.
#[inline(always)]
fn dot_products<const N: usize>(source: &[f32], deltas: &[f32]) -> [f32; N] {
    let mut sums = [[0.0_f32; LANES]; N];
    for (place, values) in source.chunks_exact(LANES).enumerate() {
        for (sums, deltas) in sums.iter_mut().zip(deltas.chunks_exact(ROWS)) {
            let deltas = &deltas[place * LANES..][..LANES];
            for lane in 0..LANES {
                sums[lane] = values[lane].mul_add(deltas[lane], sums[lane]);
            }
        }
    }
    sums.map(sum_lanes)
}

vectorized! {
    /// Σ delta over the rows, for every unit.
    fn bias_gradients(delta: &[f32], rows: usize, gradient: &mut [f32]) {
        for (delta, gradient) in delta.chunks_exact(ROWS).zip(gradient) {
            let mut sums = [0.0_f32; LANES];
            for deltas in delta[..rows].chunks_exact(LANES) {
                for (sum, &delta) in sums.iter_mut().zip(deltas) {
                    *sum += delta;
                }
            }
            *gradient = sum_lanes(sums);
        }
    }
}

/// The sum of all lanes, by halves.
#[inline(always)]
fn sum_lanes(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

//! A multi-layer perceptron with ReLU hidden layers; its last layer is linear.

use crate::math::gemm::{Matrix, multiply, multiply_add};
use crate::math::simd::vectorized;
use crate::rng::Rng;

/// The widths of the layers: inputs, hidden units…, outputs.
///
/// Parameters lie in one vector, layer by layer: the weights (inputs × outputs, row by row), then the
/// biases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    widths: Vec<usize>,
}

/// The activations of some rows and the gradients on them, allocated once.
#[derive(Debug, Clone)]
pub(crate) struct LayerBuffers {
    /// The largest number of rows.
    rows: usize,
    /// The output of each layer, rows × width; of the last one before its activation.
    outputs: Vec<Vec<f32>>,
    /// Gradients on the outputs of hidden layers.
    deltas: Vec<Vec<f32>>,
}

impl LayerBuffers {
    /// The last layer's values of the first `rows` rows.
    fn last_mut(&mut self, rows: usize) -> &mut [f32] {
        let last = self.outputs.last_mut().expect("a network has a last layer");
        let width = last.len() / self.rows;
        &mut last[..rows * width]
    }
}

impl Shape {
    pub(crate) fn new(inputs: usize, hidden: &[usize], outputs: usize) -> Self {
        let mut widths = vec![inputs];
        widths.extend_from_slice(hidden);
        widths.push(outputs);
        Self { widths }
    }

    pub(crate) fn inputs(&self) -> usize {
        self.widths[0]
    }

    pub(crate) fn outputs(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }

    pub(crate) fn hidden(&self) -> &[usize] {
        &self.widths[1..self.widths.len() - 1]
    }

    pub(crate) fn params(&self) -> usize {
        self.layers().map(|(i, o)| (i + 1) * o).sum()
    }

    /// Multiplications and additions of a forward pass, per row.
    pub(crate) fn flops(&self) -> usize {
        2 * self.layers().map(|(i, o)| i * o).sum::<usize>()
    }

    /// The widths of inputs, hidden layers and outputs.
    pub(crate) fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Inputs and outputs of each layer.
    pub(crate) fn layers(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.widths.windows(2).map(|w| (w[0], w[1]))
    }

    /// Draws initial parameters: weights uniform in ±√(6/inputs) (He et al., 2015) and biases uniform in ±1/√inputs.
    /// Those of the last layer are zero, so that the network starts as the constant 0.
    pub(crate) fn initial(&self, rng: &mut Rng) -> Vec<f32> {
        let mut params = Vec::with_capacity(self.params());
        let last = self.widths.len() - 2;
        for (layer, (inputs, outputs)) in self.layers().enumerate() {
            let fan = inputs as f64;
            let (weight, bias) = if layer == last {
                (0.0, 0.0)
            } else {
                ((6.0 / fan).sqrt(), fan.sqrt().recip())
            };
            params.extend(
                (0..inputs * outputs).map(|_| ((2.0 * rng.uniform() - 1.0) * weight) as f32),
            );
            params.extend((0..outputs).map(|_| ((2.0 * rng.uniform() - 1.0) * bias) as f32));
        }
        params
    }

    /// Buffers for at most `rows` rows.
    pub(crate) fn buffers(&self, rows: usize) -> LayerBuffers {
        LayerBuffers {
            rows,
            outputs: self.widths[1..]
                .iter()
                .map(|w| vec![0.0; rows * w])
                .collect(),
            deltas: self.hidden().iter().map(|w| vec![0.0; rows * w]).collect(),
        }
    }

    /// Evaluates the network on `rows` rows of `inputs` and returns the last layer's values. The caller may overwrite
    /// them with the gradient on them, for [`backward`](Self::backward).
    pub(crate) fn forward<'b>(
        &self,
        params: &[f32],
        inputs: &[f32],
        rows: usize,
        buffers: &'b mut LayerBuffers,
    ) -> &'b mut [f32] {
        let mut rest = params;
        let last = self.widths.len() - 2;
        for (layer, (fan_in, fan_out)) in self.layers().enumerate() {
            let (weights, behind) = rest.split_at(fan_in * fan_out);
            let (biases, behind) = behind.split_at(fan_out);
            rest = behind;
            let (before, here) = buffers.outputs.split_at_mut(layer);
            let source = before.last().map_or(inputs, |b| b.as_slice());
            let target = &mut here[0][..rows * fan_out];
            for row in target.chunks_exact_mut(fan_out) {
                row.copy_from_slice(biases);
            }
            let source = Matrix::new(&source[..rows * fan_in], rows, fan_in);
            multiply_add(target, source, Matrix::new(weights, fan_in, fan_out));
            if layer < last {
                relu(target);
            }
        }
        buffers.last_mut(rows)
    }

    /// Backpropagation: sets `gradient` to the gradient on the parameters, summed over the rows. The gradient on the last
    /// layer's values is in `buffers`, where [`forward`](Self::forward) left the values.
    pub(crate) fn backward(
        &self,
        params: &[f32],
        inputs: &[f32],
        rows: usize,
        buffers: &mut LayerBuffers,
        gradient: &mut [f32],
    ) {
        let LayerBuffers {
            outputs, deltas, ..
        } = buffers;
        let last = self.widths.len() - 2;
        let mut end = params.len();
        for layer in (0..=last).rev() {
            let (fan_in, fan_out) = (self.widths[layer], self.widths[layer + 1]);
            let start = end - (fan_in + 1) * fan_out;
            let (near, far) = deltas.split_at_mut(layer);
            let delta = &far.first().unwrap_or(&outputs[last])[..rows * fan_out];
            let before = layer.checked_sub(1);
            let source = before.map_or(inputs, |before| &outputs[before]);
            let source = &source[..rows * fan_in];
            let delta_matrix = Matrix::new(delta, rows, fan_out);
            let (weights, biases) = gradient[start..end].split_at_mut(fan_in * fan_out);
            let inputs = Matrix::new(source, rows, fan_in).transposed();
            multiply(weights, inputs, delta_matrix);
            column_sums(delta, biases);
            if let Some(before) = before {
                let weights = &params[start..start + fan_in * fan_out];
                let weights = Matrix::new(weights, fan_in, fan_out).transposed();
                let target = &mut near[before][..rows * fan_in];
                multiply(target, delta_matrix, weights);
                relu_gradient(target, source);
            }
            end = start;
        }
    }
}

vectorized! {
    /// Sets `sums` to the sum of all rows.
    fn column_sums(rows: &[f32], sums: &mut [f32]) {
        sums.fill(0.0);
        for row in rows.chunks_exact(sums.len()) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
    }
}

vectorized! {
    fn relu(values: &mut [f32]) {
        for value in values {
            *value = value.max(0.0);
        }
    }
}

vectorized! {
    /// The gradient of the ReLU: 0 where its output is 0.
    fn relu_gradient(gradient: &mut [f32], outputs: &[f32]) {
        for (gradient, &output) in gradient.iter_mut().zip(outputs) {
            *gradient = if output > 0.0 { *gradient } else { 0.0 };
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The network as plain loops, in 64 bits.
    pub(crate) fn plain(widths: &[usize], params: &[f64], input: &[f64]) -> Vec<f64> {
        let mut values = input.to_vec();
        let mut offset = 0;
        for (layer, w) in widths.windows(2).enumerate() {
            let (fan_in, fan_out) = (w[0], w[1]);
            let bias = offset + fan_in * fan_out;
            values = (0..fan_out)
                .map(|o| {
                    let sum: f64 = (0..fan_in)
                        .map(|i| values[i] * params[offset + i * fan_out + o])
                        .sum();
                    let z = sum + params[bias + o];
                    if layer + 2 < widths.len() {
                        z.max(0.0)
                    } else {
                        z
                    }
                })
                .collect();
            offset = bias + fan_out;
        }
        values
    }

    /// Which hidden units are on.
    pub(crate) fn activation_pattern(widths: &[usize], params: &[f64], input: &[f64]) -> Vec<bool> {
        let mut pattern = Vec::new();
        let mut used = 0;
        for layer in 1..widths.len() - 1 {
            used += (widths[layer - 1] + 1) * widths[layer];
            // The last layer of a network has no ReLU, so the network is cut off at this layer.
            let values = plain(&widths[..=layer], &params[..used], input);
            pattern.extend(values.iter().map(|&v| v > 0.0));
        }
        pattern
    }

    #[test]
    fn forward_and_backward_agree_with_plain_loops() {
        let mut rng = Rng::new(11);
        for hidden in [&[][..], &[1], &[7], &[5, 4], &[3, 1, 6]] {
            let shape = Shape::new(4, hidden, 3);
            let rows = 9;
            let params: Vec<f32> = (0..shape.params()).map(|_| rng.normal() as f32).collect();
            let inputs: Vec<f32> = (0..rows * 4).map(|_| rng.normal() as f32).collect();
            // The loss Σ c·output for random c has the gradient c on the outputs.
            let slopes: Vec<f32> = (0..rows * 3).map(|_| rng.normal() as f32).collect();
            let loss = |params: &[f64]| -> f64 {
                inputs
                    .chunks(4)
                    .zip(slopes.chunks(3))
                    .map(|(input, slopes)| {
                        let input: Vec<f64> = input.iter().map(|&v| f64::from(v)).collect();
                        let output = plain(&shape.widths, params, &input);
                        output
                            .iter()
                            .zip(slopes)
                            .map(|(o, &s)| o * f64::from(s))
                            .sum::<f64>()
                    })
                    .sum()
            };
            let mut buffers = shape.buffers(rows);
            let outputs = shape.forward(&params, &inputs, rows, &mut buffers);
            let wide: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
            let value: f64 = outputs
                .iter()
                .zip(&slopes)
                .map(|(&o, &s)| f64::from(o) * f64::from(s))
                .sum();
            assert!((value - loss(&wide)).abs() < 1e-3);
            outputs.copy_from_slice(&slopes);
            let mut gradient = vec![9.0; shape.params()];
            shape.backward(&params, &inputs, rows, &mut buffers, &mut gradient);
            for i in 0..params.len() {
                let at = |step: f64| {
                    let mut moved = wide.clone();
                    moved[i] += step;
                    loss(&moved)
                };
                let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
                let error = (f64::from(gradient[i]) - difference).abs();
                assert!(
                    error < 1e-4 * difference.abs().max(1.0),
                    "{hidden:?}: parameter {i}"
                );
            }
        }
    }

    #[test]
    fn starts_as_a_constant() {
        let shape = Shape::new(6, &[8, 8], 5);
        let params = shape.initial(&mut Rng::new(1));
        let mut buffers = shape.buffers(2);
        let outputs = shape.forward(
            &params,
            &[1.0, -2.0, 3.0, 0.5, 0.0, 9.0].repeat(2),
            2,
            &mut buffers,
        );
        assert!(outputs.iter().all(|&o| o == 0.0));
    }
}

//! Small networks with the order-preserving head, turned on their side: a vector holds one unit of many rows.
//!
//! With ten classes and ten units a matrix product is over before it has begun, and a row does not fill a
//! vector. Here the rows are the vectors: a layer is a sum of rows' values times one weight each, the sorted
//! head adds up its steps for 16 rows at once, and nothing is summed across a vector but the gradient
//! of a weight. A fit of 5000 × 10 takes a third of the time that it takes with matrix products.

use super::mlp::Shape;
use crate::math::exp::{exp_f32, ln_f64, multiplier_f32};
use crate::math::simd::vectorized;

/// The most rows of a piece.
pub(crate) const ROWS: usize = 256;
/// Rows whose sums stay in registers.
const BLOCK: usize = 64;
/// Rows of a vector.
const LANES: usize = 16;
/// The most weights of a layer; with more of them, matrix products are faster.
const WEIGHTS: usize = 2048;
/// As in the head of single rows.
const MAX_GAP: f32 = 1e4;

/// What a piece needs, unit by unit: `values[layer][unit * ROWS + row]`.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    /// The inputs, then every layer's values; of the last one first the outputs, then the gradient on them.
    values: Vec<Vec<f32>>,
    /// Gradients on the values of hidden layers.
    deltas: Vec<Vec<f32>>,
    sorted: Vec<f32>,
    gaps: Vec<f32>,
    exponentials: Vec<f32>,
    rows: RowFacts,
}

/// What is known of each row; rows that are not there weigh nothing.
#[derive(Debug, Clone)]
struct RowFacts {
    label_ranks: Vec<u32>,
    possible: Vec<u32>,
    weights: Vec<f64>,
}

/// Where a piece's rows come from.
pub(crate) struct Source<'a> {
    /// What the network reads, row by row.
    pub inputs: &'a [f32],
    /// The sorted inputs, if that is something else.
    pub sorted: Option<&'a [f32]>,
    pub unit: f32,
    pub label_ranks: &'a [u32],
    pub possible: &'a [u32],
    pub weights: Option<&'a [f64]>,
}

/// Whether a network is small enough.
pub(crate) fn suits(shape: &Shape) -> bool {
    shape
        .layers()
        .all(|(inputs, outputs)| inputs * outputs <= WEIGHTS)
}

impl Buffers {
    pub(crate) fn new(shape: &Shape) -> Self {
        let widths = |widths: &[usize]| widths.iter().map(|w| vec![0.0; w * ROWS]).collect();
        let cells = shape.outputs() * ROWS;
        Self {
            values: widths(shape.widths()),
            deltas: widths(shape.hidden()),
            sorted: vec![0.0; cells],
            gaps: vec![0.0; cells],
            exponentials: vec![0.0; cells],
            rows: RowFacts {
                label_ranks: vec![0; ROWS],
                possible: vec![1; ROWS],
                weights: vec![0.0; ROWS],
            },
        }
    }

    /// The weighted loss of at most [`ROWS`] rows and, if there is room for it, its gradient.
    pub(crate) fn piece(
        &mut self,
        shape: &Shape,
        params: &[f32],
        source: &Source<'_>,
        rows: &[u32],
        gradient: Option<&mut [f32]>,
    ) -> f64 {
        let classes = shape.outputs();
        let padded = rows.len().next_multiple_of(BLOCK);
        turn(source.inputs, rows, classes, &mut self.values[0]);
        self.rows.weights[rows.len()..padded].fill(0.0);
        for (place, &row) in rows.iter().enumerate() {
            let row = row as usize;
            self.rows.label_ranks[place] = source.label_ranks[row];
            self.rows.possible[place] = source.possible[row];
            self.rows.weights[place] = source.weights.map_or(1.0, |w| w[row]);
        }
        if let Some(sorted) = source.sorted {
            turn(sorted, rows, classes, &mut self.sorted);
        }
        let sorted = source.sorted.map_or(&self.values[0], |_| &self.sorted);
        gaps(sorted, source.unit, padded, &mut self.gaps);

        let last = self.values.len() - 2;
        let mut rest = params;
        for (layer, (inputs, outputs)) in shape.layers().enumerate() {
            let (weights, behind) = rest.split_at(inputs * outputs);
            let (biases, behind) = behind.split_at(outputs);
            rest = behind;
            let (before, here) = self.values.split_at_mut(layer + 1);
            forward(
                weights,
                biases,
                &before[layer],
                padded,
                layer < last,
                &mut here[0],
            );
        }
        let outputs = &mut self.values[last + 1];
        let loss = head(
            &self.gaps,
            &self.rows,
            padded,
            outputs,
            &mut self.exponentials,
        );
        if let Some(gradient) = gradient {
            self.backward(shape, params, padded, gradient);
        }
        loss
    }

    fn backward(&mut self, shape: &Shape, params: &[f32], rows: usize, gradient: &mut [f32]) {
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

/// Puts rows into columns.
fn turn(source: &[f32], rows: &[u32], classes: usize, target: &mut [f32]) {
    for (place, &row) in rows.iter().enumerate() {
        let row = &source[row as usize * classes..][..classes];
        for (class, &value) in row.iter().enumerate() {
            target[class * ROWS + place] = value;
        }
    }
}

vectorized! {
    /// What each sorted input lies above the next, in logits where the network says 0.
    fn gaps(sorted: &[f32], unit: f32, rows: usize, gaps: &mut [f32]) {
        let last = sorted.len() - ROWS;
        for start in (0..last).step_by(ROWS) {
            let (here, next) = sorted[start..].split_at(ROWS);
            let gaps = &mut gaps[start..start + rows];
            for ((gap, &here), &next) in gaps.iter_mut().zip(here).zip(next) {
                *gap = ((here - next) * unit).min(MAX_GAP);
            }
        }
        gaps[last..].fill(0.0);
    }
}

vectorized! {
    /// One layer: Σ weight · value + bias, and nothing below 0 if `relu`.
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
    /// The gradient on a layer's inputs; none where the ReLU gave 0.
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
                targets.copy_from_slice(&products::<TOGETHER>(&source[..rows], deltas));
            }
            let rest = targets.into_remainder().iter_mut();
            for (target, delta) in rest.zip(deltas.remainder().chunks_exact(ROWS)) {
                [*target] = products::<1>(&source[..rows], delta);
            }
        }
    }
}

/// Sums of products of one unit's values with the deltas of several others: a single sum would wait for each
/// addition to end before the next.
#[inline(always)]
fn products<const N: usize>(source: &[f32], deltas: &[f32]) -> [f32; N] {
    let mut sums = [[0.0_f32; LANES]; N];
    for (place, values) in source.chunks_exact(LANES).enumerate() {
        for (sums, deltas) in sums.iter_mut().zip(deltas.chunks_exact(ROWS)) {
            let deltas = &deltas[place * LANES..][..LANES];
            for lane in 0..LANES {
                sums[lane] = values[lane].mul_add(deltas[lane], sums[lane]);
            }
        }
    }
    sums.map(across)
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
            *gradient = across(sums);
        }
    }
}

/// The sum of a vector, by halves.
#[inline(always)]
fn across(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// The next lanes of a column. Their number is known to the compiler, which otherwise would not use vectors.
#[inline(always)]
fn lanes<T>(column: &[T], first: usize) -> &[T; LANES] {
    column[first..first + LANES]
        .try_into()
        .expect("so many lanes")
}

#[inline(always)]
fn lanes_mut<T>(column: &mut [T], first: usize) -> &mut [T; LANES] {
    let lanes = &mut column[first..first + LANES];
    lanes.try_into().expect("so many lanes")
}

vectorized! {
    /// The order-preserving head of [`sorted_row`](super::head::sorted_row), for many rows: the weighted loss, with
    /// the gradient in `z`.
    fn head(gaps: &[f32], facts: &RowFacts, rows: usize, z: &mut [f32], exponentials: &mut [f32]) -> f64 {
        let mut loss = 0.0;
        for first in (0..rows).step_by(LANES) {
            let ranks = *lanes(&facts.label_ranks, first);
            let possible = *lanes(&facts.possible, first);
            let weights = *lanes(&facts.weights, first);
            let (mut below, mut label, mut sum) = ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
            let columns = z.chunks_exact_mut(ROWS).zip(exponentials.chunks_exact_mut(ROWS));
            for (class, ((z, e), gaps)) in columns.zip(gaps.chunks_exact(ROWS)).enumerate() {
                let class = class as u32;
                let (z, e, gaps) = (lanes_mut(z, first), lanes_mut(e, first), lanes(gaps, first));
                let mut steps = [0.0_f32; LANES];
                for lane in 0..LANES {
                    let (multiplier, slope) = multiplier_f32(z[lane]);
                    steps[lane] = gaps[lane] * multiplier;
                    z[lane] = gaps[lane] * slope;
                }
                for lane in 0..LANES {
                    let power = exp_f32(below[lane] as f32);
                    e[lane] = if class < possible[lane] { power } else { 0.0 };
                }
                for lane in 0..LANES {
                    label[lane] = if class == ranks[lane] { below[lane] } else { label[lane] };
                }
                for lane in 0..LANES {
                    sum[lane] += f64::from(e[lane]);
                    below[lane] -= f64::from(steps[lane]);
                }
            }
            let mut scale = [0.0_f64; LANES];
            let mut nll = [0.0_f64; LANES];
            for lane in 0..LANES {
                scale[lane] = 1.0 / sum[lane];
                nll[lane] = weights[lane] * (ln_f64(sum[lane]) - label[lane]);
            }
            for nll in nll {
                loss += nll;
            }
            let mut mass = [0.0_f64; LANES];
            let columns = z.chunks_exact_mut(ROWS).zip(exponentials.chunks_exact(ROWS));
            for (class, (z, e)) in columns.enumerate() {
                let class = class as u32;
                let (z, e) = (lanes_mut(z, first), lanes(e, first));
                for lane in 0..LANES {
                    mass[lane] += f64::from(e[lane]);
                    let reached = if class >= ranks[lane] { 1.0 } else { 0.0 };
                    z[lane] *= (weights[lane] * (mass[lane] * scale[lane] - reached)) as f32;
                }
            }
        }
        loss
    }
}

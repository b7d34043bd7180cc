//! Small networks with the order-preserving head, [turned on their side](super::transposed): the sorted head adds up
//! its steps for 16 rows at once. A fit of 5000 × 10 takes a third of the time that it takes with matrix products.

use super::mlp::Shape;
use super::transposed::{Activations, BLOCK, LANES, ROWS};
use crate::math::exp::{exp_f32, ln_f64, multiplier_f32};
use crate::math::simd::vectorized;

/// The most weights of a layer; with more of them, matrix products are faster.
const WEIGHTS: usize = 2048;
/// As in the head of single rows.
const MAX_GAP: f32 = 1e4;

/// What a piece needs.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    columns: Activations,
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
        let cells = shape.outputs() * ROWS;
        Self {
            columns: Activations::new(shape),
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
        turn(source.inputs, rows, classes, self.columns.inputs_mut());
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
        let sorted = source
            .sorted
            .map_or(self.columns.inputs(), |_| &self.sorted);
        gaps(sorted, source.unit, padded, &mut self.gaps);

        let outputs = self.columns.forward(shape, params, padded);
        let loss = head(
            &self.gaps,
            &self.rows,
            padded,
            outputs,
            &mut self.exponentials,
        );
        if let Some(gradient) = gradient {
            self.columns.backward(shape, params, padded, gradient);
        }
        loss
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

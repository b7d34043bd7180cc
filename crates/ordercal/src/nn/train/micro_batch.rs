//! Micro-batches: the few rows that one thread works on at a time.

use crate::nn::head::{RowScratch, free_row, sorted_row};
use crate::nn::loss::{Head, NetworkLoss};
use crate::nn::mlp::LayerBuffers;
use crate::nn::transposed_head::{TransposedRows, is_small};

/// Computes loss and gradient of a micro-batch, in memory of its own.
pub(in crate::nn) trait MicroBatch: Send {
    /// The largest number of rows.
    fn max_rows(&self) -> usize;

    /// The weighted loss of the given rows, summed; its gradient goes to `gradient`, if given.
    fn evaluate(&mut self, params: &[f32], rows: &[u32], gradient: Option<&mut [f32]>) -> f64;
}

/// The faster of the two ways for this network.
pub(super) fn micro_batch(loss: &NetworkLoss) -> Box<dyn MicroBatch + '_> {
    match &loss.head {
        // A shared multiplier of the tail is for many classes, where a vector holds many classes of one row.
        Head::Sorted(targets) if is_small(&loss.shape) && loss.shape.outputs() == loss.classes => {
            Box::new(TransposedRows::new(loss, targets))
        }
        Head::Sorted(_) | Head::Free(_) => Box::new(RowMajor::new(loss)),
    }
}

/// By matrix products.
pub(super) struct RowMajor<'a> {
    loss: &'a NetworkLoss,
    inputs: Vec<f32>,
    buffers: LayerBuffers,
    scratch: RowScratch,
}

impl<'a> RowMajor<'a> {
    /// Enough for matrix products near their full speed, few enough for the cache.
    pub(super) const ROWS: usize = 128;

    pub(super) fn new(loss: &'a NetworkLoss) -> Self {
        Self {
            loss,
            inputs: vec![0.0; Self::ROWS * loss.shape.inputs()],
            buffers: loss.shape.buffers(Self::ROWS),
            scratch: RowScratch::new(loss.classes),
        }
    }
}

impl MicroBatch for RowMajor<'_> {
    fn max_rows(&self) -> usize {
        Self::ROWS
    }

    fn evaluate(&mut self, params: &[f32], rows: &[u32], gradient: Option<&mut [f32]>) -> f64 {
        let Self {
            loss,
            inputs,
            buffers,
            scratch,
        } = self;
        let classes = loss.classes;
        let width = loss.shape.inputs();
        for (target, &row) in inputs.chunks_exact_mut(width).zip(rows) {
            target.copy_from_slice(row_of(&loss.inputs, row as usize, width));
        }
        let outputs = loss.shape.forward(params, inputs, rows.len(), buffers);
        let mut total = 0.0;
        for ((place, &row), z) in rows
            .iter()
            .enumerate()
            .zip(outputs.chunks_exact_mut(loss.shape.outputs()))
        {
            let row = row as usize;
            let weight = loss.weight(row);
            let nll = match &loss.head {
                Head::Sorted(targets) => {
                    let sorted = match &targets.sorted {
                        Some(sorted) => row_of(sorted, row, classes),
                        None => row_of(inputs, place, classes),
                    };
                    let sorted = &sorted[..targets.possible[row] as usize];
                    let rank = targets.label_ranks[row] as usize;
                    sorted_row(z, sorted, targets.unit, rank, weight, scratch)
                }
                Head::Free(targets) => {
                    let label = targets.labels[row] as usize;
                    free_row(z, row_of(&targets.scores, row, classes), label, weight)
                }
            };
            total += weight * nll;
        }
        if let Some(gradient) = gradient {
            let shape = &loss.shape;
            shape.backward(params, inputs, rows.len(), buffers, gradient);
        }
        total
    }
}

fn row_of(values: &[f32], row: usize, classes: usize) -> &[f32] {
    &values[row * classes..][..classes]
}

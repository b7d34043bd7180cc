//! Loss and gradient of many rows, on all cores.
//!
//! Rows are divided into micro-batches of a fixed size, whose gradients are added in order (gradient accumulation).
//! Results therefore do not depend on the number of threads.

use rayon::prelude::*;

use super::micro_batch::{MicroBatch, micro_batch};
use crate::math::simd::vectorized;
use crate::nn::loss::NetworkLoss;

/// The largest number of micro-batches at once: each has a gradient in memory.
const MAX_SLOTS: usize = 8;
/// Below this many operations, threads cost more than they save.
const MIN_PARALLEL_FLOPS: usize = 8_000_000;
/// Parameters that are added up at a time.
const CHUNK: usize = 4096;

/// Loss and gradient of batches of rows.
pub(super) struct BatchLoss<'a> {
    pub(super) loss: &'a NetworkLoss,
    slots: Vec<Slot<'a>>,
    /// Rows per micro-batch.
    rows: usize,
    parallel: bool,
}

/// One micro-batch with its results.
struct Slot<'a> {
    micro_batch: Box<dyn MicroBatch + 'a>,
    gradient: Vec<f32>,
    loss: f64,
}

impl<'a> BatchLoss<'a> {
    /// For batches of so many rows, or more, which are then processed in rounds.
    pub(super) fn new(loss: &'a NetworkLoss, batch: usize) -> Self {
        let rows = micro_batch(loss).max_rows();
        Self::with_slots(loss, batch.div_ceil(rows).clamp(1, MAX_SLOTS))
    }

    pub(super) fn with_slots(loss: &'a NetworkLoss, count: usize) -> Self {
        let slot = |_| Slot {
            micro_batch: micro_batch(loss),
            gradient: vec![0.0; loss.shape.params()],
            loss: 0.0,
        };
        let slots: Vec<Slot<'_>> = (0..count).map(slot).collect();
        let rows = slots[0].micro_batch.max_rows();
        let at_once = loss.rows().min(count * rows);
        let flops = 3 * (loss.shape.flops() + 60 * loss.classes) * at_once;
        Self {
            loss,
            slots,
            rows,
            parallel: flops >= MIN_PARALLEL_FLOPS,
        }
    }

    /// The largest number of rows that are processed at once.
    fn capacity(&self) -> usize {
        self.slots.len() * self.rows
    }

    /// Evaluates the micro-batches of at most [`capacity`](Self::capacity) rows, and returns their slots.
    fn evaluate(&mut self, params: &[f32], rows: &[u32], gradients: bool) -> &mut [Slot<'a>] {
        let run = |(slot, rows): (&mut Slot<'a>, &[u32])| {
            let gradient = gradients.then_some(&mut slot.gradient[..]);
            slot.loss = slot.micro_batch.evaluate(params, rows, gradient);
        };
        let used = &mut self.slots[..rows.len().div_ceil(self.rows)];
        if self.parallel && used.len() > 1 {
            let slots = used.par_iter_mut().with_max_len(1);
            slots.zip(rows.par_chunks(self.rows)).for_each(run);
        } else {
            used.iter_mut().zip(rows.chunks(self.rows)).for_each(run);
        }
        used
    }

    /// The weighted loss of any number of rows and, in `gradient`, its gradient, both times `scale`. They are summed in 64
    /// bits over rounds of [`capacity`](Self::capacity) rows.
    pub(super) fn gradient(
        &mut self,
        params: &[f32],
        rows: &[u32],
        scale: f64,
        gradient: &mut [f64],
    ) -> f64 {
        gradient.fill(0.0);
        let mut total = 0.0;
        for rows in rows.chunks(self.capacity()) {
            let slots = self.evaluate(params, rows, true);
            total += total_loss(slots);
            for (chunk, sums) in gradient.chunks_mut(CHUNK).enumerate() {
                let mut part = [0.0; CHUNK];
                let part = &mut part[..sums.len()];
                for slot in &*slots {
                    add(part, &slot.gradient[chunk * CHUNK..]);
                }
                for (sum, &value) in sums.iter_mut().zip(&*part) {
                    *sum += scale * f64::from(value);
                }
            }
        }
        total * scale
    }

    /// The weighted mean loss of any number of rows.
    pub(super) fn mean(&mut self, params: &[f32], rows: &[u32]) -> f64 {
        let rounds = rows.chunks(self.capacity());
        let sum: f64 = rounds
            .map(|rows| total_loss(self.evaluate(params, rows, false)))
            .sum();
        sum / self.loss.total_weight(rows)
    }
}

fn total_loss(slots: &[Slot<'_>]) -> f64 {
    slots.iter().map(|slot| slot.loss).sum()
}

vectorized! {
    fn add(sums: &mut [f32], values: &[f32]) {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
}

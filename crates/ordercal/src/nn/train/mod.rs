//! Training a network, by mini-batches (Adam) or on all rows at once (L-BFGS).

mod batch;
mod held_out;
mod micro_batch;
mod optimize;

use super::loss::NetworkLoss;
use crate::error::Result;
use crate::optim::{EarlyStopping, Optimizer, StopReason};
use crate::rng::Rng;
use crate::watch::Watch;
use batch::BatchLoss;
use held_out::HeldOut;
pub(super) use micro_batch::MicroBatch;
use optimize::Trainer;

/// A trained network.
pub(crate) struct Trained {
    pub params: Vec<f32>,
    /// Mean NLL plus penalty, on all rows.
    pub loss: f64,
    pub nll: f64,
    pub iterations: usize,
    pub evaluations: usize,
    pub stop: StopReason,
}

/// Minimises mean NLL + `lambda`/2 ‖θ‖², starting at the network's initial parameters.
pub(crate) fn train(
    loss: &NetworkLoss,
    optimizer: &Optimizer,
    lambda: f64,
    early_stopping: Option<&EarlyStopping>,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Trained> {
    let mut rng = Rng::new(seed);
    let mut params = loss.shape.initial(&mut rng);
    let all_rows: Vec<u32> = (0..loss.rows() as u32).collect();
    let mut rows = all_rows.clone();
    let held_out =
        early_stopping.and_then(|settings| HeldOut::split(settings, &mut rng, &mut rows));
    let batch = match optimizer {
        Optimizer::Adam(adam) => adam.batch.min(rows.len()),
        Optimizer::Lbfgs(_) => rows.len(),
    };
    let mut trainer = Trainer {
        batch: BatchLoss::new(loss, batch),
        rows,
        held_out,
        lambda,
        watch,
    };
    let ending = match optimizer {
        Optimizer::Adam(adam) => trainer.adam(adam, &mut rng, &mut params)?,
        Optimizer::Lbfgs(lbfgs) => trainer.lbfgs(lbfgs, &mut params)?,
    };
    if let Some(best) = trainer.held_out.and_then(HeldOut::into_best) {
        params = best;
    }
    let nll = BatchLoss::new(loss, loss.rows()).mean(&params, &all_rows);
    let squares: f64 = params.iter().map(|&p| f64::from(p) * f64::from(p)).sum();
    Ok(Trained {
        loss: nll + 0.5 * lambda * squares,
        nll,
        params,
        iterations: ending.iterations,
        evaluations: ending.evaluations,
        stop: ending.stop,
    })
}

#[cfg(test)]
mod tests;

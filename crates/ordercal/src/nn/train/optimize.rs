//! The loops of the two optimisers.

use std::cell::RefCell;

use super::batch::BatchLoss;
use super::held_out::HeldOut;
use crate::error::Result;
use crate::optim::adam::{AdamState, StepSettings};
use crate::optim::lbfgs::{Outcome, Step};
use crate::optim::{Adam, Lbfgs, StopReason};
use crate::rng::Rng;
use crate::watch::{Watch, report_progress};

/// The relative precision of a loss whose terms are computed in 32 bits.
const NOISE: f64 = 1e-8;

/// What both optimisers need.
pub(super) struct Trainer<'a> {
    pub(super) batch: BatchLoss<'a>,
    /// The rows to train on.
    pub(super) rows: Vec<u32>,
    pub(super) held_out: Option<HeldOut>,
    pub(super) lambda: f64,
    pub(super) watch: &'a dyn Watch,
}

impl Trainer<'_> {
    pub(super) fn adam(
        &mut self,
        adam: &Adam,
        rng: &mut Rng,
        params: &mut [f32],
    ) -> Result<Outcome> {
        let mut state = AdamState::new(params.len());
        let passes = adam.passes(self.rows.len());
        let steps = passes * self.rows.len().div_ceil(adam.batch);
        let mut step = 0;
        let ending = |epochs, stop| Outcome {
            iterations: epochs,
            evaluations: epochs,
            stop,
        };
        for epoch in 1..=passes {
            rng.shuffle(&mut self.rows);
            let mut total = 0.0;
            for rows in self.rows.chunks(adam.batch) {
                let count = rows.len() as f64;
                let settings = StepSettings {
                    adam,
                    rate: adam.rate(step as f64 / steps as f64),
                    lambda: self.lambda,
                    scale: 1.0 / count,
                };
                total += count * adam_step(&mut self.batch, params, rows, &mut state, &settings);
                step += 1;
            }
            let mean = total / self.rows.len() as f64;
            report_progress(self.watch, epoch, passes, mean)?;
            if let Some(held_out) = &mut self.held_out
                && held_out.should_stop(&mut self.batch, params)
            {
                return Ok(ending(epoch, StopReason::EarlyStopping));
            }
        }
        Ok(ending(passes, StopReason::IterationLimit))
    }

    pub(super) fn lbfgs(&mut self, lbfgs: &Lbfgs, params: &mut [f32]) -> Result<Outcome> {
        let Self {
            batch,
            rows,
            held_out,
            lambda,
            watch,
        } = self;
        let lambda = *lambda;
        let scale = 1.0 / batch.loss.total_weight(rows);
        // Shared by the objective and by early stopping.
        let batch = RefCell::new(batch);
        let mut point: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
        let mut evaluate = |point: &[f64], gradient: &mut [f64]| {
            round_to_f32(point, params);
            let mut batch = batch.borrow_mut();
            let value = batch.gradient(params, rows, scale, gradient);
            let mut squares = 0.0;
            for (gradient, &param) in gradient.iter_mut().zip(point) {
                *gradient += lambda * param;
                squares += param * param;
            }
            value + 0.5 * lambda * squares
        };
        let mut accepted = vec![0.0; point.len()];
        let mut on_step = |step: &Step<'_>| {
            report_progress(*watch, step.iteration, lbfgs.max_iterations, step.value)?;
            let Some(held_out) = held_out else {
                return Ok(None);
            };
            round_to_f32(step.point, &mut accepted);
            let stop = held_out.should_stop(&mut batch.borrow_mut(), &accepted);
            Ok(stop.then_some(StopReason::EarlyStopping))
        };
        let outcome = lbfgs.minimize(&mut point, NOISE, &mut evaluate, &mut on_step)?;
        round_to_f32(&point, params);
        Ok(outcome)
    }
}

/// One step of Adam on the mean loss of a mini-batch, which is returned.
pub(super) fn adam_step(
    batch: &mut BatchLoss<'_>,
    params: &mut [f32],
    rows: &[u32],
    state: &mut AdamState,
    settings: &StepSettings<'_>,
) -> f64 {
    let mut gradient = vec![0.0; params.len()];
    let loss = batch.gradient(params, rows, 1.0, &mut gradient);
    state.step(settings, params, &gradient);
    loss * settings.scale
}

fn round_to_f32(wide: &[f64], target: &mut [f32]) {
    for (target, &wide) in target.iter_mut().zip(wide) {
        *target = wide as f32;
    }
}

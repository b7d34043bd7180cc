//! Adam (Kingma and Ba, 2015), with the L2 penalty added to the gradient, as in PyTorch.

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::math::simd::vectorized;

/// Adam (Kingma and Ba, 2015) on mini-batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_", strip_option)]
pub struct Adam {
    /// Passes over the data.
    pub epochs: usize,
    /// Fewer passes where they would take more steps than this: what a fit learns depends on the number of steps, and
    /// many rows make many steps of every pass. The last pass is completed. `None` for no limit.
    pub max_steps: Option<usize>,
    /// Rows per mini-batch.
    pub batch: usize,
    /// The step size.
    pub learning_rate: f64,
    /// How the step size changes over the epochs.
    pub schedule: Schedule,
    /// The decay rate of the first moment, the mean of the gradients.
    pub beta1: f64,
    /// The decay rate of the second moment, the mean of their squares.
    pub beta2: f64,
    /// Added to the denominator, so that it is never 0.
    pub epsilon: f64,
}

/// How the step size changes over the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Not at all.
    Constant,
    /// Cosine annealing: half a cosine wave, down to 0 at the end.
    #[default]
    Cosine,
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            epochs: 40,
            max_steps: None,
            batch: 256,
            learning_rate: 1e-3,
            schedule: Schedule::default(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }
}

impl Adam {
    pub(crate) fn validate(&self) -> Result<()> {
        if self.batch == 0 {
            return Err(Error::invalid("batch", self.batch, "at least 1 row"));
        }
        if self.max_steps == Some(0) {
            return Err(Error::invalid("max_steps", 0, "at least 1 step"));
        }
        for (name, value) in [
            ("learning_rate", self.learning_rate),
            ("epsilon", self.epsilon),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::invalid(name, value, "a positive number"));
            }
        }
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return Err(Error::invalid(name, beta, "0 or more and below 1"));
            }
        }
        Ok(())
    }

    /// The passes over so many rows.
    pub(crate) fn passes(&self, rows: usize) -> usize {
        let steps = rows.div_ceil(self.batch);
        self.max_steps
            .map_or(self.epochs, |most| self.epochs.min(most.div_ceil(steps)))
    }

    /// The step size after a share `done` of all steps, from 0 to 1.
    pub(crate) fn rate(&self, done: f64) -> f64 {
        match self.schedule {
            Schedule::Constant => self.learning_rate,
            Schedule::Cosine => {
                self.learning_rate * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
            }
        }
    }
}

/// Settings of one step.
pub(crate) struct StepSettings<'a> {
    pub(crate) adam: &'a Adam,
    /// The step size.
    pub(crate) rate: f64,
    /// The weight of the penalty `lambda`/2 ‖θ‖², whose gradient is added to that of the loss.
    pub(crate) lambda: f64,
    /// The factor from the given gradient to that of the loss.
    pub(crate) scale: f64,
}

/// The moment estimates of a fit.
pub(crate) struct AdamState {
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

impl AdamState {
    pub(crate) fn new(params: usize) -> Self {
        Self {
            mean: vec![0.0; params],
            square: vec![0.0; params],
            steps: 0,
        }
    }

    /// One step.
    pub(crate) fn step(
        &mut self,
        settings: &StepSettings<'_>,
        params: &mut [f32],
        gradient: &[f64],
    ) {
        self.steps += 1;
        let adam = settings.adam;
        let correction1 = 1.0 - adam.beta1.powi(self.steps);
        let correction2 = 1.0 - adam.beta2.powi(self.steps);
        let constants = Constants {
            beta1: adam.beta1 as f32,
            beta2: adam.beta2 as f32,
            step: (settings.rate / correction1) as f32,
            root: (1.0 / correction2.sqrt()) as f32,
            epsilon: adam.epsilon as f32,
            lambda: settings.lambda as f32,
            scale: settings.scale as f32,
        };
        update(
            &constants,
            gradient,
            params,
            &mut self.mean,
            &mut self.square,
        );
    }
}

struct Constants {
    beta1: f32,
    beta2: f32,
    step: f32,
    root: f32,
    epsilon: f32,
    lambda: f32,
    scale: f32,
}

vectorized! {
    fn update(c: &Constants, gradient: &[f64], params: &mut [f32], mean: &mut [f32], square: &mut [f32]) {
        for (((param, &gradient), mean), square) in params.iter_mut().zip(gradient).zip(mean).zip(square) {
            let g = c.scale * gradient as f32 + c.lambda * *param;
            *mean = c.beta1 * *mean + (1.0 - c.beta1) * g;
            *square = c.beta2 * *square + (1.0 - c.beta2) * g * g;
            *param -= c.step * *mean / (square.sqrt() * c.root + c.epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// torch.optim.Adam(lr=0.1, weight_decay=0.01) on (x − 3)²/2 + (y + 1)⁴ from (0, 0.5), computed
    /// in 64 bits by the update rule in the documentation of PyTorch.
    #[test]
    fn steps_as_pytorch_does() {
        let adam = Adam::default().with_learning_rate(0.1);
        let mut state = AdamState::new(2);
        let mut params = [0.0_f32, 0.5];
        let (mut exact, mut mean, mut square) = ([0.0_f64, 0.5], [0.0_f64; 2], [0.0_f64; 2]);
        for t in 1..=50 {
            let [x, y] = params.map(f64::from);
            let gradient = [2.0 * (x - 3.0), 8.0 * (y + 1.0).powi(3)];
            let settings = StepSettings {
                adam: &adam,
                rate: 0.1,
                lambda: 0.01,
                scale: 0.5,
            };
            state.step(&settings, &mut params, &gradient);
            let gradient = [exact[0] - 3.0, 4.0 * (exact[1] + 1.0_f64).powi(3)];
            for i in 0..2 {
                let g = gradient[i] + 0.01 * exact[i];
                mean[i] = 0.9 * mean[i] + 0.1 * g;
                square[i] = 0.999 * square[i] + 0.001 * g * g;
                let unbiased = mean[i] / (1.0 - 0.9_f64.powi(t));
                let deviation = (square[i] / (1.0 - 0.999_f64.powi(t))).sqrt();
                exact[i] -= 0.1 * unbiased / (deviation + 1e-8);
            }
            for i in 0..2 {
                assert!(
                    (f64::from(params[i]) - exact[i]).abs() < 1e-4,
                    "step {t}: {params:?} {exact:?}"
                );
            }
        }
        assert!(params[0] > 2.0 && params[1] < -0.5, "{params:?}");
    }

    #[test]
    fn a_parameter_does_not_depend_on_its_neighbours() {
        let adam = Adam::default();
        let settings = StepSettings {
            adam: &adam,
            rate: 0.1,
            lambda: 0.01,
            scale: 1.0,
        };
        let count = 1003;
        let gradient: Vec<f64> = (0..count).map(|i| (i as f64).sin()).collect();
        let mut together = vec![0.5_f32; count];
        AdamState::new(count).step(&settings, &mut together, &gradient);
        for i in [0, 15, 16, count - 1] {
            let mut alone = [0.5_f32];
            AdamState::new(1).step(&settings, &mut alone, &gradient[i..=i]);
            assert_eq!(alone[0], together[i]);
        }
    }

    #[test]
    fn the_limit_of_steps_ends_between_passes() {
        let adam = Adam::default().with_max_steps(100);
        // 4, 4 and 79 steps a pass.
        assert_eq!(
            [1000, 800, 20_000].map(|rows| adam.passes(rows)),
            [25, 25, 2]
        );
        assert_eq!(adam.passes(100), 40);
        assert_eq!(adam.passes(1_000_000), 1);
        assert_eq!(Adam::default().passes(1_000_000), 40);
    }

    #[test]
    fn the_cosine_ends_at_zero() {
        let adam = Adam::default();
        assert!((adam.rate(0.0) - 1e-3).abs() < 1e-12);
        assert!((adam.rate(0.5) - 5e-4).abs() < 1e-12);
        assert!(adam.rate(1.0).abs() < 1e-12);
    }
}

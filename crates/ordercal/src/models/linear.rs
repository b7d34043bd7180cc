//! What the linear methods share: logits u + uD + b, a penalised likelihood, L-BFGS from temperature scaling.

use serde::{Deserialize, Serialize};

mod features;
mod objective;

use super::apply::Block;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::gemm::{Matrix, multiply};
use crate::optim::lbfgs::Step;
use crate::optim::{Lbfgs, StopReason, vector};
use crate::traits::{FitReport, Transform, Watch, tell};
pub use features::Features;
use objective::Objective;
pub(crate) use objective::{Ridge, Shape};

/// Changes of the loss below this share of it mean nothing.
const NOISE: f64 = 1e-7;

/// At a loss of this, there is nothing left to gain.
const SETTLED: f64 = 1e-6;

/// A fitted linear map: logits u + uD + b, with u the [`Features`] of a row and D a vector or a matrix.
///
/// D = 0 and b = 0 is temperature scaling, so D and b are what the labels said beyond it.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModel {
    features: Features,
    deviation: Vec<f32>,
    bias: Vec<f32>,
}

/// Everything a [`LinearModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearParts {
    /// K.
    pub classes: usize,
    /// What a row's scores become before they are weighted.
    pub features: Features,
    /// D: K numbers, one per class, or K×K, the first row being what the first feature adds to every class.
    #[serde(skip)]
    pub deviation: Vec<f32>,
    /// b, K numbers.
    #[serde(skip)]
    pub bias: Vec<f32>,
}

impl LinearModel {
    /// Takes a model apart.
    pub fn to_parts(&self) -> LinearParts {
        LinearParts {
            classes: self.bias.len(),
            features: self.features.clone(),
            deviation: self.deviation.clone(),
            bias: self.bias.clone(),
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first part that does not fit the others.
    pub fn from_parts(parts: LinearParts) -> Result<Self> {
        let fail = |name, value: String, expected| {
            Err(Error::InvalidParameter {
                name,
                value,
                expected,
            })
        };
        let classes = parts.classes;
        if classes < 2 {
            return fail("classes", classes.to_string(), "at least 2");
        }
        parts.features.validate()?;
        let found = parts.deviation.len();
        if found != classes && Some(found) != classes.checked_mul(classes) {
            return fail(
                "deviation",
                found.to_string(),
                "one number per class, or per pair of classes",
            );
        }
        if parts.bias.len() != classes {
            return fail("bias", parts.bias.len().to_string(), "one number per class");
        }
        for (name, values) in [("deviation", &parts.deviation), ("bias", &parts.bias)] {
            if !values.iter().all(|v| v.abs() <= LARGEST) {
                return fail(name, "too large or NaN".to_owned(), "numbers within ±1e25");
            }
        }
        Ok(Self {
            features: parts.features,
            deviation: parts.deviation,
            bias: parts.bias,
        })
    }

    /// What a row's scores become before they are weighted.
    pub fn features(&self) -> &Features {
        &self.features
    }

    fn shape(&self) -> Shape {
        if self.deviation.len() == self.bias.len() {
            Shape::Vector
        } else {
            Shape::Matrix
        }
    }
}

/// Features are at most 1e6, so a product with K such numbers stays within 32 bits for any K in use.
const LARGEST: f32 = 1e25;

impl Transform for LinearModel {
    fn classes(&self) -> usize {
        self.bias.len()
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let rows = block.rows();
        let mut features = vec![0.0_f32; block.scores.len()];
        let mut scratch = vec![0.0; classes];
        for (row, features) in features.chunks_exact_mut(classes).enumerate() {
            self.features.read(block.row(row), &mut scratch, features);
        }
        let mut changes = vec![0.0_f32; features.len()];
        match self.shape() {
            Shape::Vector => {
                for (change, u) in changes
                    .chunks_exact_mut(classes)
                    .zip(features.chunks_exact(classes))
                {
                    for ((change, u), d) in change.iter_mut().zip(u).zip(&self.deviation) {
                        *change = d * u;
                    }
                }
            }
            Shape::Matrix => {
                let right = Matrix::new(&self.deviation, classes, classes);
                multiply(&mut changes, Matrix::new(&features, rows, classes), right);
            }
        }
        for (index, logit) in logits.iter_mut().enumerate() {
            *logit = if block.scores[index] > f32::NEG_INFINITY {
                f64::from(features[index])
                    + f64::from(changes[index])
                    + f64::from(self.bias[index % classes])
            } else {
                f64::NEG_INFINITY
            };
        }
    }
}

/// What distinguishes one linear method from another.
pub(crate) struct Plan<'a> {
    pub features: Features,
    pub shape: Shape,
    pub ridge: Ridge,
    pub optimizer: &'a Lbfgs,
}

impl Plan<'_> {
    /// Minimises the penalised NLL from D = 0, b = 0. `start` is the report of the temperature's fit.
    pub(crate) fn fit(
        self,
        data: &Dataset<'_>,
        start: &FitReport,
        watch: &dyn Watch,
    ) -> Result<(LinearModel, FitReport)> {
        let classes = data.classes();
        let features = self.features.read_all(data);
        let mut objective = Objective::new(data, features, self.shape, self.ridge);
        let units = objective.units();
        let mut params = vec![0.0; objective.params()];
        let mut scaled = vec![0.0; params.len()];
        let most = self.optimizer.max_iterations;
        tell(watch, 0, most, start.nll_after)?;
        let outcome = self.optimizer.minimize(
            &mut scaled,
            NOISE,
            &mut |point, gradient| {
                vector::combine(&mut params, point, &units, |p, unit| p * unit);
                let value = objective.evaluate(&params, gradient);
                vector::multiply(gradient, &units);
                value
            },
            &mut |step: &Step<'_>| {
                tell(watch, step.iteration, most, step.value)?;
                // Separable data: from here on only the weights would grow.
                Ok((step.value < SETTLED).then_some(StopReason::Converged))
            },
        )?;
        vector::combine(&mut params, &scaled, &units, |p, unit| p * unit);
        let loss = objective.evaluate(&params, &mut scaled);
        let report = FitReport {
            iterations: outcome.iterations,
            evaluations: start.evaluations + outcome.evaluations + 1,
            loss,
            nll_before: start.nll_before,
            nll_after: objective.nll,
            stop: outcome.stop,
            notes: Vec::new(),
        };
        let narrow = |values: &[f64]| {
            let held = values.iter().map(|&v| (v as f32).clamp(-LARGEST, LARGEST));
            held.collect::<Vec<f32>>()
        };
        let (deviation, bias) = params.split_at(params.len() - classes);
        let model = LinearModel {
            features: self.features,
            deviation: narrow(deviation),
            bias: narrow(bias),
        };
        Ok((model, report))
    }
}

/// Checks the weight of a penalty.
pub(crate) fn check_weight(name: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::InvalidParameter {
        name,
        value: value.to_string(),
        expected: "a finite number, 0 or more",
    })
}

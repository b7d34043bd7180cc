//! Linear methods: a penalised likelihood is minimised by L-BFGS, starting at temperature scaling.

mod objective;
pub(crate) mod odir;

use crate::data::Dataset;
use crate::error::Result;
use crate::memory;
use crate::methods::likelihood::spread;
use crate::methods::temperature::SPREAD_BOUNDS;
use crate::methods::{FitReport, Fitted};
use crate::models::{Features, LARGEST_WEIGHT, LinearModel, LinearParts, LinearShape};
use crate::nn::input::InputKind;
use crate::optim::lbfgs::Step;
use crate::optim::{Lbfgs, StopReason, vector};
use crate::watch::{Watch, report_progress};
use objective::LinearObjective;
pub(crate) use objective::Ridge;

/// The relative rounding error of the loss.
const RELATIVE_NOISE: f64 = 1e-7;

/// The fit ends below this loss: the data are separable, and the weights would grow without limit.
const NEGLIGIBLE_LOSS: f64 = 1e-6;

/// The settings of a fit, in which the linear methods differ.
pub(crate) struct LinearFit<'a> {
    pub features: Features,
    pub shape: LinearShape,
    pub ridge: Ridge,
    pub optimizer: &'a Lbfgs,
}

impl LinearFit<'_> {
    /// Minimises the penalised NLL, starting at D = 0 and b = 0. `start` is the report of the fit of the temperature.
    pub(crate) fn run(
        self,
        data: &Dataset<'_>,
        start: &FitReport,
        watch: &dyn Watch,
    ) -> Result<Fitted> {
        let classes = data.classes();
        self.check_memory(data)?;
        let features = self.features.of_rows(data);
        let mut objective = LinearObjective::new(data, features, self.shape, self.ridge);
        // The optimiser works on the parameters divided by their scales.
        let scales = objective.parameter_scales();
        let mut params = vec![0.0; objective.params()];
        let mut scaled = vec![0.0; params.len()];
        let max_iterations = self.optimizer.max_iterations;
        report_progress(watch, 0, max_iterations, start.nll_after)?;
        let mut accepted = f64::NAN;
        let outcome = self.optimizer.minimize(
            &mut scaled,
            RELATIVE_NOISE,
            &mut |point, gradient| {
                vector::combine(&mut params, point, &scales, |p, scale| p * scale);
                let value = objective.evaluate(&params, gradient);
                vector::multiply(gradient, &scales);
                value
            },
            &mut |step: &Step<'_>| {
                accepted = step.value;
                report_progress(watch, step.iteration, max_iterations, step.value)?;
                Ok((step.value < NEGLIGIBLE_LOSS).then_some(StopReason::Converged))
            },
        )?;
        // The last point that was tried need not be the one that was accepted.
        let tried = params.clone();
        vector::combine(&mut params, &scaled, &scales, |p, scale| p * scale);
        let loss = if outcome.iterations > 0 && params == tried {
            accepted
        } else {
            objective.evaluate(&params, &mut scaled)
        };
        let report = FitReport {
            iterations: outcome.iterations,
            evaluations: start.evaluations + outcome.evaluations + 1,
            loss,
            nll_before: start.nll_before,
            nll_after: objective.nll,
            stop: outcome.stop,
            notes: Vec::new(),
            price_of_order: None,
        };
        let narrow = |values: &[f64]| {
            let clamped = values
                .iter()
                .map(|&v| (v as f32).clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT));
            clamped.collect::<Vec<f32>>()
        };
        let (deviation, bias) = params.split_at(params.len() - classes);
        let model = LinearModel::from_parts(LinearParts {
            classes,
            features: self.features,
            deviation: narrow(deviation),
            bias: narrow(bias),
        })?;
        Ok(Fitted {
            model: model.into(),
            report,
        })
    }
}

impl LinearFit<'_> {
    /// The parameters, their scales and gradients, and the optimiser's history of both; the features and residuals.
    fn check_memory(&self, data: &Dataset<'_>) -> Result<()> {
        let classes = data.classes();
        let weights = match self.shape {
            LinearShape::Matrix => classes.saturating_mul(classes),
            _ => classes,
        };
        let vectors = 2 * self.optimizer.history + 6;
        let params = weights.saturating_mul(8 * vectors);
        let rows = data.rows().saturating_mul(2 * 4 * classes);
        memory::check_with_hint(
            format!("a linear map of {classes} classes"),
            params.saturating_add(rows),
            "; methods that need less for many classes are ts, ets, diag, oi, vs, svs and auto",
        )
    }
}

/// Tempered scores as features, with the range taken from the rows of positive weight.
pub(crate) fn tempered(input: InputKind, beta: f64, data: &Dataset<'_>) -> Features {
    // On separable data, ts may end at β = 1 although that exceeds the upper bound for the spread.
    let spread = spread(data);
    let beta = if spread > 0.0 {
        beta.min(SPREAD_BOUNDS.1 / spread)
    } else {
        beta
    };
    Features::tempered(input, beta, data)
}

//! What the linear methods share: a penalised likelihood, minimised by L-BFGS from temperature scaling.

mod objective;
pub(crate) mod odir;

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::methods::likelihood::spread;
use crate::methods::temperature::SPREAD_BOUNDS;
use crate::methods::{FitReport, Fitted};
use crate::models::{Features, LARGEST_WEIGHT, LinearModel, LinearParts, LinearShape};
use crate::nn::input::InputKind;
use crate::optim::lbfgs::Step;
use crate::optim::{Lbfgs, StopReason, vector};
use crate::watch::{Watch, report_progress};
use objective::Objective;
pub(crate) use objective::Ridge;

/// Changes of the loss below this share of it mean nothing.
const NOISE: f64 = 1e-7;

/// At a loss of this, there is nothing left to gain.
const SETTLED: f64 = 1e-6;

/// A fit of a linear map: what distinguishes one linear method from another.
pub(crate) struct LinearFit<'a> {
    pub features: Features,
    pub shape: LinearShape,
    pub ridge: Ridge,
    pub optimizer: &'a Lbfgs,
}

impl LinearFit<'_> {
    /// Minimises the penalised NLL from D = 0, b = 0. `start` is the report of the temperature's fit.
    pub(crate) fn run(
        self,
        data: &Dataset<'_>,
        start: &FitReport,
        watch: &dyn Watch,
    ) -> Result<Fitted> {
        let classes = data.classes();
        let features = self.features.read_all(data);
        let mut objective = Objective::new(data, features, self.shape, self.ridge);
        let units = objective.units();
        let mut params = vec![0.0; objective.params()];
        let mut scaled = vec![0.0; params.len()];
        let most = self.optimizer.max_iterations;
        report_progress(watch, 0, most, start.nll_after)?;
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
                report_progress(watch, step.iteration, most, step.value)?;
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
            let held = values
                .iter()
                .map(|&v| (v as f32).clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT));
            held.collect::<Vec<f32>>()
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

/// Checks the weight of a penalty.
pub(crate) fn check_weight(name: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::invalid(name, value, "a finite number, 0 or more"))
}

/// Tempered scores as features, with a range learned from the rows that count.
pub(crate) fn tempered(input: InputKind, beta: f64, data: &Dataset<'_>) -> Features {
    // Where any large β is perfect, ts may have stayed at β = 1 however large the scores are.
    let spread = spread(data);
    let beta = if spread > 0.0 {
        beta.min(SPREAD_BOUNDS.1 / spread)
    } else {
        beta
    };
    Features::tempered(input, beta, data)
}

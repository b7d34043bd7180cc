//! `diag`: one increasing function f̄ for all classes (Theorem 3 of the paper), fitted on a grid.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

mod objective;

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::grid::Grid;
use crate::math::softmax;
use crate::methods::networks::{check_lambda, layers};
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, FitReport, Fitted};
use crate::models::{DiagModel, check_hidden};
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::optim::lbfgs::Step;
use crate::rank::Sorter;
use crate::rng::Rng;
use crate::watch::{Unwatched, Watch, report_progress};
use objective::{Objective, Pass, SlopeNetwork};

/// The diagonal order-preserving family: f(x) = (f̄(x₁), …, f̄(x_K)) with one increasing f̄.
///
/// f̄(x) = ∫₀ˣ f̄′, and f̄′ = β·s⁺(network + c) > 0 reads a single number (β from `ts`, s⁺(c) = 1). So the network is evaluated on a grid
/// of nodes alone, f̄′ is linear in between, and every score is read off the resulting piecewise quadratic.
/// The direct integral (a quadrature of the network for every single score) is what the tests compare
/// with.
///
/// Without regularisation f̄′ is free to do anything where there are few data. Two penalties hold it:
/// λ/2 ‖θ‖² as in the paper, and `smoothness`/(2W) ∫ (d ln f̄′/dτ)² dτ with τ from 0 to 1 along the grid and
/// W the total weight of the rows,
/// which shrinks f̄ towards a straight line: temperature scaling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Diag {
    /// Units of each hidden layer.
    pub hidden: Vec<usize>,
    /// λ: the weight of the penalty λ/2 ‖θ‖² on all weights and biases.
    pub lambda: f64,
    /// The weight of the penalty on changes of f̄′.
    pub smoothness: f64,
    /// The shift of a row before f̄.
    pub input: InputKind,
    /// Intervals of the grid.
    pub intervals: usize,
    /// The optimiser's settings.
    pub optimizer: Lbfgs,
    /// The seed of the initial weights.
    pub seed: u64,
}

impl Default for Diag {
    fn default() -> Self {
        Self {
            hidden: vec![10, 10],
            lambda: 0.0,
            smoothness: 1.0,
            input: InputKind::LogSoftmax,
            intervals: 4096,
            optimizer: Lbfgs::default().with_max_iterations(100),
            seed: 1357,
        }
    }
}

impl Diag {
    /// Sets the units of each hidden layer.
    #[must_use]
    pub fn with_hidden(mut self, hidden: &[usize]) -> Self {
        self.hidden = hidden.to_vec();
        self
    }

    /// Sets the weight of the penalty on changes of f̄′.
    #[must_use]
    pub fn with_smoothness(mut self, smoothness: f64) -> Self {
        self.smoothness = smoothness;
        self
    }

    /// Sets the weight of the L2 penalty.
    #[must_use]
    pub fn with_lambda(mut self, lambda: f64) -> Self {
        self.lambda = lambda;
        self
    }

    /// Sets the shift of a row before f̄.
    #[must_use]
    pub fn with_input(mut self, input: InputKind) -> Self {
        self.input = input;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Weights of the penalty that shrinks f̄ to temperature scaling, for a search.
const SMOOTHNESS: [f64; 3] = [0.1, 1.0, 10.0];

impl Describe for Diag {
    const BRIEF: &'static str = "one increasing function for all classes";
    const PYTHON_CLASS: &'static str = "Diagonal";
    const READS_LOGARITHMS: bool = true;

    fn space(&self, classes: usize) -> Vec<Self> {
        let settings = layers(classes).flat_map(|hidden| SMOOTHNESS.map(|s| (hidden.clone(), s)));
        let candidate = |(hidden, smoothness): (Vec<usize>, f64)| {
            self.clone()
                .with_hidden(&hidden)
                .with_smoothness(smoothness)
        };
        settings.map(candidate).collect()
    }

    fn cheaper(&self) -> Self {
        let mut cheap = self.clone();
        cheap.intervals = cheap.intervals.min(512);
        cheap.optimizer.max_iterations = cheap.optimizer.max_iterations.min(20);
        cheap
    }
}

impl Calibrator for Diag {
    fn validate(&self) -> Result<()> {
        check_hidden(&self.hidden)?;
        check_lambda(self.lambda)?;
        if !(self.smoothness >= 0.0 && self.smoothness.is_finite()) {
            return Err(Error::invalid(
                "smoothness",
                self.smoothness,
                "a finite number, 0 or more",
            ));
        }
        if !(16..=MAX_INTERVALS).contains(&self.intervals) {
            return Err(Error::invalid("intervals", self.intervals, "16 to 60000"));
        }
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        let (beta, start) = fit_beta(data, &Unwatched)?;
        // A start without last digits, which depend on the order of the rows.
        let beta = f64::from(beta as f32);
        let ((low, high), mut objective) = self.objective(data, beta);
        let mut params: Vec<f64> = objective.slope.initial(&mut Rng::new(self.seed));
        let most = self.optimizer.max_iterations;
        let outcome = self.optimizer.minimize(
            &mut params,
            NOISE,
            &mut |params, gradient| objective.evaluate(params, gradient),
            &mut |step: &Step<'_>| {
                report_progress(watch, step.iteration, most, step.value).map(|()| None)
            },
        )?;
        let mut gradient = vec![0.0; params.len()];
        let loss = objective.evaluate(&params, &mut gradient);
        let report = FitReport {
            iterations: outcome.iterations,
            evaluations: outcome.evaluations + 1,
            loss,
            nll_before: start.nll_before,
            nll_after: objective.pass.nll,
            stop: outcome.stop,
            notes: Vec::new(),
        };
        let model = DiagModel::new(
            data.classes(),
            self.input,
            (low, high),
            objective.slope.slopes,
        );
        Ok(Fitted {
            model: model.into(),
            report,
        })
    }
}

impl Diag {
    /// What is minimised, and the range of its grid.
    fn objective<'a>(&self, data: &'a Dataset<'a>, beta: f64) -> ((f64, f64), Objective<'a>) {
        let shifts = shifts(data, self.input);
        let (low, high) = range(data, &shifts, beta);
        let grid = Grid::new(low, high, self.intervals);
        let objective = Objective {
            slope: SlopeNetwork::new(&self.hidden, grid, beta),
            pass: Pass::new(data, &shifts, grid),
            lambda: self.lambda,
            smoothness: self.smoothness / data.total_weight(),
        };
        ((low, high), objective)
    }
}

/// One evaluation of `diag`'s loss and gradient, for [`crate::kernels`].
pub(crate) fn evaluation<'a>(data: &'a Dataset<'a>) -> impl FnMut() -> f64 + 'a {
    let diag = Diag::default();
    let (_, mut objective) = diag.objective(data, 1.0);
    let params = objective.slope.initial(&mut Rng::new(diag.seed));
    let mut gradient = vec![0.0; params.len()];
    move || objective.evaluate(&params, &mut gradient)
}

/// Pieces of the grid are counted in 16 bits.
const MAX_INTERVALS: usize = 60_000;

/// What each row is shifted by.
fn shifts(data: &Dataset<'_>, kind: InputKind) -> Vec<f64> {
    let classes = data.classes();
    let group = softmax::group(classes);
    let mut shifts = vec![0.0; data.rows()];
    let scores = data.scores().as_slice().par_chunks(group * classes);
    shifts.par_chunks_mut(group).zip(scores).for_each_init(
        || (Sorter::new(classes), Vec::new()),
        |(sorter, order), (shifts, scores)| {
            order.clear();
            if kind.needs_order() {
                for scores in scores.chunks_exact(classes) {
                    order.extend_from_slice(sorter.sort(scores));
                }
            }
            kind.shifts(scores, classes, order, shifts);
        },
    );
    shifts
}

/// Changes of the loss below this share of it mean nothing.
const NOISE: f64 = 1e-7;

/// The share of the rows whose extremes the grid may leave out at either end.
const OUTLIERS: f64 = 1e-3;
/// Classes whose tempered probability is e⁻ᴿ of the top one's do not matter.
const RELEVANT: f64 = 30.0;

/// The range of scores worth a grid: where classes matter in all rows but the oddest.
///
/// A row's range goes from its top score down to the lowest score that still matters to the softmax, or
/// to the label's. A single wild row must not stretch the grid, so quantiles over rows decide.
fn range(data: &Dataset<'_>, shifts: &[f64], beta: f64) -> (f64, f64) {
    let depth = RELEVANT / beta;
    let mut lows = Vec::with_capacity(data.rows());
    let mut highs = Vec::with_capacity(data.rows());
    for (row, shift) in shifts.iter().enumerate() {
        let weight = data.weight(row);
        if weight == 0.0 {
            continue;
        }
        let scores = data.scores().row(row);
        let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let top = f64::from(top) - shift;
        let label = f64::from(scores[data.labels()[row] as usize]) - shift;
        let relevant = scores
            .iter()
            .map(|&s| f64::from(s) - shift)
            .filter(|&s| s >= top - depth);
        lows.push((relevant.fold(top, f64::min).min(label), weight));
        highs.push((-top, weight));
    }
    let left_out = OUTLIERS * data.total_weight();
    let (low, high) = (beyond(&mut lows, left_out), -beyond(&mut highs, left_out));
    // All scores equal: any range will do.
    if high > low {
        (low, high)
    } else {
        (low - 1.0, low + 1.0)
    }
}

/// The smallest value with more than the given weight up to and including it.
fn beyond(values: &mut [(f64, f64)], weight: f64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let found = values.iter().find(|(_, w)| {
        sum += w;
        sum > weight
    });
    found.expect("the whole weighs more than a part").0
}

//! `diag`: one increasing function f̄ for all classes (Theorem 3 of the paper), tabulated on a grid.

use derive_setters::Setters;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

mod objective;

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::grid::Grid;
use crate::math::softmax;
use crate::methods::networks::layers;
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, FitReport, Fitted, check_non_negative};
use crate::models::{DiagModel, check_hidden};
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::optim::lbfgs::Step;
use crate::rank::Sorter;
use crate::rng::Rng;
use crate::watch::{Unwatched, Watch, report_progress};
use objective::{DiagObjective, GridLikelihood, SlopeNetwork};

/// The diagonal order-preserving family: f(x) = (f̄(x₁), …, f̄(x_K)) with one increasing f̄.
///
/// f̄(x) = ∫₀ˣ f̄′(t) dt with f̄′(t) = β·softplus(network(t) + c) > 0, where β is that of temperature scaling and
/// softplus(c) = 1. The network has a single input, so it is evaluated at the nodes of a grid only. f̄′ is linear between
/// the nodes, and f̄ is piecewise quadratic. (The original evaluates the integral by quadrature for every score.)
///
/// The fit minimises the mean NLL plus two penalties: λ/2 ‖θ‖² on the parameters of the network, as in the paper, and
/// `smoothness`/(2W) ∫ (d ln f̄′/dτ)² dτ, where τ goes from 0 to 1 along the grid and W is the total weight of the rows. The
/// second shrinks f̄ to a linear function, that is to temperature scaling, where the data are few.
///
/// A. Rahimi, A. Shaban, C.-A. Cheng, R. Hartley, B. Boots: *Intra Order-preserving Functions for Calibration of
/// Multi-Class Neural Networks*, NeurIPS 2020.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Diag {
    /// The number of units of each hidden layer.
    #[setters(into)]
    pub hidden: Vec<usize>,
    /// λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.
    pub lambda: f64,
    /// The weight of the penalty on changes of f̄′, at least 0.
    pub smoothness: f64,
    /// The shift that is subtracted from a row before f̄ is applied.
    pub input: InputKind,
    /// The number of intervals of the grid.
    pub intervals: usize,
    /// The settings of the optimiser.
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

/// The weights of the penalty on changes of f̄′ that a search tries.
const SMOOTHNESS: [f64; 3] = [0.1, 1.0, 10.0];

impl Describe for Diag {
    const BRIEF: &'static str = "one increasing function for all classes";
    const PYTHON_CLASS: &'static str = "Diagonal";
    const READS_LOGARITHMS: bool = true;

    fn space(&self, classes: usize) -> Vec<Self> {
        let settings = layers(classes).flat_map(|hidden| SMOOTHNESS.map(|s| (hidden.clone(), s)));
        let candidate = |(hidden, smoothness): (Vec<usize>, f64)| {
            self.clone().with_hidden(hidden).with_smoothness(smoothness)
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
        check_non_negative("lambda", self.lambda)?;
        check_non_negative("smoothness", self.smoothness)?;
        if !(16..=MAX_INTERVALS).contains(&self.intervals) {
            return Err(Error::invalid("intervals", self.intervals, "16 to 60000"));
        }
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        let (beta, start) = fit_beta(data, &Unwatched)?;
        // Rounded, because the last digits depend on the order of the rows.
        let beta = f64::from(beta as f32);
        let ((low, high), mut objective) = self.objective(data, beta);
        let mut params: Vec<f64> = objective.slope.initial(&mut Rng::new(self.seed));
        let max_iterations = self.optimizer.max_iterations;
        let outcome = self.optimizer.minimize(
            &mut params,
            RELATIVE_NOISE,
            &mut |params, gradient| objective.evaluate(params, gradient),
            &mut |step: &Step<'_>| {
                report_progress(watch, step.iteration, max_iterations, step.value).map(|()| None)
            },
        )?;
        let mut gradient = vec![0.0; params.len()];
        let loss = objective.evaluate(&params, &mut gradient);
        let report = FitReport {
            iterations: outcome.iterations,
            evaluations: outcome.evaluations + 1,
            loss,
            ..FitReport::new(start.nll_before, objective.nll, outcome.stop)
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
    /// The range of the grid, and the objective on it.
    fn objective<'a>(&self, data: &'a Dataset<'a>, beta: f64) -> ((f64, f64), DiagObjective<'a>) {
        let range = range(data, self.input, beta);
        let grid = Grid::new(range.0, range.1, self.intervals);
        let objective = DiagObjective {
            slope: SlopeNetwork::new(&self.hidden, grid, beta),
            likelihood: GridLikelihood::new(data, self.input, grid),
            nll: f64::NAN,
            lambda: self.lambda,
            smoothness: self.smoothness / data.total_weight(),
        };
        (range, objective)
    }
}

/// A closure that evaluates the objective and its gradient once, for [`crate::kernels`].
pub(crate) fn evaluation<'a>(data: &'a Dataset<'a>) -> impl FnMut() -> f64 + 'a {
    let diag = Diag::default();
    let (_, mut objective) = diag.objective(data, 1.0);
    let params = objective.slope.initial(&mut Rng::new(diag.seed));
    let mut gradient = vec![0.0; params.len()];
    move || objective.evaluate(&params, &mut gradient)
}

/// The index of an interval must fit in 16 bits.
const MAX_INTERVALS: usize = 60_000;

/// The shift of each row.
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

/// The relative rounding error of the loss.
const RELATIVE_NOISE: f64 = 1e-7;

/// The fraction of the rows that may extend beyond the grid at either end.
const OUTLIERS: f64 = 1e-3;
/// Classes whose tempered probability is less than e⁻³⁰ times the largest of the row are neglected.
const NEGLIGIBLE_LOG_RATIO: f64 = 30.0;

/// The range of the grid: quantiles, over the rows, of the range of the relevant scores, which are the largest one of the row,
/// the label's, and those that contribute to the softmax. Quantiles are robust against outliers, which would make the grid too
/// coarse for the other rows.
fn range(data: &Dataset<'_>, input: InputKind, beta: f64) -> (f64, f64) {
    let shifts = shifts(data, input);
    let depth = NEGLIGIBLE_LOG_RATIO / beta;
    let (mut lows, mut highs) = (Vec::new(), Vec::new());
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
    let low = weighted_quantile(&mut lows, left_out);
    let high = -weighted_quantile(&mut highs, left_out);
    if high > low {
        (low, high)
    } else {
        // All scores are equal: any range serves.
        (low - 1.0, low + 1.0)
    }
}

/// The smallest of the (value, weight) pairs at which the cumulative weight exceeds `weight`.
fn weighted_quantile(values: &mut [(f64, f64)], weight: f64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let found = values.iter().find(|(_, w)| {
        sum += w;
        sum > weight
    });
    found.expect("the total weight exceeds a fraction of it").0
}

//! `diag`: one increasing function f̄ for all classes (Theorem 3 of the paper), fitted on a grid.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::apply::Block;
use super::network::{check_hidden, check_lambda};
use super::ts;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::exp::{exp_f32, softplus_f64, softplus_inverse};
use crate::math::grid::{Gathered, Grid, Increasing};
use crate::math::simd::vectorized;
use crate::nn::input::InputKind;
use crate::nn::mlp::{Buffers, Shape};
use crate::optim::Lbfgs;
use crate::optim::lbfgs::Step;
use crate::rank::Sorter;
use crate::rng::Rng;
use crate::traits::{Calibrator, FitReport, Transform, Unwatched, Watch, tell};

/// The diagonal order-preserving family: f(x) = (f̄(x₁), …, f̄(x_K)) with one increasing f̄.
///
/// f̄(x) = ∫₀ˣ f̄′, and f̄′ = s⁺(network) > 0 reads a single number. So the network is evaluated on a grid
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

/// A fitted f̄.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagModel {
    classes: usize,
    input: InputKind,
    slopes: Vec<f64>,
    function: Increasing,
    /// f̄(0) as the table has it, taken off so that f̄(0) = 0.
    origin: f64,
}

impl DiagModel {
    /// Builds f̄ from its slopes at even nodes over a range; outside it is a straight line.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if a slope is not positive or the range is empty.
    pub fn from_slopes(
        classes: usize,
        input: InputKind,
        (low, high): (f64, f64),
        slopes: Vec<f64>,
    ) -> Result<Self> {
        let fail = |name, value: String, expected| {
            Err(Error::InvalidParameter {
                name,
                value,
                expected,
            })
        };
        if classes < 2 {
            return fail("classes", classes.to_string(), "at least 2");
        }
        if !(low < high && low.is_finite() && high.is_finite()) {
            return fail(
                "range",
                format!("{low}..{high}"),
                "two finite numbers in order",
            );
        }
        if slopes.len() < 2 {
            return fail("slopes", slopes.len().to_string(), "at least 2");
        }
        if let Some(slope) = slopes.iter().find(|s| !(**s > 0.0 && s.is_finite())) {
            return fail("slopes", slope.to_string(), "positive numbers");
        }
        let grid = Grid::new(low, high, slopes.len() - 1);
        Ok(Self::new(classes, input, grid, slopes))
    }

    fn new(classes: usize, input: InputKind, grid: Grid, slopes: Vec<f64>) -> Self {
        let function = Increasing::new(grid, &slopes);
        let origin = function.at(0.0);
        Self {
            classes,
            input,
            slopes,
            function,
            origin,
        }
    }

    /// f̄ at a score (after the row's shift, see [`Diag::input`]).
    pub fn function(&self, score: f64) -> f64 {
        self.function.at(score) - self.origin
    }

    /// The shift of a row before f̄.
    pub fn input(&self) -> InputKind {
        self.input
    }

    /// The range of the grid; outside it f̄ is a straight line.
    pub fn range(&self) -> (f64, f64) {
        let grid = self.function.grid();
        (grid.low, grid.node(grid.intervals))
    }

    /// f̄′ at the nodes of the grid.
    pub fn slopes(&self) -> &[f64] {
        &self.slopes
    }
}

impl Transform for DiagModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        for (row, logits) in logits.chunks_exact_mut(self.classes).enumerate() {
            let scores = block.row(row);
            let shift = match self.input {
                InputKind::Raw => 0.0,
                _ => row_shift(self.input, scores, block.row_order(row)),
            };
            for (logit, &score) in logits.iter_mut().zip(scores) {
                *logit = if score > f32::NEG_INFINITY {
                    self.function(f64::from(score) - shift)
                } else {
                    f64::NEG_INFINITY
                };
            }
        }
    }
}

fn row_shift(kind: InputKind, scores: &[f32], order: &[u32]) -> f64 {
    let descending = order.iter().map(|&class| scores[class as usize]);
    kind.shift(descending.take_while(|&score| score > f32::NEG_INFINITY))
}

impl Calibrator for Diag {
    type Model = DiagModel;

    fn key(&self) -> &'static str {
        "diag"
    }

    fn validate(&self) -> Result<()> {
        check_hidden(&self.hidden)?;
        check_lambda(self.lambda)?;
        if !(self.smoothness >= 0.0 && self.smoothness.is_finite()) {
            return Err(Error::InvalidParameter {
                name: "smoothness",
                value: self.smoothness.to_string(),
                expected: "a finite number, 0 or more",
            });
        }
        if !(16..=MAX_INTERVALS).contains(&self.intervals) {
            return Err(Error::InvalidParameter {
                name: "intervals",
                value: self.intervals.to_string(),
                expected: "16 to 60000",
            });
        }
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(DiagModel, FitReport)> {
        self.validate()?;
        let (beta, start) = ts::fit_beta(data, &Unwatched)?;
        let shifts = shifts(data, self.input);
        let (low, high) = range(data, &shifts, beta);
        let grid = Grid::new(low, high, self.intervals);
        let mut objective = Objective {
            slope: SlopeNetwork::new(&self.hidden, grid, softplus_inverse(beta)),
            pass: Pass::new(data, &shifts, grid),
            lambda: self.lambda,
            smoothness: self.smoothness / data.total_weight(),
        };
        let mut params: Vec<f64> = objective.slope.initial(&mut Rng::new(self.seed));
        let most = self.optimizer.max_iterations;
        let outcome = self.optimizer.minimize(
            &mut params,
            NOISE,
            &mut |params, gradient| objective.evaluate(params, gradient),
            &mut |step: &Step<'_>| tell(watch, step.iteration, most, step.value).map(|()| None),
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
        };
        let model = DiagModel::new(data.classes(), self.input, grid, objective.slope.slopes);
        Ok((model, report))
    }
}

/// Pieces of the grid are counted in 16 bits.
const MAX_INTERVALS: usize = 60_000;

/// What each row is shifted by.
fn shifts(data: &Dataset<'_>, kind: InputKind) -> Vec<f64> {
    let classes = data.classes();
    if kind == InputKind::Raw {
        return vec![0.0; data.rows()];
    }
    data.scores()
        .as_slice()
        .par_chunks(classes)
        .map_init(
            || Sorter::new(classes),
            |sorter, scores| row_shift(kind, scores, sorter.sort(scores)),
        )
        .collect()
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

/// f̄′ on the grid: a network of one input, and its gradient.
struct SlopeNetwork {
    shape: Shape,
    /// The nodes, scaled to −1..1.
    nodes: Vec<f32>,
    anchor: f64,
    buffers: Buffers,
    narrow: Vec<f32>,
    gradient: Vec<f32>,
    slopes: Vec<f64>,
    derivatives: Vec<f64>,
}

impl SlopeNetwork {
    fn new(hidden: &[usize], grid: Grid, anchor: f64) -> Self {
        let shape = Shape::new(1, hidden, 1);
        let count = grid.intervals + 1;
        let nodes = (0..count).map(|k| (2.0 * k as f64 / grid.intervals as f64 - 1.0) as f32);
        Self {
            nodes: nodes.collect(),
            anchor,
            buffers: shape.buffers(count),
            narrow: vec![0.0; shape.params()],
            gradient: vec![0.0; shape.params()],
            slopes: vec![0.0; count],
            derivatives: vec![0.0; count],
            shape,
        }
    }

    fn initial(&self, rng: &mut Rng) -> Vec<f64> {
        self.shape
            .initial(rng)
            .iter()
            .map(|&p| f64::from(p))
            .collect()
    }

    /// Sets `slopes` to f̄′ at the nodes.
    fn forward(&mut self, params: &[f64]) {
        for (narrow, &param) in self.narrow.iter_mut().zip(params) {
            *narrow = param as f32;
        }
        let outputs = self.shape.forward(
            &self.narrow,
            &self.nodes,
            self.nodes.len(),
            &mut self.buffers,
        );
        for ((slope, derivative), &z) in self
            .slopes
            .iter_mut()
            .zip(&mut self.derivatives)
            .zip(&*outputs)
        {
            (*slope, *derivative) = softplus_f64(f64::from(z) + self.anchor);
        }
    }

    /// Turns the gradient on `slopes` into that on the parameters.
    fn backward(&mut self, on_slopes: &[f64], on_params: &mut [f64]) {
        let count = self.nodes.len();
        // The last layer's values are not needed any more: their place takes the gradient.
        let outputs = self.buffers.last_mut(count);
        for ((output, &gradient), &derivative) in
            outputs.iter_mut().zip(on_slopes).zip(&self.derivatives)
        {
            *output = (gradient * derivative) as f32;
        }
        self.gradient.fill(0.0);
        self.shape.backward(
            &self.narrow,
            &self.nodes,
            count,
            &mut self.buffers,
            &mut self.gradient,
        );
        for (target, &gradient) in on_params.iter_mut().zip(&self.gradient) {
            *target = f64::from(gradient);
        }
    }
}

/// NLL plus penalties, as a function of the network's parameters.
struct Objective<'a> {
    slope: SlopeNetwork,
    pass: Pass<'a>,
    lambda: f64,
    smoothness: f64,
}

impl Objective<'_> {
    fn evaluate(&mut self, params: &[f64], gradient: &mut [f64]) -> f64 {
        self.slope.forward(params);
        let mut on_slopes = self.pass.run(&self.slope.slopes);
        let mut value = self.pass.nll;
        let slopes = &self.slope.slopes;
        let intervals = (slopes.len() - 1) as f64;
        for k in 1..slopes.len() {
            let change = (slopes[k] / slopes[k - 1]).ln();
            value += 0.5 * self.smoothness * intervals * change * change;
            let pull = self.smoothness * intervals * change;
            on_slopes[k] += pull / slopes[k];
            on_slopes[k - 1] -= pull / slopes[k - 1];
        }
        self.slope.backward(&on_slopes, gradient);
        for (gradient, &param) in gradient.iter_mut().zip(params) {
            *gradient += self.lambda * param;
            value += 0.5 * self.lambda * param * param;
        }
        value
    }
}

/// Parts that the rows are divided into, whatever the number of threads.
const PARTS: usize = 16;

/// The mean NLL as a function of the slopes at the nodes.
struct Pass<'a> {
    data: &'a Dataset<'a>,
    /// Where each score lies on the grid, which never changes during a fit.
    pieces: Vec<u16>,
    along: Vec<f32>,
    function: Increasing,
    parts: Vec<Part>,
    nll: f64,
}

/// One part's sums and scratch.
struct Part {
    gathered: Gathered,
    values: Vec<f64>,
    exponentials: Vec<f32>,
    nll: f64,
}

impl<'a> Pass<'a> {
    fn new(data: &'a Dataset<'a>, shifts: &[f64], grid: Grid) -> Self {
        let classes = data.classes();
        let scores = data.scores().as_slice();
        let mut pieces = vec![0_u16; scores.len()];
        let mut along = vec![0.0_f32; scores.len()];
        let rows = pieces
            .par_chunks_mut(classes)
            .zip(along.par_chunks_mut(classes));
        rows.zip(scores.par_chunks(classes)).zip(shifts).for_each(
            |(((pieces, along), scores), shift)| {
                for ((piece, along), &score) in pieces.iter_mut().zip(along).zip(scores) {
                    let place = grid.place(f64::from(score) - shift);
                    *piece = place.piece as u16;
                    *along = place.along as f32;
                }
            },
        );
        let part = || Part {
            gathered: Gathered::new(grid),
            values: vec![0.0; classes],
            exponentials: vec![0.0; classes],
            nll: 0.0,
        };
        // Small data is not worth sixteen grids of sums.
        let parts = scores.len().div_ceil(8 * grid.intervals).clamp(1, PARTS);
        Self {
            data,
            pieces,
            along,
            function: Increasing::new(grid, &vec![1.0; grid.nodes()]),
            parts: (0..parts).map(|_| part()).collect(),
            nll: 0.0,
        }
    }

    /// Sets `nll` and returns its gradient on the slopes.
    fn run(&mut self, slopes: &[f64]) -> Vec<f64> {
        self.function.set(slopes);
        let (data, classes) = (self.data, self.data.classes());
        let rows = data.rows().div_ceil(self.parts.len());
        let (pieces, along, function) = (&self.pieces, &self.along, &self.function);
        let total = data.total_weight();
        self.parts
            .par_iter_mut()
            .enumerate()
            .for_each(|(index, part)| {
                part.gathered.clear();
                part.nll = 0.0;
                for row in (index * rows)..((index + 1) * rows).min(data.rows()) {
                    let here = row * classes..(row + 1) * classes;
                    let label = data.labels()[row] as usize;
                    let weight = data.weight(row) / total;
                    part.add(function, &pieces[here.clone()], &along[here], label, weight);
                }
            });
        let (first, others) = self.parts.split_first_mut().expect("at least one part");
        for part in others {
            first.gathered.merge(&part.gathered);
            first.nll += part.nll;
        }
        self.nll = first.nll;
        let mut gradient = vec![0.0; slopes.len()];
        first.gathered.slopes(function.grid(), &mut gradient);
        gradient
    }
}

impl Part {
    fn add(
        &mut self,
        function: &Increasing,
        pieces: &[u16],
        along: &[f32],
        label: usize,
        weight: f64,
    ) {
        for ((value, &piece), &along) in self.values.iter_mut().zip(pieces).zip(along) {
            *value = function.read(usize::from(piece), f64::from(along));
        }
        let (top, sum) = exponentials(&self.values, &mut self.exponentials);
        self.nll += weight * (sum.ln() - (self.values[label] - top));
        let scale = weight / sum;
        for ((&piece, &along), &e) in pieces.iter().zip(along).zip(&self.exponentials) {
            if e > 0.0 {
                self.gathered
                    .add(usize::from(piece), f64::from(along), scale * f64::from(e));
            }
        }
        self.gathered
            .add(usize::from(pieces[label]), f64::from(along[label]), -weight);
    }
}

const LANES: usize = 16;

vectorized! {
    /// e^(v − max) of a row, with max and the sum.
    fn exponentials(values: &[f64], exponentials: &mut [f32]) -> (f64, f64) {
        let mut tops = [f64::NEG_INFINITY; LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (top, &value) in tops.iter_mut().zip(chunk) {
                *top = if value > *top { value } else { *top };
            }
        }
        let mut top = f64::NEG_INFINITY;
        for &value in tops.iter().chain(chunks.remainder()) {
            top = if value > top { value } else { top };
        }
        let mut sums = [0.0_f64; LANES];
        let mut chunks = values.chunks_exact(LANES);
        let mut targets = exponentials.chunks_exact_mut(LANES);
        for (values, exponentials) in (&mut chunks).zip(&mut targets) {
            for lane in 0..LANES {
                exponentials[lane] = exp_f32((values[lane] - top) as f32);
                sums[lane] += f64::from(exponentials[lane]);
            }
        }
        let rest = chunks.remainder().iter().zip(targets.into_remainder());
        for (sum, (&value, e)) in sums.iter_mut().zip(rest) {
            *e = exp_f32((value - top) as f32);
            *sum += f64::from(*e);
        }
        let mut total = 0.0;
        for sum in sums {
            total += sum;
        }
        (top, total)
    }
}

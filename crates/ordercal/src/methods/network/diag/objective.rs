//! The objective of `diag` as a function of the network's parameters, and its gradient.

use rayon::prelude::*;

use super::shifts;
use crate::data::Dataset;
use crate::math::exp::{exp_f32, ln_f64, multiplier_f64};
use crate::math::grid::{Grid, Increasing, PieceGradients};
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::nn::input::InputKind;
use crate::nn::mlp::Shape;
use crate::nn::transposed::{Activations, ROWS};
use crate::rng::Rng;

/// f̄′ at the nodes of the grid, given by a network with one input, and its gradient.
pub(super) struct SlopeNetwork {
    shape: Shape,
    /// The value of f̄′ where the output of the network is 0.
    beta: f64,
    params: Vec<f32>,
    blocks: Vec<NodeBlock>,
    /// f̄′ at the nodes.
    pub(super) slopes: Vec<f64>,
    /// The derivative of f̄′ with respect to the output of the network, at the nodes.
    derivatives: Vec<f64>,
    /// ln f̄′ at the nodes.
    logs: Vec<f64>,
}

/// A block of neighbouring nodes.
struct NodeBlock {
    /// The inputs of the network, which are the nodes scaled to −1..1, and its activations.
    columns: Activations,
    /// The gradient with respect to the parameters, from these nodes.
    gradient: Vec<f32>,
}

vectorized! {
    /// Computes f̄′ at the nodes, its derivative and its logarithm from the outputs of the network.
    fn write_slopes(outputs: &[f32], beta: f64, slopes: &mut [f64], derivatives: &mut [f64], logs: &mut [f64]) {
        let targets = slopes.iter_mut().zip(derivatives).zip(logs);
        for (((slope, derivative), log), &z) in targets.zip(outputs) {
            let (multiplier, change) = multiplier_f64(f64::from(z));
            (*slope, *derivative) = (beta * multiplier, beta * change);
            *log = ln_f64(*slope);
        }
    }
}

impl SlopeNetwork {
    pub(super) fn new(hidden: &[usize], grid: Grid, beta: f64) -> Self {
        let shape = Shape::new(1, hidden, 1);
        let nodes = grid.nodes();
        let scaled = |k: usize| (2.0 * k as f64 / grid.intervals as f64 - 1.0) as f32;
        let block = |first: usize| {
            let mut columns = Activations::new(&shape);
            for (offset, input) in columns.inputs_mut().iter_mut().enumerate() {
                *input = scaled((first + offset).min(nodes - 1));
            }
            let gradient = vec![0.0; shape.params()];
            NodeBlock { columns, gradient }
        };
        Self {
            beta,
            params: vec![0.0; shape.params()],
            blocks: (0..nodes).step_by(ROWS).map(block).collect(),
            slopes: vec![0.0; nodes],
            derivatives: vec![0.0; nodes],
            logs: vec![0.0; nodes],
            shape,
        }
    }

    pub(super) fn initial(&self, rng: &mut Rng) -> Vec<f64> {
        self.shape
            .initial(rng)
            .iter()
            .map(|&p| f64::from(p))
            .collect()
    }

    /// Sets `slopes` to f̄′ at the nodes.
    fn forward(&mut self, params: &[f64]) {
        for (narrow, &param) in self.params.iter_mut().zip(params) {
            *narrow = param as f32;
        }
        let (shape, params, beta) = (&self.shape, &self.params, self.beta);
        let targets = self
            .slopes
            .par_chunks_mut(ROWS)
            .zip(self.derivatives.par_chunks_mut(ROWS))
            .zip(self.logs.par_chunks_mut(ROWS));
        let blocks = self.blocks.par_iter_mut().zip(targets);
        blocks.for_each(|(block, ((slopes, derivatives), logs))| {
            let outputs = block.columns.forward(shape, params, ROWS);
            write_slopes(outputs, beta, slopes, derivatives, logs);
        });
    }

    /// Computes the gradient with respect to the parameters from that with respect to `slopes`.
    fn backward(&mut self, slope_gradient: &[f64], param_gradient: &mut [f64]) {
        let (shape, params) = (&self.shape, &self.params);
        let sources = slope_gradient
            .par_chunks(ROWS)
            .zip(self.derivatives.par_chunks(ROWS));
        let blocks = self.blocks.par_iter_mut().zip(sources);
        blocks.for_each(|(block, (slope_gradient, derivatives))| {
            let NodeBlock { columns, gradient } = block;
            let outputs = columns.outputs_mut();
            // The padding after the last node has no gradient.
            outputs.fill(0.0);
            let gradients = slope_gradient.iter().zip(derivatives);
            for (output, (slope_gradient, derivative)) in outputs.iter_mut().zip(gradients) {
                *output = (slope_gradient * derivative) as f32;
            }
            columns.backward(shape, params, ROWS, gradient);
        });
        param_gradient.fill(0.0);
        for block in &self.blocks {
            for (sum, &part) in param_gradient.iter_mut().zip(&block.gradient) {
                *sum += f64::from(part);
            }
        }
    }
}

/// Rounds to a multiple of the unit in the last place of `large`, by adding and subtracting it.
///
/// The last digits of a sum depend on the order of the rows. Networks with ReLUs amplify such differences: after some thirty
/// iterations the fits would visibly differ. With sums rounded far above their errors, and far below what affects the
/// result, almost every fit is independent of the order of the rows.
fn round_coarsely(value: f64, large: f64) -> f64 {
    (value + large) - large
}

/// Rounds the mean NLL to multiples of 2⁻³⁰.
const VALUE_ROUNDING: f64 = 1.5 * (1 << 22) as f64;
/// Rounds its gradient to multiples of 2⁻³⁴.
const GRADIENT_ROUNDING: f64 = 1.5 * (1 << 18) as f64;

/// The mean NLL plus penalties, as a function of the network's parameters.
pub(super) struct DiagObjective<'a> {
    pub(super) slope: SlopeNetwork,
    pub(super) likelihood: GridLikelihood<'a>,
    /// The mean NLL at the last evaluation.
    pub(super) nll: f64,
    pub(super) lambda: f64,
    /// The weight of the penalty on changes of f̄′, divided by the total weight of the rows.
    pub(super) smoothness: f64,
}

impl DiagObjective<'_> {
    /// Returns the value at `params` and writes the gradient.
    pub(super) fn evaluate(&mut self, params: &[f64], gradient: &mut [f64]) -> f64 {
        self.slope.forward(params);
        let (nll, mut slope_gradient) = self.likelihood.evaluate(&self.slope.slopes);
        self.nll = nll;
        for gradient in &mut slope_gradient {
            *gradient = round_coarsely(*gradient, GRADIENT_ROUNDING);
        }
        let mut value = round_coarsely(nll, VALUE_ROUNDING);
        let SlopeNetwork { slopes, logs, .. } = &self.slope;
        let weight = self.smoothness * (slopes.len() - 1) as f64;
        for k in 1..slopes.len() {
            let change = logs[k] - logs[k - 1];
            value += 0.5 * weight * change * change;
            slope_gradient[k] += weight * change / slopes[k];
            slope_gradient[k - 1] -= weight * change / slopes[k - 1];
        }
        self.slope.backward(&slope_gradient, gradient);
        for (gradient, &param) in gradient.iter_mut().zip(params) {
            *gradient += self.lambda * param;
            value += 0.5 * self.lambda * param * param;
        }
        value
    }
}

/// The largest number of parts into which the rows are divided; fixed, so that sums do not depend on the number of threads.
const MAX_PARTS: usize = 16;

/// The mean NLL as a function of the slopes at the nodes.
pub(super) struct GridLikelihood<'a> {
    data: &'a Dataset<'a>,
    /// The interval of the grid in which each score lies, N×K.
    pieces: Vec<u16>,
    /// The position of each score within its interval, N×K.
    along: Vec<f32>,
    /// The weight of each row divided by the total weight; a single number if all rows have the same.
    weights: Vec<f64>,
    function: Increasing,
    parts: Vec<Part>,
}

/// The sums over one part of the rows, and scratch for a row.
struct Part {
    gradients: PieceGradients,
    values: Vec<f64>,
    exponentials: Vec<f32>,
    nll: f64,
}

impl<'a> GridLikelihood<'a> {
    pub(super) fn new(data: &'a Dataset<'a>, input: InputKind, grid: Grid) -> Self {
        let (classes, total) = (data.classes(), data.total_weight());
        let shifts = shifts(data, input);
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
                    // Masked classes get a finite value with an exponential of 0.
                    *along = (place.along as f32).max(f32::MIN);
                }
            },
        );
        let part = || Part {
            gradients: PieceGradients::new(grid),
            values: vec![0.0; classes],
            exponentials: vec![0.0; classes],
            nll: 0.0,
        };
        // Each part has sums for the whole grid, which must be cleared and added: small data use fewer parts.
        let parts = scores
            .len()
            .div_ceil(32 * grid.intervals)
            .clamp(1, MAX_PARTS);
        let weights = match data.weights() {
            Some(weights) => weights.iter().map(|w| w / total).collect(),
            None => vec![1.0 / total],
        };
        Self {
            data,
            pieces,
            along,
            weights,
            function: Increasing::new(grid, &vec![1.0; grid.nodes()]),
            parts: (0..parts).map(|_| part()).collect(),
        }
    }

    /// The NLL and its gradient with respect to the slopes.
    fn evaluate(&mut self, slopes: &[f64]) -> (f64, Vec<f64>) {
        self.function.set(slopes);
        let (data, classes) = (self.data, self.data.classes());
        let rows = data.rows().div_ceil(self.parts.len());
        let (pieces, along, function) = (&self.pieces, &self.along, &self.function);
        let weights = &self.weights[..];
        self.parts
            .par_iter_mut()
            .enumerate()
            .for_each(|(index, part)| {
                part.gradients.clear();
                let first = (index * rows).min(data.rows());
                let end = (first + rows).min(data.rows());
                let cells = first * classes..end * classes;
                let rows = GridRows {
                    pieces: &pieces[cells.clone()],
                    along: &along[cells],
                    labels: &data.labels()[first..end],
                    weights: weights.get(first..end).unwrap_or(weights),
                };
                let Part {
                    gradients,
                    values,
                    exponentials,
                    nll,
                } = part;
                *nll = add_rows(&rows, function, values, exponentials, gradients);
            });
        let (first, others) = self.parts.split_first_mut().expect("at least one part");
        first.nll += others.iter().map(|part| part.nll).sum::<f64>();
        let others: Vec<&PieceGradients> = others.iter().map(|part| &part.gradients).collect();
        first.gradients.merge(&others);
        (first.nll, first.gradients.slopes(self.function.grid()))
    }
}

const LANES: usize = 16;

/// The rows of one part, as positions on the grid.
struct GridRows<'a> {
    pieces: &'a [u16],
    along: &'a [f32],
    labels: &'a [u32],
    /// As in [`GridLikelihood`].
    weights: &'a [f64],
}

vectorized! {
    /// Returns the weighted NLL of some rows and adds its gradient with respect to the values of f̄ to `gradients`.
    /// `values` and `exponentials` are scratch for one row.
    fn add_rows(
        rows: &GridRows<'_>,
        function: &Increasing,
        values: &mut [f64],
        exponentials: &mut [f32],
        gradients: &mut PieceGradients,
    ) -> f64 {
        let classes = values.len();
        let all = rows.pieces.chunks_exact(classes).zip(rows.along.chunks_exact(classes));
        let mut nll = 0.0;
        for (row, (pieces, along)) in all.enumerate() {
            let label = rows.labels[row] as usize;
            let weight = if rows.weights.len() == 1 { rows.weights[0] } else { rows.weights[row] };
            for ((value, &piece), &along) in values.iter_mut().zip(pieces).zip(along) {
                *value = function.read(usize::from(piece), f64::from(along));
            }
            let (top, sum) = exponentiate(values, exponentials);
            nll += weight * (ln_f64(sum) - (values[label] - top));
            let scale = weight / sum;
            for ((&piece, &along), &e) in pieces.iter().zip(along).zip(&*exponentials) {
                if e > 0.0 {
                    gradients.add(usize::from(piece), f64::from(along), scale * f64::from(e));
                }
            }
            gradients.add(usize::from(pieces[label]), f64::from(along[label]), -weight);
        }
        nll
    }
}

/// Writes e^(v − max) of a row; returns the maximum and the sum of the exponentials.
#[inline(always)]
fn exponentiate(values: &[f64], exponentials: &mut [f32]) -> (f64, f64) {
    let larger = |a, b| if b > a { b } else { a };
    let top = lanes::fold::<LANES, _, _>(values, f64::NEG_INFINITY, larger, larger);
    for (e, &value) in exponentials.iter_mut().zip(values) {
        *e = exp_f32((value - top) as f32);
    }
    let add = |sum: f64, e: f32| sum + f64::from(e);
    let sums = lanes::accumulate::<LANES, _, _>(exponentials, 0.0, add);
    (top, sums.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use crate::nn::mlp::tests::{activation_pattern, plain};
    use ndarray::Array2;

    /// Clenshaw–Curtis quadrature with n + 1 points, for even n.
    fn clenshaw_curtis(n: usize, (a, b): (f64, f64), f: &dyn Fn(f64) -> f64) -> f64 {
        let angle = |k: usize| std::f64::consts::PI * k as f64 / n as f64;
        let weight = |k: usize| {
            let series: f64 = (1..=n / 2)
                .map(|j| {
                    let half = if 2 * j == n { 1.0 } else { 2.0 };
                    half / (4 * j * j - 1) as f64 * (2.0 * j as f64 * angle(k)).cos()
                })
                .sum();
            let ends = if k == 0 || k == n { 1.0 } else { 2.0 };
            ends / n as f64 * (1.0 - series)
        };
        let half = 0.5 * (b - a);
        (0..=n)
            .map(|k| half * weight(k) * f(a + half * (1.0 + angle(k).cos())))
            .sum()
    }

    #[test]
    fn the_quadrature_is_accurate() {
        let got = clenshaw_curtis(100, (-1.0, 2.0), &|t| t.exp() + t.powi(5));
        let exact = 2_f64.exp() - (-1_f64).exp() + (64.0 - 1.0) / 6.0;
        assert!((got - exact).abs() < 1e-12);
    }

    /// The integral of f̄′ by 100-point quadratures between the kinks of the network.
    fn direct(widths: &[usize], params: &[f64], beta: f64, a: f64, b: f64) -> f64 {
        let pattern = |t: f64| activation_pattern(widths, params, &[t]);
        let inside = (0..=16).map(|i| pattern(a + (b - a) * f64::from(i) / 16.0));
        let smooth = inside.collect::<Vec<_>>().windows(2).all(|p| p[0] == p[1]);
        if smooth || b - a < 1e-9 {
            let slope = |t: f64| beta * multiplier_f64(plain(widths, params, &[t])[0]).0;
            return clenshaw_curtis(100, (a, b), &slope);
        }
        let middle = 0.5 * (a + b);
        direct(widths, params, beta, a, middle) + direct(widths, params, beta, middle, b)
    }

    #[test]
    fn the_grid_integral_agrees_with_the_direct_one() {
        let mut rng = Rng::new(51);
        let grid = Grid::new(-30.0, 2.0, 4096);
        for hidden in [&[1][..], &[10], &[10, 10], &[50, 50]] {
            let mut network = SlopeNetwork::new(hidden, grid, 0.3);
            // About as far from the initial constant as a fitted network.
            let params: Vec<f64> = network
                .initial(&mut rng)
                .iter()
                .map(|p| p + 0.3 * rng.normal())
                .collect();
            let narrow: Vec<f64> = params.iter().map(|&p| f64::from(p as f32)).collect();
            network.forward(&params);
            let function = Increasing::new(grid, &network.slopes);
            let widths = [&[1][..], hidden, &[1]].concat();
            // The inputs of the network are scaled to −1..1.
            let (half, middle) = (16.0, -14.0);
            let (mut sum, mut last) = (0.0, -1.0);
            let total = function.at(2.0);
            for i in 1..=40 {
                let t = -1.0 + f64::from(i) / 20.0;
                sum += half * direct(&widths, &narrow, 0.3, last, t);
                last = t;
                let ours = function.at(middle + half * t);
                assert!(
                    (ours - sum).abs() <= 1e-6 * total,
                    "{hidden:?} at {t}: {ours} and {sum}"
                );
            }
        }
    }

    /// A direct implementation of the objective.
    fn direct_objective(
        objective: &DiagObjective<'_>,
        data: &Dataset<'_>,
        shifts: &[f64],
        grid: Grid,
        hidden: &[usize],
        params: &[f64],
    ) -> f64 {
        let widths = [&[1][..], hidden, &[1]].concat();
        let slope = |k: usize| {
            let t = 2.0 * k as f64 / grid.intervals as f64 - 1.0;
            objective.slope.beta * multiplier_f64(plain(&widths, params, &[t])[0]).0
        };
        let slopes: Vec<f64> = (0..grid.nodes()).map(slope).collect();
        let function = Increasing::new(grid, &slopes);
        let mut value = 0.0;
        for (row, shift) in shifts.iter().enumerate() {
            let logits: Vec<f64> = data
                .scores()
                .row(row)
                .iter()
                .map(|&s| {
                    if s.is_finite() {
                        function.at(f64::from(s) - shift)
                    } else {
                        f64::NEG_INFINITY
                    }
                })
                .collect();
            let label = logits[data.labels()[row] as usize];
            let sum: f64 = logits.iter().map(|v| (v - label).exp()).sum();
            value += data.weight(row) / data.total_weight() * sum.ln();
        }
        let width = 1.0 / grid.intervals as f64;
        for pair in slopes.windows(2) {
            let steepness = (pair[1].ln() - pair[0].ln()) / width;
            value += 0.5 * objective.smoothness * steepness * steepness * width;
        }
        value + 0.5 * objective.lambda * params.iter().map(|p| p * p).sum::<f64>()
    }

    #[test]
    fn value_and_gradient_agree_with_the_direct_implementation() {
        let mut rng = Rng::new(52);
        let (rows, classes, hidden) = (60, 4, [5, 3]);
        let mut logits = Array2::from_shape_fn((rows, classes), |_| (4.0 * rng.normal()) as f32);
        logits[[3, 1]] = f32::NEG_INFINITY;
        let labels: Vec<u32> = (0..rows)
            .map(|row| {
                if row == 3 {
                    0
                } else {
                    rng.below(classes) as u32
                }
            })
            .collect();
        let weights = (0..rows).map(|_| rng.uniform()).collect();
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
        let data = Dataset::new(scores, &labels)
            .unwrap()
            .with_weights(weights)
            .unwrap();
        let shifts = shifts(&data, InputKind::LogSoftmax);
        // Some scores lie outside the grid.
        let grid = Grid::new(-6.0, 5.0, 64);
        let mut objective = DiagObjective {
            slope: SlopeNetwork::new(&hidden, grid, 0.6),
            likelihood: GridLikelihood::new(&data, InputKind::LogSoftmax, grid),
            nll: f64::NAN,
            lambda: 0.01,
            smoothness: 0.02,
        };
        let params: Vec<f64> = (0..objective.slope.shape.params())
            .map(|_| f64::from(rng.normal() as f32))
            .collect();
        let mut gradient = vec![0.0; params.len()];
        let value = objective.evaluate(&params, &mut gradient);
        let exact = direct_objective(&objective, &data, &shifts, grid, &hidden, &params);
        assert!((value - exact).abs() < 1e-5 * exact, "{value} and {exact}");
        for i in 0..params.len() {
            let at = |step: f64| {
                let mut moved = params.clone();
                moved[i] += step;
                direct_objective(&objective, &data, &shifts, grid, &hidden, &moved)
            };
            let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
            let error = (gradient[i] - difference).abs();
            assert!(
                error < 2e-4 * difference.abs().max(0.1),
                "parameter {i}: {} {difference}",
                gradient[i]
            );
        }
    }
}

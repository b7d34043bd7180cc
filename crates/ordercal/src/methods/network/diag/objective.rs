//! The loss of `diag` as a function of its network's parameters, and its gradient.

use rayon::prelude::*;

use crate::data::Dataset;
use crate::math::exp::{exp_f32, ln_f64, multiplier_f64};
use crate::math::grid::{Grid, Increasing, PieceGradients};
use crate::math::lanes;
use crate::math::simd::vectorized;
use crate::nn::mlp::Shape;
use crate::nn::transposed::{Activations, ROWS};
use crate::rng::Rng;

/// f̄′ on the grid: a network of one input, and its gradient.
pub(super) struct SlopeNetwork {
    shape: Shape,
    /// f̄′ where the network says 0.
    beta: f64,
    params: Vec<f32>,
    stretches: Vec<Stretch>,
    pub(super) slopes: Vec<f64>,
    derivatives: Vec<f64>,
    /// ln f̄′.
    logs: Vec<f64>,
}

/// Some neighbouring nodes.
struct Stretch {
    /// Their places, scaled to −1..1, and what the network makes of them.
    columns: Activations,
    gradient: Vec<f32>,
}

vectorized! {
    /// f̄′ at the nodes, its derivative and its logarithm, from the network's outputs there.
    fn read_slopes(outputs: &[f32], beta: f64, slopes: &mut [f64], derivatives: &mut [f64], logs: &mut [f64]) {
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
        let place = |k: usize| (2.0 * k as f64 / grid.intervals as f64 - 1.0) as f32;
        let stretch = |first: usize| {
            let mut columns = Activations::new(&shape);
            for (offset, input) in columns.inputs_mut().iter_mut().enumerate() {
                *input = place((first + offset).min(nodes - 1));
            }
            let gradient = vec![0.0; shape.params()];
            Stretch { columns, gradient }
        };
        Self {
            beta,
            params: vec![0.0; shape.params()],
            stretches: (0..nodes).step_by(ROWS).map(stretch).collect(),
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
        let stretches = self.stretches.par_iter_mut().zip(targets);
        stretches.for_each(|(stretch, ((slopes, derivatives), logs))| {
            let outputs = stretch.columns.forward(shape, params, ROWS);
            read_slopes(outputs, beta, slopes, derivatives, logs);
        });
    }

    /// Turns the gradient on `slopes` into that on the parameters.
    fn backward(&mut self, on_slopes: &[f64], on_params: &mut [f64]) {
        let (shape, params) = (&self.shape, &self.params);
        let sources = on_slopes
            .par_chunks(ROWS)
            .zip(self.derivatives.par_chunks(ROWS));
        let stretches = self.stretches.par_iter_mut().zip(sources);
        stretches.for_each(|(stretch, (on_slopes, derivatives))| {
            let Stretch { columns, gradient } = stretch;
            let outputs = columns.outputs_mut();
            // Behind the last node there is nothing.
            outputs.fill(0.0);
            let gradients = on_slopes.iter().zip(derivatives);
            for (output, (on_slope, derivative)) in outputs.iter_mut().zip(gradients) {
                *output = (on_slope * derivative) as f32;
            }
            columns.backward(shape, params, ROWS, gradient);
        });
        on_params.fill(0.0);
        for stretch in &self.stretches {
            for (sum, &part) in on_params.iter_mut().zip(&stretch.gradient) {
                *sum += f64::from(part);
            }
        }
    }
}

/// Rounds to multiples of 2⁻⁵² times the grain.
///
/// The last digits of a sum depend on the order of the rows, and a network with kinks makes much of little: after some
/// thirty steps the search would be somewhere else. Rounded far below what matters, far above those digits, nearly
/// every search is the same whatever the order.
fn settled(value: f64, grain: f64) -> f64 {
    (value + grain) - grain
}

/// Means of the NLL count to 2⁻³⁰, their gradients on a single slope to 2⁻³⁴.
const VALUE_GRAIN: f64 = 1.5 * (1 << 22) as f64;
const GRADIENT_GRAIN: f64 = 1.5 * (1 << 18) as f64;

/// NLL plus penalties, as a function of the network's parameters.
pub(super) struct Objective<'a> {
    pub(super) slope: SlopeNetwork,
    pub(super) pass: Pass<'a>,
    pub(super) lambda: f64,
    /// The penalty's weight over the rows' total weight.
    pub(super) smoothness: f64,
}

impl Objective<'_> {
    pub(super) fn evaluate(&mut self, params: &[f64], gradient: &mut [f64]) -> f64 {
        self.slope.forward(params);
        let mut on_slopes = self.pass.run(&self.slope.slopes);
        for gradient in &mut on_slopes {
            *gradient = settled(*gradient, GRADIENT_GRAIN);
        }
        let mut value = settled(self.pass.nll, VALUE_GRAIN);
        let SlopeNetwork { slopes, logs, .. } = &self.slope;
        let weight = self.smoothness * (slopes.len() - 1) as f64;
        for k in 1..slopes.len() {
            let change = logs[k] - logs[k - 1];
            value += 0.5 * weight * change * change;
            on_slopes[k] += weight * change / slopes[k];
            on_slopes[k - 1] -= weight * change / slopes[k - 1];
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
pub(super) struct Pass<'a> {
    data: &'a Dataset<'a>,
    /// Where each score lies on the grid, which never changes during a fit.
    pieces: Vec<u16>,
    along: Vec<f32>,
    /// Each row's share of the whole weight; one for all if rows count alike.
    shares: Vec<f64>,
    function: Increasing,
    parts: Vec<Part>,
    pub(super) nll: f64,
}

/// One part's sums and scratch.
struct Part {
    gathered: PieceGradients,
    values: Vec<f64>,
    exponentials: Vec<f32>,
    nll: f64,
}

impl<'a> Pass<'a> {
    pub(super) fn new(data: &'a Dataset<'a>, shifts: &[f64], grid: Grid) -> Self {
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
                    // Masked classes: so far below that they weigh nothing, but finite.
                    *along = (place.along as f32).max(f32::MIN);
                }
            },
        );
        let part = || Part {
            gathered: PieceGradients::new(grid),
            values: vec![0.0; classes],
            exponentials: vec![0.0; classes],
            nll: 0.0,
        };
        // Each part has a grid of sums, to be cleared and added up: small data is not worth many.
        let parts = scores.len().div_ceil(32 * grid.intervals).clamp(1, PARTS);
        let total = data.total_weight();
        let shares = match data.weights() {
            Some(weights) => weights.iter().map(|w| w / total).collect(),
            None => vec![1.0 / total],
        };
        Self {
            data,
            pieces,
            along,
            shares,
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
        let shares = &self.shares[..];
        self.parts
            .par_iter_mut()
            .enumerate()
            .for_each(|(index, part)| {
                part.gathered.clear();
                let first = (index * rows).min(data.rows());
                let end = (first + rows).min(data.rows());
                let cells = first * classes..end * classes;
                let rows = Rows {
                    pieces: &pieces[cells.clone()],
                    along: &along[cells],
                    labels: &data.labels()[first..end],
                    shares: shares.get(first..end).unwrap_or(shares),
                };
                let Part {
                    gathered,
                    values,
                    exponentials,
                    nll,
                } = part;
                *nll = add_rows(&rows, function, values, exponentials, gathered);
            });
        let (first, others) = self.parts.split_first_mut().expect("at least one part");
        first.nll += others.iter().map(|part| part.nll).sum::<f64>();
        let others: Vec<&PieceGradients> = others.iter().map(|part| &part.gathered).collect();
        first.gathered.merge(&others);
        self.nll = first.nll;
        let mut gradient = vec![0.0; slopes.len()];
        first.gathered.slopes(function.grid(), &mut gradient);
        gradient
    }
}

const LANES: usize = 16;

/// The rows that a part works on.
struct Rows<'a> {
    pieces: &'a [u16],
    along: &'a [f32],
    labels: &'a [u32],
    /// Each row's share of the whole; one for all if there is only one.
    shares: &'a [f64],
}

vectorized! {
    /// Adds the NLL of some rows, and its gradient on the values of f̄. `values` and `exponentials` are scratch for
    /// one row.
    fn add_rows(
        rows: &Rows<'_>,
        function: &Increasing,
        values: &mut [f64],
        exponentials: &mut [f32],
        gathered: &mut PieceGradients,
    ) -> f64 {
        let classes = values.len();
        let all = rows.pieces.chunks_exact(classes).zip(rows.along.chunks_exact(classes));
        let mut nll = 0.0;
        for (row, (pieces, along)) in all.enumerate() {
            let label = rows.labels[row] as usize;
            let share = if rows.shares.len() == 1 { rows.shares[0] } else { rows.shares[row] };
            for ((value, &piece), &along) in values.iter_mut().zip(pieces).zip(along) {
                *value = function.read(usize::from(piece), f64::from(along));
            }
            let (top, sum) = exponentiate(values, exponentials);
            nll += share * (ln_f64(sum) - (values[label] - top));
            let scale = share / sum;
            for ((&piece, &along), &e) in pieces.iter().zip(along).zip(&*exponentials) {
                if e > 0.0 {
                    gathered.add(usize::from(piece), f64::from(along), scale * f64::from(e));
                }
            }
            gathered.add(usize::from(pieces[label]), f64::from(along[label]), -share);
        }
        nll
    }
}

/// e^(v − max) of a row, with max and the sum.
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

    /// Clenshaw and Curtis's rule with n + 1 points, for even n.
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
    fn the_quadrature_itself_is_right() {
        let got = clenshaw_curtis(100, (-1.0, 2.0), &|t| t.exp() + t.powi(5));
        let exact = 2_f64.exp() - (-1_f64).exp() + (64.0 - 1.0) / 6.0;
        assert!((got - exact).abs() < 1e-12);
    }

    /// The direct integral of the network, by 100-point quadratures between its kinks.
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
            // As far from the constant that it starts as, as a fitted one gets.
            let params: Vec<f64> = network
                .initial(&mut rng)
                .iter()
                .map(|p| p + 0.3 * rng.normal())
                .collect();
            let narrow: Vec<f64> = params.iter().map(|&p| f64::from(p as f32)).collect();
            network.forward(&params);
            let function = Increasing::new(grid, &network.slopes);
            let widths = [&[1][..], hidden, &[1]].concat();
            // The network reads −1..1.
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

    /// NLL and penalties written out: the network for every score, its integral by brute force on the grid.
    fn slow(
        objective: &Objective<'_>,
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
        let data = objective.pass.data;
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
    fn value_and_gradient_agree_with_the_slow_writing() {
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
        let shifts: Vec<f64> = (0..rows).map(|_| rng.normal()).collect();
        // Narrower than the data: some scores lie outside.
        let grid = Grid::new(-6.0, 5.0, 64);
        let mut objective = Objective {
            slope: SlopeNetwork::new(&hidden, grid, 0.6),
            pass: Pass::new(&data, &shifts, grid),
            lambda: 0.01,
            smoothness: 0.02,
        };
        let params: Vec<f64> = (0..objective.slope.shape.params())
            .map(|_| f64::from(rng.normal() as f32))
            .collect();
        let mut gradient = vec![0.0; params.len()];
        let value = objective.evaluate(&params, &mut gradient);
        let exact = slow(&objective, &shifts, grid, &hidden, &params);
        assert!((value - exact).abs() < 1e-5 * exact, "{value} and {exact}");
        for i in 0..params.len() {
            let at = |step: f64| {
                let mut moved = params.clone();
                moved[i] += step;
                slow(&objective, &shifts, grid, &hidden, &moved)
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

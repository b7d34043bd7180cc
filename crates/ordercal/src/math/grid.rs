//! An increasing function given by its slopes on an even grid, and the gradient on the slopes.
//!
//! With slopes s_k > 0 at nodes t_k and linear in between, the integral f is piecewise quadratic:
//! at t = t_k + h·u, 0 ≤ u ≤ 1,
//!
//! f(t) = F_k + h·(s_k·(u − u²/2) + s_{k+1}·u²/2),  F_{k+1} = F_k + h·(s_k + s_{k+1})/2.
//!
//! It is strictly increasing, because the slopes are positive. Outside the grid it is extrapolated linearly.

use rayon::prelude::*;

use super::simd::vectorized;
use super::softmax;
use super::tile::{self, Lanes};

/// An even grid of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    low: f64,
    step: f64,
    /// 1/step: multiplying is faster than dividing.
    per_step: f64,
    /// The number of intervals; there is one node more.
    pub intervals: usize,
}

/// Where a value lies. Piece 0 is everything below the grid, then come its intervals, and the last piece
/// is everything above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub piece: usize,
    /// The distance from the piece's node, in steps: 0 to 1 inside the grid, any number outside.
    pub along: f64,
}

/// Adding 2⁵² + 1 to an integer n ≥ −1 leaves n + 1 in the low bits. A conversion by `as` would also check for NaN and for
/// numbers out of range.
const INTEGER: f64 = 4_503_599_627_370_497.0; // 2^52 + 1

impl Grid {
    pub(crate) fn new(low: f64, high: f64, intervals: usize) -> Self {
        Self {
            low,
            step: (high - low) / intervals as f64,
            per_step: intervals as f64 / (high - low),
            intervals,
        }
    }

    #[cfg(test)]
    fn node(&self, index: usize) -> f64 {
        self.low + self.step * index as f64
    }

    pub(crate) fn nodes(&self) -> usize {
        self.intervals + 1
    }

    /// Where a value lies.
    #[inline(always)]
    pub(crate) fn place(&self, value: f64) -> Place {
        self.place_of_position(self.position(value))
    }

    /// The distance from the first node, in steps.
    #[inline(always)]
    fn position(&self, value: f64) -> f64 {
        (value - self.low) * self.per_step
    }

    /// [`place`](Self::place) of a position, without branches.
    #[inline(always)]
    fn place_of_position(&self, position: f64) -> Place {
        let left = position.floor().clamp(-1.0, self.intervals as f64);
        Place {
            piece: (left + INTEGER).to_bits() as u32 as usize,
            along: position - left.max(0.0),
        }
    }
}

/// A quadratic: its value at the piece's node, and what a step and a squared step along the piece add.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Piece {
    value: f64,
    slope: f64,
    bend: f64,
}

impl Piece {
    #[inline(always)]
    fn at(&self, along: f64) -> f64 {
        self.value + along * (self.slope + along * self.bend)
    }
}

/// The function f.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Increasing {
    grid: Grid,
    pieces: Vec<Piece>,
}

impl Increasing {
    /// From one slope per node; f is 0 at the first node.
    pub(crate) fn new(grid: Grid, slopes: &[f64]) -> Self {
        let mut increasing = Self {
            grid,
            pieces: vec![Piece::default(); grid.intervals + 2],
        };
        increasing.set(slopes);
        increasing
    }

    /// Replaces the slopes.
    pub(crate) fn set(&mut self, slopes: &[f64]) {
        assert_eq!(slopes.len(), self.grid.nodes(), "one slope per node");
        let last = slopes.len() - 1;
        let step = self.grid.step;
        let straight = |value, slope| Piece {
            value,
            slope: step * slope,
            bend: 0.0,
        };
        let mut value = 0.0;
        self.pieces[0] = straight(0.0, slopes[0]);
        for (piece, pair) in self.pieces[1..].iter_mut().zip(slopes.windows(2)) {
            *piece = Piece {
                value,
                slope: step * pair[0],
                bend: 0.5 * step * (pair[1] - pair[0]),
            };
            value += 0.5 * step * (pair[0] + pair[1]);
        }
        self.pieces[last + 1] = straight(value, slopes[last]);
    }

    /// f at a place.
    #[inline(always)]
    pub(crate) fn read(&self, piece: usize, along: f64) -> f64 {
        self.pieces[piece].at(along)
    }

    /// f at a value.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = self.grid.place(value);
        self.read(place.piece, place.along)
    }

    /// Sets `values` to f(score − shift of its row) − `origin`; masked scores stay masked.
    pub(crate) fn read_rows(
        &self,
        scores: &[f32],
        shifts: &[f64],
        origin: f64,
        values: &mut [f64],
    ) {
        let classes = scores.len() / shifts.len();
        let group = softmax::group(classes);
        let mut pieces = vec![0; scores.len().min(group * classes)];
        let rows = scores.chunks(group * classes).zip(shifts.chunks(group));
        for ((scores, shifts), values) in rows.zip(values.chunks_mut(group * classes)) {
            read_group(
                self,
                scores,
                shifts,
                origin,
                &mut pieces[..scores.len()],
                values,
            );
        }
    }

    /// [`read_rows`](Self::read_rows) of transposed rows.
    pub(crate) fn read_tile(
        &self,
        scores: &[Lanes<f32>],
        shifts: &Lanes<f64>,
        origin: f64,
        values: &mut [Lanes<f64>],
    ) {
        read_tile(self, scores, shifts, origin, values);
    }

    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }
}

vectorized! {
    /// [`Increasing::read_rows`] of a few rows. The first two loops are vectorised; table lookups cannot be.
    fn read_group(f: &Increasing, scores: &[f32], shifts: &[f64], origin: f64, pieces: &mut [u32], values: &mut [f64]) {
        let classes = scores.len() / shifts.len();
        let rows = scores.chunks_exact(classes).zip(shifts);
        for ((scores, &shift), positions) in rows.zip(values.chunks_exact_mut(classes)) {
            for (position, &score) in positions.iter_mut().zip(scores) {
                *position = f.grid.position(f64::from(score) - shift);
            }
        }
        for (value, piece) in values.iter_mut().zip(pieces.iter_mut()) {
            let place = f.grid.place_of_position(*value);
            (*piece, *value) = (place.piece as u32, place.along);
        }
        for (value, &piece) in values.iter_mut().zip(&*pieces) {
            *value = f.read(piece as usize, *value) - origin;
        }
        for (value, &score) in values.iter_mut().zip(scores) {
            *value = if score > f32::NEG_INFINITY { *value } else { f64::NEG_INFINITY };
        }
    }
}

vectorized! {
    /// [`Increasing::read_tile`], in the steps of [`read_group`].
    fn read_tile(f: &Increasing, scores: &[Lanes<f32>], shifts: &Lanes<f64>, origin: f64, values: &mut [Lanes<f64>]) {
        let mut pieces = [0_u32; tile::LANES];
        for (scores, values) in scores.iter().zip(values) {
            for ((value, &score), &shift) in values.iter_mut().zip(scores).zip(shifts) {
                *value = f.grid.position(f64::from(score) - shift);
            }
            for (value, piece) in values.iter_mut().zip(&mut pieces) {
                let place = f.grid.place_of_position(*value);
                (*piece, *value) = (place.piece as u32, place.along);
            }
            for (value, &piece) in values.iter_mut().zip(&pieces) {
                *value = f.read(piece as usize, *value) - origin;
            }
            for (value, &score) in values.iter_mut().zip(scores) {
                *value = if score > f32::NEG_INFINITY { *value } else { f64::NEG_INFINITY };
            }
        }
    }
}

/// Gradients g on values of f, summed by piece: Σg, Σg·u and Σg·u², with u the distance along the piece. A fourth,
/// unused number makes it one vector instruction to add them.
///
/// Every g·uᵏ is rounded to a multiple of 2⁻⁵¹. Sums of such numbers are exact while they are below 4, so that they do not
/// depend on the order of the rows, which networks with ReLUs would amplify. With gradients of a mean, Σ|g| is at most 2.
#[derive(Debug, Clone)]
pub(crate) struct PieceGradients {
    sums: Vec<[f64; 4]>,
}

/// Numbers below 1 that are added to it are rounded to multiples of 2⁻⁵¹.
const ROUNDING: f64 = 3.0;

impl PieceGradients {
    pub(crate) fn new(grid: Grid) -> Self {
        Self {
            sums: vec![[0.0; 4]; grid.intervals + 2],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sums.fill([0.0; 4]);
    }

    /// Adds the gradient on f at one place.
    #[inline(always)]
    pub(crate) fn add(&mut self, piece: usize, along: f64, gradient: f64) {
        let first = gradient * along;
        let more = [gradient, first, first * along, 0.0].map(|v| (v + ROUNDING) - ROUNDING);
        let sums = &mut self.sums[piece];
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum += more;
        }
    }

    /// Adds others, in their order, on all cores.
    pub(crate) fn merge(&mut self, others: &[&Self]) {
        const CHUNK: usize = 512;
        let parts = self.sums.par_chunks_mut(CHUNK).enumerate();
        parts.for_each(|(place, sums)| {
            for other in others {
                let more = &other.sums[place * CHUNK..];
                for (sums, more) in sums.iter_mut().zip(more) {
                    for (sum, value) in sums.iter_mut().zip(more) {
                        *sum += value;
                    }
                }
            }
        });
    }

    /// The gradient on the slopes. The slope at a node enters f in the two intervals beside it, and, through their
    /// areas, everywhere to the right of them.
    pub(crate) fn slopes(&self, grid: Grid) -> Vec<f64> {
        let mut gradient = vec![0.0; grid.nodes()];
        let last = grid.intervals;
        gradient[0] += grid.step * self.sums[0][1];
        gradient[last] += grid.step * self.sums[last + 1][1];
        let mut to_the_right = self.sums[last + 1][0];
        for interval in (0..last).rev() {
            let [all, first, second, _] = self.sums[interval + 1];
            let right = 0.5 * second;
            gradient[interval] += grid.step * (first - right + 0.5 * to_the_right);
            gradient[interval + 1] += grid.step * (right + 0.5 * to_the_right);
            to_the_right += all;
        }
        gradient
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn integrates_linear_slopes_exactly() {
        // s(t) = 2 + t on [−1, 3] integrates to 2t + t²/2.
        let grid = Grid::new(-1.0, 3.0, 16);
        let slopes: Vec<f64> = (0..=16).map(|k| 2.0 + grid.node(k)).collect();
        let f = Increasing::new(grid, &slopes);
        let exact = |t: f64| 2.0 * t + 0.5 * t * t + 1.5;
        for i in 0..=100 {
            let t = -1.0 + 0.04 * f64::from(i);
            assert!((f.at(t) - exact(t)).abs() < 1e-12, "{t}");
        }
        assert!((f.at(-3.0) - -2.0).abs() < 1e-12);
        assert!((f.at(5.0) - (exact(3.0) + 10.0)).abs() < 1e-12);
    }

    #[test]
    fn whole_rows_are_read_as_single_scores_are() {
        let mut rng = Rng::new(32);
        let grid = Grid::new(-2.0, 1.5, 64);
        let slopes: Vec<f64> = (0..=64).map(|_| 0.1 + rng.uniform()).collect();
        let f = Increasing::new(grid, &slopes);
        let mut scores: Vec<f32> = (0..1001).map(|_| rng.normal() as f32 * 2.0).collect();
        scores[0] = f32::NEG_INFINITY;
        scores[1] = 3e38;
        scores[2] = -3e38;
        let mut values = vec![0.0; scores.len()];
        let shifts = [0.25, -0.5, 0.0, 1.0, 0.125, 3.0, -2.0];
        f.read_rows(&scores, &shifts, 1.5, &mut values);
        for (i, (value, &score)) in values.iter().zip(&scores).enumerate().skip(1) {
            assert_eq!(*value, f.at(f64::from(score) - shifts[i / 143]) - 1.5);
        }
        assert_eq!(values[0], f64::NEG_INFINITY);
    }

    #[test]
    fn gradients_agree_with_differences() {
        let mut rng = Rng::new(31);
        let grid = Grid::new(-2.0, 1.5, 7);
        let slopes: Vec<f64> = (0..=7).map(|_| 0.1 + rng.uniform()).collect();
        let places: Vec<f64> = (0..50).map(|_| rng.normal() * 2.0).collect();
        let factors: Vec<f64> = (0..50).map(|_| rng.normal()).collect();
        let loss = |slopes: &[f64]| -> f64 {
            let f = Increasing::new(grid, slopes);
            places.iter().zip(&factors).map(|(&t, c)| c * f.at(t)).sum()
        };
        let mut parts = [PieceGradients::new(grid), PieceGradients::new(grid)];
        for (i, (&t, &c)) in places.iter().zip(&factors).enumerate() {
            let place = grid.place(t);
            parts[i % 2].add(place.piece, place.along, c);
        }
        let [mut gathered, other] = parts;
        gathered.merge(&[&other]);
        let gradient = gathered.slopes(grid);
        for k in 0..8 {
            let at = |step: f64| {
                let mut moved = slopes.clone();
                moved[k] += step;
                loss(&moved)
            };
            let difference = (at(1e-4) - at(-1e-4)) / 2e-4;
            assert!((gradient[k] - difference).abs() < 1e-8, "node {k}");
        }
    }
}

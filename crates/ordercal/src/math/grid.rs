//! An increasing function known by its slopes on an even grid, and the way back for gradients.
//!
//! With slopes s_k > 0 at nodes t_k and linear in between, the integral f is piecewise quadratic:
//! at t = t_k + h·u, 0 ≤ u ≤ 1,
//!
//! f(t) = F_k + h·(s_k·(u − u²/2) + s_{k+1}·u²/2),  F_{k+1} = F_k + h·(s_k + s_{k+1})/2,
//!
//! strictly increasing by construction. Outside the nodes it goes on with the edge's slope.

use std::ops::Range;

use rayon::prelude::*;

use super::simd::vectorized;
use super::softmax;

/// An even grid of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    pub low: f64,
    pub step: f64,
    /// One over the step: dividing takes longer than multiplying.
    per_step: f64,
    /// The number of intervals between nodes; there is one node more.
    pub intervals: usize,
}

/// Where a value lies. Piece 0 is everything below the grid, then come its intervals, and the last piece
/// is everything above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub piece: usize,
    /// How far from the piece's anchoring node, in steps: 0 to 1 inside the grid, any number outside.
    pub along: f64,
}

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

    #[inline]
    pub(crate) fn place(&self, value: f64) -> Place {
        let position = (value - self.low) * self.per_step;
        let count = self.intervals as f64;
        if position < 0.0 {
            return Place {
                piece: 0,
                along: position,
            };
        }
        if position >= count {
            return Place {
                piece: self.intervals + 1,
                along: position - count,
            };
        }
        let left = position.floor();
        Place {
            piece: left as usize + 1,
            along: position - left,
        }
    }
}

/// Where the scores of a few rows lie.
#[derive(Default)]
pub(crate) struct Places {
    pieces: Vec<u32>,
    along: Vec<f64>,
}

impl Places {
    /// Makes room for so many scores.
    pub(crate) fn resize(&mut self, scores: usize) {
        self.pieces.resize(scores, 0);
        self.along.resize(scores, 0.0);
    }
}

/// Adding this to a small integer less 1 leaves the integer in the low bits: a conversion by `as` would look for NaN
/// and for numbers out of range.
const INTEGER: f64 = 4_503_599_627_370_497.0; // 2^52 + 1

vectorized! {
    /// [`Grid::place`] of all scores of some rows, without branches.
    fn place_all(grid: &Grid, scores: &[f32], shifts: &[f64], places: &mut Places) {
        let count = grid.intervals as f64;
        let classes = scores.len() / shifts.len();
        let pieces = places.pieces.chunks_exact_mut(classes);
        let targets = pieces.zip(places.along.chunks_exact_mut(classes));
        for ((scores, &shift), (pieces, along)) in scores.chunks_exact(classes).zip(shifts).zip(targets) {
            for ((&score, piece), along) in scores.iter().zip(pieces).zip(along) {
                let position = (f64::from(score) - shift - grid.low) * grid.per_step;
                let left = position.floor().clamp(-1.0, count);
                *piece = (left + INTEGER).to_bits() as u32;
                *along = position - left.max(0.0);
            }
        }
    }
}

vectorized! {
    /// Whether all places lie inside the grid.
    fn all_inside(grid: &Grid, pieces: &[u32]) -> bool {
        let mut outside = 0;
        for &piece in pieces {
            outside += u32::from(piece.wrapping_sub(1) >= grid.intervals as u32);
        }
        outside == 0
    }
}

vectorized! {
    /// e^f at places inside the grid, up to a factor.
    fn exponentiate_all(pieces: &[Piece], places: &[u32], along: &mut [f64], values: &mut [f64]) {
        for ((value, along), &piece) in values.iter_mut().zip(along.iter_mut()).zip(places) {
            let piece = &pieces[piece as usize];
            *value = piece.exponential;
            *along *= piece.slope + *along * piece.bend;
        }
        for (value, &rise) in values.iter_mut().zip(&*along) {
            *value *= small_exponential(rise);
        }
    }
}

/// eˣ for 0 ≤ x ≤ [`MOST_RISE`], to 1e-12 of it, and never above it: from one piece to the next it does not fall.
#[inline(always)]
fn small_exponential(x: f64) -> f64 {
    let mut p = 1.0 / 120.0;
    p = x.mul_add(p, 1.0 / 24.0);
    p = x.mul_add(p, 1.0 / 6.0);
    p = x.mul_add(p, 0.5);
    p = x.mul_add(p, 1.0);
    x.mul_add(p, 1.0)
}

/// The most that f may grow by within a piece whose exponentials are taken by [`small_exponential`].
const MOST_RISE: f64 = 0.03;
/// The most that f may grow by over the whole grid, so that all exponentials are numbers of full precision.
const MOST_GROWTH: f64 = 600.0;

vectorized! {
    fn read_all(table: &[Piece], pieces: &[u32], along: &[f64], origin: f64, values: &mut [f64]) {
        let places = pieces.iter().zip(along);
        for (value, (&piece, &along)) in values.iter_mut().zip(places) {
            *value = table[piece as usize].at(along) - origin;
        }
    }
}

/// What a piece is: its value where it is anchored, what a step and a squared step along it add, and e^value up to
/// a factor that all pieces share.
///
/// Aligned, so that none lies across two lines of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(align(32))]
struct Piece {
    value: f64,
    slope: f64,
    bend: f64,
    exponential: f64,
}

impl Piece {
    #[inline(always)]
    fn at(&self, along: f64) -> f64 {
        self.value + along * (self.slope + along * self.bend)
    }
}

/// The function itself, ready to be read off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Increasing {
    grid: Grid,
    pieces: Vec<Piece>,
    /// Whether the pieces know their exponentials.
    exponentials: bool,
}

impl Increasing {
    /// From one slope per node; f is 0 at the first node.
    pub(crate) fn new(grid: Grid, slopes: &[f64]) -> Self {
        let mut increasing = Self {
            grid,
            pieces: vec![Piece::default(); grid.intervals + 2],
            exponentials: false,
        };
        increasing.set(slopes);
        increasing
    }

    /// Takes new slopes.
    pub(crate) fn set(&mut self, slopes: &[f64]) {
        assert_eq!(slopes.len(), self.grid.nodes(), "one slope per node");
        let last = slopes.len() - 1;
        let step = self.grid.step;
        let straight = |value, slope| Piece {
            value,
            slope: step * slope,
            ..Piece::default()
        };
        self.exponentials = false;
        let mut value = 0.0;
        self.pieces[0] = straight(0.0, slopes[0]);
        for (piece, pair) in self.pieces[1..].iter_mut().zip(slopes.windows(2)) {
            *piece = Piece {
                value,
                slope: step * pair[0],
                bend: 0.5 * step * (pair[1] - pair[0]),
                exponential: 0.0,
            };
            value += 0.5 * step * (pair[0] + pair[1]);
        }
        self.pieces[last + 1] = straight(value, slopes[last]);
    }

    /// The same function, ready for [`unnormalised`](Self::unnormalised) to take the short way.
    #[must_use]
    pub(crate) fn with_exponentials(mut self) -> Self {
        let [inside @ .., above] = &mut self.pieces[1..] else {
            unreachable!("a grid has pieces beside it")
        };
        let rise = |piece: &Piece| piece.slope + piece.bend;
        self.exponentials =
            above.value <= MOST_GROWTH && inside.iter().all(|piece| rise(piece) <= MOST_RISE);
        for piece in inside {
            piece.exponential = (piece.value - above.value).exp();
        }
        self
    }

    /// f less its value at the first node.
    #[inline(always)]
    pub(crate) fn read(&self, piece: usize, along: f64) -> f64 {
        self.pieces[piece].at(along)
    }

    /// f at every score less its row's shift, less `origin`; masked scores stay masked.
    pub(crate) fn read_all(
        &self,
        scores: &[f32],
        shifts: &[f64],
        origin: f64,
        places: &mut Places,
        values: &mut [f64],
    ) {
        place_all(&self.grid, scores, shifts, places);
        self.read_places(scores, origin, &places.pieces, &places.along, values);
    }

    /// e^f, up to a factor for each row, at every score less its row's shift; masked scores become 0.
    ///
    /// Inside the grid, e^f is that of the piece's first node times that of the little which is left; a row that
    /// reaches beyond it takes the long way.
    pub(crate) fn unnormalised(
        &self,
        scores: &[f32],
        shifts: &[f64],
        places: &mut Places,
        unnormalised: &mut [f64],
    ) {
        place_all(&self.grid, scores, shifts, places);
        let classes = scores.len() / shifts.len();
        // Short rows go together, if they can.
        if self.try_short_way(places, 0..scores.len(), unnormalised) {
            return;
        }
        for (row, unnormalised) in unnormalised.chunks_exact_mut(classes).enumerate() {
            let here = row * classes..(row + 1) * classes;
            if !self.try_short_way(places, here.clone(), unnormalised) {
                let (pieces, along) = (&places.pieces[here.clone()], &places.along[here.clone()]);
                self.read_places(&scores[here], 0.0, pieces, along, unnormalised);
                softmax::unnormalised_rows(unnormalised, classes);
            }
        }
    }

    fn try_short_way(
        &self,
        places: &mut Places,
        here: Range<usize>,
        unnormalised: &mut [f64],
    ) -> bool {
        let pieces = &places.pieces[here.clone()];
        let possible = self.exponentials && all_inside(&self.grid, pieces);
        if possible {
            exponentiate_all(&self.pieces, pieces, &mut places.along[here], unnormalised);
        }
        possible
    }

    fn read_places(
        &self,
        scores: &[f32],
        origin: f64,
        pieces: &[u32],
        along: &[f64],
        values: &mut [f64],
    ) {
        read_all(&self.pieces, pieces, along, origin, values);
        if scores.contains(&f32::NEG_INFINITY) {
            for (value, &score) in values.iter_mut().zip(scores) {
                *value = if score > f32::NEG_INFINITY {
                    *value
                } else {
                    f64::NEG_INFINITY
                };
            }
        }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = self.grid.place(value);
        self.read(place.piece, place.along)
    }

    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }
}

/// Gradients g on values of f, gathered by piece on their way to the slopes: Σg, Σg·u and Σg·u² with u the
/// distance along the piece. A fourth, unused number makes it one vector instruction to add them.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    sums: Vec<[f64; 4]>,
}

impl Gathered {
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
        let more = [gradient, first, first * along, 0.0];
        let sums = &mut self.sums[piece];
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum += more;
        }
    }

    /// Adds others to it, in their order; threads share the pieces.
    pub(crate) fn merge(&mut self, others: &[&Self]) {
        const SHARE: usize = 512;
        let parts = self.sums.par_chunks_mut(SHARE).enumerate();
        parts.for_each(|(place, sums)| {
            for other in others {
                let more = &other.sums[place * SHARE..];
                for (sums, more) in sums.iter_mut().zip(more) {
                    for (sum, value) in sums.iter_mut().zip(more) {
                        *sum += value;
                    }
                }
            }
        });
    }

    /// The gradient on the slopes: what lies in the two intervals at a node, and, because f at any place
    /// includes the areas of all intervals before it, the sum of all gradients to the right.
    pub(crate) fn slopes(&self, grid: Grid, gradient: &mut [f64]) {
        gradient.fill(0.0);
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

    /// Room for the places of so many scores.
    fn places(scores: usize) -> Places {
        let mut places = Places::default();
        places.resize(scores);
        places
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
        f.read_all(
            &scores,
            &[0.25],
            1.5,
            &mut places(scores.len()),
            &mut values,
        );
        for (value, &score) in values.iter().zip(&scores).skip(1) {
            assert_eq!(*value, f.at(f64::from(score) - 0.25) - 1.5);
        }
        assert_eq!(values[0], f64::NEG_INFINITY);
    }

    /// Slopes like those of a fitted f̄, and scores of four rows all over the grid.
    fn fine() -> (Increasing, Vec<f32>) {
        let mut rng = Rng::new(33);
        let grid = Grid::new(-20.0, 0.5, 1024);
        let slopes: Vec<f64> = (0..=1024).map(|_| 0.2 + rng.uniform()).collect();
        let scores = (0..400).map(|_| (-19.9 * rng.uniform()) as f32);
        let scores = scores.collect();
        (Increasing::new(grid, &slopes).with_exponentials(), scores)
    }

    #[test]
    fn the_short_way_to_odds_leads_where_the_long_one_does() {
        let (f, mut scores) = fine();
        assert!(f.exponentials);
        // The second and the fourth row reach beyond the grid, the third has a masked class.
        scores[150] = -25.0;
        scores[250] = f32::NEG_INFINITY;
        scores[350] = 2.0;
        let shifts = [0.0, 0.1, -0.2, 0.05];
        let mut unnormalised = vec![0.0; 400];
        f.unnormalised(&scores, &shifts, &mut places(400), &mut unnormalised);
        let mut logits = vec![0.0; 400];
        f.read_all(&scores, &shifts, 0.0, &mut places(400), &mut logits);
        for (unnormalised, logits) in unnormalised.chunks(100).zip(logits.chunks(100)) {
            let factor = unnormalised[0] / logits[0].exp();
            for (unnormalised, logit) in unnormalised.iter().zip(logits) {
                assert!(
                    (unnormalised - factor * logit.exp()).abs() <= 2e-12 * unnormalised,
                    "{unnormalised} {logit}"
                );
            }
        }
        for row in 0..4 {
            // Alone it is as among others.
            let here = row * 100..(row + 1) * 100;
            let mut alone = vec![0.0; 100];
            let shift = &shifts[row..=row];
            f.unnormalised(&scores[here.clone()], shift, &mut places(100), &mut alone);
            assert!(alone == unnormalised[here], "row {row}");
        }
    }

    #[test]
    fn odds_grow_from_piece_to_piece() {
        let (f, _) = fine();
        // Each node, as the end of a piece and as the beginning of the next.
        let ends = (1..1024).flat_map(|k| [(k, 1.0), (k + 1, 0.0)]);
        let (pieces, mut along): (Vec<u32>, Vec<f64>) = ends.unzip();
        let mut unnormalised = vec![0.0; pieces.len()];
        exponentiate_all(&f.pieces, &pieces, &mut along, &mut unnormalised);
        for pair in unnormalised.windows(2) {
            // What `rank::distinct` allows for.
            let error = 1.0 / (1_u64 << 48) as f64;
            assert!(pair[0] <= pair[1] * (1.0 + error), "{pair:?}");
        }
    }

    #[test]
    fn steep_and_long_functions_take_the_long_way() {
        let grid = Grid::new(0.0, 1.0, 16);
        let steep = Increasing::new(grid, &[1.0; 17]).with_exponentials();
        let long = Increasing::new(Grid::new(0.0, 601.0, 60_000), &[1.0; 60_001]);
        assert!(!steep.exponentials && !long.with_exponentials().exponentials);
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
        let mut parts = [Gathered::new(grid), Gathered::new(grid)];
        for (i, (&t, &c)) in places.iter().zip(&factors).enumerate() {
            let place = grid.place(t);
            parts[i % 2].add(place.piece, place.along, c);
        }
        let [mut gathered, other] = parts;
        gathered.merge(&[&other]);
        let mut gradient = vec![9.0; 8];
        gathered.slopes(grid, &mut gradient);
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

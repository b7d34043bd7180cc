//! An increasing function known by its slopes on an even grid, and the way back for gradients.
//!
//! With slopes s_k > 0 at nodes t_k and linear in between, the integral f is piecewise quadratic:
//! at t = t_k + h·u, 0 ≤ u ≤ 1,
//!
//! f(t) = F_k + h·(s_k·(u − u²/2) + s_{k+1}·u²/2),  F_{k+1} = F_k + h·(s_k + s_{k+1})/2,
//!
//! strictly increasing by construction. Outside the nodes it goes on with the edge's slope.

/// An even grid of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    pub low: f64,
    pub step: f64,
    /// The number of intervals; there is one node more.
    pub intervals: usize,
}

/// Where a value lies: in which interval, how far into it, and how far outside the grid, in steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub interval: usize,
    pub inside: f64,
    pub outside: f64,
}

impl Grid {
    pub(crate) fn new(low: f64, high: f64, intervals: usize) -> Self {
        Self {
            low,
            step: (high - low) / intervals as f64,
            intervals,
        }
    }

    pub(crate) fn node(&self, index: usize) -> f64 {
        self.low + self.step * index as f64
    }

    #[inline(always)]
    pub(crate) fn place(&self, value: f64) -> Place {
        let position = (value - self.low) / self.step;
        let held = position.clamp(0.0, self.intervals as f64);
        let interval = (held as usize).min(self.intervals - 1);
        Place {
            interval,
            inside: held - interval as f64,
            outside: position - held,
        }
    }
}

/// What one interval contributes: its value and slope at the left, and the slope's change to the right.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Piece {
    value: f64,
    slope: f64,
    change: f64,
}

/// The function itself, ready to be read off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Increasing {
    grid: Grid,
    pieces: Vec<Piece>,
}

impl Increasing {
    pub(crate) fn new(grid: Grid, slopes: &[f64]) -> Self {
        let mut increasing = Self {
            grid,
            pieces: vec![Piece::default(); grid.intervals],
        };
        increasing.set(slopes);
        increasing
    }

    /// Takes new slopes, one per node; f is 0 at the first node.
    pub(crate) fn set(&mut self, slopes: &[f64]) {
        assert_eq!(slopes.len(), self.grid.intervals + 1, "one slope per node");
        let mut value = 0.0;
        for (piece, pair) in self.pieces.iter_mut().zip(slopes.windows(2)) {
            *piece = Piece {
                value,
                slope: pair[0],
                change: pair[1] - pair[0],
            };
            value += 0.5 * self.grid.step * (pair[0] + pair[1]);
        }
    }

    /// f less its value at the first node.
    #[inline(always)]
    pub(crate) fn read(&self, place: Place) -> f64 {
        let piece = &self.pieces[place.interval];
        let (u, slope) = (place.inside, piece.slope);
        let within = u * (slope + 0.5 * u * piece.change) + place.outside * (slope + u * piece.change);
        piece.value + self.grid.step * within
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        self.read(self.grid.place(value))
    }

    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }
}

/// Gradients on values of f, gathered by interval on their way to the slopes.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    sums: Vec<[f64; 3]>,
}

impl Gathered {
    pub(crate) fn new(grid: Grid) -> Self {
        Self {
            sums: vec![[0.0; 3]; grid.intervals],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sums.fill([0.0; 3]);
    }

    /// Adds the gradient on f at one place.
    #[inline(always)]
    pub(crate) fn add(&mut self, place: Place, gradient: f64) {
        let (u, outside) = (place.inside, place.outside);
        let right = 0.5 * u * u + outside * u;
        let left = u + outside - right;
        let sums = &mut self.sums[place.interval];
        sums[0] += gradient;
        sums[1] += gradient * left;
        sums[2] += gradient * right;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sums, more) in self.sums.iter_mut().zip(&other.sums) {
            for (sum, value) in sums.iter_mut().zip(more) {
                *sum += value;
            }
        }
    }

    /// The gradient on the slopes: what lies in the two intervals at a node, and, because f at any place
    /// includes the areas of all intervals before it, the sum of all gradients to the right.
    pub(crate) fn slopes(&self, grid: Grid, gradient: &mut [f64]) {
        gradient.fill(0.0);
        let mut to_the_right = 0.0;
        for (interval, &[all, left, right]) in self.sums.iter().enumerate().rev() {
            gradient[interval] += grid.step * (left + 0.5 * to_the_right);
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
            parts[i % 2].add(grid.place(t), c);
        }
        let [mut gathered, other] = parts;
        gathered.merge(&other);
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

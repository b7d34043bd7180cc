//! The smooth calibration error: residuals on a grid, smoothed by a Gaussian kernel with reflection.

use std::f64::consts::TAU;

use super::binning::Sorted;
use super::kernels;

/// The smallest kernel width.
const SMALLEST_WIDTH: f64 = 0.001;
/// Bisection steps for the kernel width.
const HALVINGS: usize = 10;
/// Added to the density, as relplot does, so that intervals without rows do not divide by zero.
const DENSITY_FLOOR: f64 = 1e-4;
/// The kernel is truncated at this many widths: e^(−9²/2) is below 3e-18.
const REACH: f64 = 9.0;

/// Residuals and weights on the nodes of a uniform grid over [0, 1], each divided linearly between the two
/// nearest nodes.
#[derive(Debug, Clone)]
pub(crate) struct ResidualGrid {
    residual: Vec<f64>,
    weight: Vec<f64>,
}

impl ResidualGrid {
    pub(crate) fn new(intervals: usize) -> Self {
        Self {
            residual: vec![0.0; intervals + 1],
            weight: vec![0.0; intervals + 1],
        }
    }

    fn of_rows(rows: &Sorted<'_>, intervals: usize) -> Self {
        let mut grid = Self::new(intervals);
        for (row, (&confidence, &hit)) in rows.confidence.iter().zip(rows.hit).enumerate() {
            let weight = rows.weight.map_or(1.0, |w| w[row]);
            grid.add(confidence, weight * (confidence - hit), weight);
        }
        grid
    }

    pub(crate) fn add(&mut self, confidence: f64, residual: f64, weight: f64) {
        let (node, fraction) = locate(confidence, self.weight.len() - 1);
        self.residual[node] += (1.0 - fraction) * residual;
        self.residual[node + 1] += fraction * residual;
        self.weight[node] += (1.0 - fraction) * weight;
        self.weight[node + 1] += fraction * weight;
    }
}

impl ResidualGrid {
    /// Σ (smoothed density + floor) over the points.
    fn density(&self, width: f64) -> f64 {
        let points = smoothed_points(&self.weight, width).into_iter();
        points.map(|density| density + DENSITY_FLOOR).sum()
    }
}

/// The node at or below a confidence, and the fraction of the interval between that node and the confidence.
pub(crate) fn locate(confidence: f64, intervals: usize) -> (usize, f64) {
    let position = confidence * intervals as f64;
    let node = (position as usize).min(intervals - 1);
    (node, position - node as f64)
}

/// The number of grid intervals for a kernel width.
pub(crate) fn grid_intervals(width: f64) -> usize {
    let points = (20.0 / width).round_ties_even() as usize;
    points.max(2000) / 2
}

/// The fixed point of width ↦ error, as [`sm_ece`](super::sm_ece) describes.
pub(crate) fn smooth_error(rows: &Sorted<'_>) -> f64 {
    smooth_error_and_width(rows).0
}

/// [`smooth_error`] with the width that it is found at.
pub(crate) fn smooth_error_and_width(rows: &Sorted<'_>) -> (f64, f64) {
    // Consecutive widths often share a grid.
    let mut cached: Option<ResidualGrid> = None;
    fixed_point(|width| {
        let intervals = grid_intervals(width);
        let grid = match cached.take() {
            Some(grid) if grid.weight.len() == intervals + 1 => grid,
            _ => ResidualGrid::of_rows(rows, intervals),
        };
        let error = error_at(&grid, width);
        cached = Some(grid);
        error
    })
}

/// The denominator of [`error_at`].
pub(crate) fn density(rows: &Sorted<'_>, width: f64) -> f64 {
    ResidualGrid::of_rows(rows, grid_intervals(width)).density(width)
}

/// The smoothed residuals of rows at evenly spaced points.
pub(crate) fn smoothed_residuals(confidence: &[f64], residuals: &[f64], width: f64) -> Vec<f64> {
    let intervals = grid_intervals(width);
    let mut nodes = vec![0.0; intervals + 1];
    for (&confidence, residual) in confidence.iter().zip(residuals) {
        let (node, fraction) = locate(confidence, intervals);
        nodes[node] += (1.0 - fraction) * residual;
        nodes[node + 1] += fraction * residual;
    }
    smoothed_points(&nodes, width)
}

/// A function on the grid's nodes, smoothed, at evenly spaced points.
fn smoothed_points(nodes: &[f64], width: f64) -> Vec<f64> {
    let intervals = nodes.len() - 1;
    let kernel = Kernel::new(width, intervals);
    let smoothed = Smoothed::new(nodes, &kernel);
    let points = ((10.0 / width).round_ties_even() as usize).max(200);
    let value = |point: usize| {
        let (node, fraction) = locate(point as f64 / (points - 1) as f64, intervals);
        smoothed.at(node) * (1.0 - fraction) + smoothed.at(node + 1) * fraction
    };
    (0..points).map(value).collect()
}

/// The smallest width found by bisection that is at least the error there; returns that error and width.
pub(crate) fn fixed_point(mut error_at_width: impl FnMut(f64) -> f64) -> (f64, f64) {
    let (mut above, mut below) = (1.0, 0.0);
    if error_at_width(above) <= above {
        for _ in 0..HALVINGS {
            let middle = (above + below) / 2.0;
            if middle < SMALLEST_WIDTH || middle < error_at_width(middle) {
                below = middle;
            } else {
                above = middle;
            }
        }
    }
    (error_at_width(above), above)
}

/// Σ |smoothed residual| / Σ (smoothed density + floor), over evenly spaced points.
pub(crate) fn error_at(grid: &ResidualGrid, width: f64) -> f64 {
    let residuals = smoothed_points(&grid.residual, width).into_iter();
    residuals.map(f64::abs).sum::<f64>() / grid.density(width)
}

/// A Gaussian centred on ½, sampled at the nodes of the grid and truncated.
struct Kernel {
    values: Vec<f64>,
    /// The index of the first kept value among all nodes.
    first: usize,
    /// The number of nodes.
    nodes: usize,
}

impl Kernel {
    fn new(width: f64, intervals: usize) -> Self {
        let nodes = intervals + 1;
        let step = 1.0 / intervals as f64;
        let position = |node: usize| node as f64 * step - 0.5;
        let first = (0..nodes / 2)
            .find(|&node| position(node).abs() <= REACH * width)
            .unwrap_or(nodes / 2 - 1);
        let values = (first..nodes - first)
            .map(|node| {
                let t = position(node);
                (-t * t / (2.0 * width * width)).exp() / (TAU.sqrt() * width)
            })
            .collect();
        Self {
            values,
            first,
            nodes,
        }
    }
}

/// A function on the grid, extended by reflection at both ends, and the kernel to convolve it with.
struct Smoothed<'a> {
    extended: Vec<f64>,
    kernel: &'a Kernel,
}

impl<'a> Smoothed<'a> {
    fn new(values: &[f64], kernel: &'a Kernel) -> Self {
        let nodes = kernel.nodes;
        let mirrored = values[1..].iter().rev();
        let after = values[..nodes - 1].iter().rev();
        Self {
            extended: mirrored.chain(values).chain(after).copied().collect(),
            kernel,
        }
    }

    /// The convolution at a node. The kernel is symmetric, so it needs no reversal.
    fn at(&self, node: usize) -> f64 {
        let Kernel {
            values,
            first,
            nodes,
        } = self.kernel;
        // With an even number of nodes none is at ½, and the kernel is half a step off centre.
        let last = node + nodes / 2 + nodes - 1 - first;
        let start = last + 1 - values.len();
        kernels::dot(values, &self.extended[start..=last])
    }
}

//! What the fits of `ts`, `svs` and `diag` ask of the rows: [`Dataset`] answers for rows in memory,
//! [`DividedRows`](super::divided::DividedRows) for those that are spread over many machines.

use super::Fitted;
use super::likelihood::{Likelihood, spread};
use super::linear::{LinearRows, LinearSums};
use super::network::diag;
use super::zeros::{self, Zeros};
use crate::data::Dataset;
use crate::error::Result;
use crate::math::grid::Grid;
use crate::models::{Features, LinearShape};
use crate::nn::input::InputKind;
use crate::optim::scalar::Local;
use crate::watch::Watch;

/// The rows of a fit.
pub(crate) trait Rows {
    fn classes(&self) -> usize;
    fn rows(&self) -> usize;
    fn total_weight(&self) -> f64;

    /// How many rows are in this process's memory.
    fn rows_in_memory(&self) -> usize;

    /// A copy of the given rows, in ascending order; `None` if none of them has weight.
    fn sample(&self, rows: &[usize]) -> Result<Option<Dataset<'static>>>;

    /// The spread of the scores, see [`spread`].
    fn spread(&self) -> Result<f64>;

    /// The mean NLL of softmax(βx) with its derivatives, as a function of β.
    fn likelihood(&self) -> Box<dyn Fn(f64) -> Result<Local> + '_>;

    /// The sums of a linear map.
    fn linear(&self, features: &Features, shape: LinearShape) -> Box<dyn LinearSums + '_>;

    /// The range of the grid of `diag`.
    fn range(&self, input: InputKind, beta: f64) -> Result<(f64, f64)>;

    /// The mean NLL of `diag` and its gradient, as a function of the slopes at the nodes.
    fn on_grid(&self, input: InputKind, range: (f64, f64), intervals: usize) -> Box<GridNll<'_>>;

    /// How many rows have a probability of zero.
    fn zeros(&self) -> Result<Zeros>;

    /// The same rows with a share of the uniform distribution mixed in, see [`zeros`].
    fn with_floor(&self, share: f64) -> Result<Box<dyn Rows + '_>>;
}

/// The mean NLL and its gradient, as a function of the slopes at the nodes of a grid.
pub(crate) type GridNll<'a> = dyn FnMut(&[f64]) -> Result<(f64, Vec<f64>)> + 'a;

/// A method whose fit needs only what [`Rows`] answers.
pub(crate) trait FitRows {
    fn fit_rows(&self, rows: &dyn Rows, watch: &dyn Watch) -> Result<Fitted>;
}

impl Rows for Dataset<'_> {
    fn classes(&self) -> usize {
        Dataset::classes(self)
    }

    fn rows(&self) -> usize {
        Dataset::rows(self)
    }

    fn total_weight(&self) -> f64 {
        Dataset::total_weight(self)
    }

    fn rows_in_memory(&self) -> usize {
        Dataset::rows(self)
    }

    fn sample(&self, rows: &[usize]) -> Result<Option<Dataset<'static>>> {
        let some = rows.iter().any(|&row| self.weight(row) > 0.0);
        Ok(some.then(|| self.select(rows)))
    }

    fn spread(&self) -> Result<f64> {
        Ok(spread(self))
    }

    fn likelihood(&self) -> Box<dyn Fn(f64) -> Result<Local> + '_> {
        let likelihood = Likelihood::new(self);
        Box::new(move |beta| Ok(likelihood.at(beta)))
    }

    fn linear(&self, features: &Features, shape: LinearShape) -> Box<dyn LinearSums + '_> {
        Box::new(LinearRows::new(self, features.of_rows(self), shape))
    }

    fn range(&self, input: InputKind, beta: f64) -> Result<(f64, f64)> {
        Ok(diag::range(self, input, beta))
    }

    fn on_grid(&self, input: InputKind, range: (f64, f64), intervals: usize) -> Box<GridNll<'_>> {
        let grid = Grid::new(range.0, range.1, intervals);
        let mut likelihood = diag::GridLikelihood::new(self, input, grid, self.total_weight());
        Box::new(move |slopes| Ok(likelihood.evaluate(slopes)))
    }

    fn zeros(&self) -> Result<Zeros> {
        Ok(zeros::count(self))
    }

    fn with_floor(&self, share: f64) -> Result<Box<dyn Rows + '_>> {
        Ok(Box::new(zeros::with_floor(self, share)?))
    }
}

/// The mean NLL of the uncalibrated scores.
pub(crate) fn nll_before(rows: &dyn Rows) -> Result<f64> {
    Ok(rows.likelihood()(1.0)?.value)
}

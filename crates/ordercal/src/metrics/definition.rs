//! What the registry knows about a metric.

use super::binning::{BinSum, Binning, Sorted};
use super::options::MetricOptions;
use super::row_stats::WeightedRows;

/// A metric: what it is called, what it asks, and how to compute it.
pub(crate) struct Definition {
    /// As typed on a command line.
    pub(crate) key: &'static str,
    /// As in the heading of a table.
    pub(crate) name: &'static str,
    /// What it asks, with the formula in words: one sentence.
    pub(crate) brief: &'static str,
    /// The formula.
    pub(crate) formula: &'static str,
    /// The smallest and the largest value.
    pub(crate) range: &'static str,
    /// When it misleads.
    pub(crate) caveat: &'static str,
    /// The public package whose values it equals.
    pub(crate) equals: &'static str,
    pub(crate) best: Best,
    pub(crate) compute: Compute,
}

/// Which value of a metric is the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Best {
    /// The smallest possible one: a loss or an error.
    Lowest,
    /// The largest possible one.
    Highest,
    /// This one: values on either side of it are worse.
    Value(f64),
}

/// The form in which a metric reads the predictions, and the function that computes it.
pub(crate) enum Compute {
    /// From statistics of each row.
    Rows(fn(&WeightedRows<'_>, &MetricOptions) -> f64),
    /// From the confidences of the predicted classes in bins of this kind.
    Bins(Binning, fn(&[BinSum], &MetricOptions) -> f64),
    /// From the confidences of the predicted classes, in ascending order.
    TopLabel(fn(&Sorted<'_>, &MetricOptions) -> f64),
    /// From the error of every class, with its probabilities in bins of this kind, and what the classes' errors become
    /// together.
    PerClass(Binning, fn(&[f64], &MetricOptions) -> f64),
}

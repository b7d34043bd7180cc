//! Calibration errors and scoring rules, with bootstrap intervals, tests and mergeable states.
//!
//! Definitions that share a name differ from paper to paper. Each function here documents its formula with
//! all edge cases and the public package whose values it equals; tests compare it with values computed by
//! that package.
//!
//! [`Metric`] lists and explains the metrics, each with a function of its own; [`evaluate()`] computes several at once.
//! Uncertainty: [`bootstrap()`] intervals and [`paired_difference`]. Diagrams: [`Reliability`]. Several datasets:
//! [`average_relative_errors`] and [`ranks`]. Data spread over files or machines: [`MetricState`].
//!
//! Weights are counts: for every metric, a row of weight 2 equals the same row twice. Sums are in 64 bits,
//! in an order that does not depend on the number of threads.

mod binning;
mod bootstrap;
mod classwise;
mod columns;
mod cox;
mod definition;
mod equal_mass;
mod evaluate;
mod interval;
mod kernels;
mod options;
mod order_statistics;
mod predictions;
mod ranking;
mod registry;
mod reliability;
mod row_stats;
mod smooth;
mod spiegelhalter;
mod state;
mod summary;
mod top_label;

pub use binning::Binning;
pub use bootstrap::{
    BootstrapOptions, Interval, bootstrap, bootstrap_watched, paired_difference, resampled,
};
pub use definition::Best;
pub use evaluate::evaluate;
pub use options::MetricOptions;
pub use predictions::Predictions;
pub use registry::*;
pub use reliability::{FilledBin, Reliability, ReliabilityBin, Target, wilson_interval};
pub use row_stats::RowStat;
pub use state::{Estimate, MetricState};
pub use summary::{average_relative_errors, ranks, relative_error};

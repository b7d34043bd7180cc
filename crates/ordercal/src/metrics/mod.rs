//! How good probabilities are: calibration errors, scoring rules, and the evidence behind a number.
//!
//! Definitions that share a name differ from paper to paper. The ones here are written out with their edge
//! rules, and each equals the public package it comes from (a committed fixture holds the tests to it).
//!
//! | key | function | rows are read as |
//! |---|---|---|
//! | `accuracy`, `top5` | [`accuracy`], [`top_k_accuracy`] | rank of the label |
//! | `nll`, `brier` | [`nll`], [`brier`] | probabilities |
//! | `ece`, `mce` | [`ece`], [`mce`] | top label, equal-width bins |
//! | `adaptive_ece`, `debiased_ece` | [`adaptive_ece`], [`debiased_ece`] | top label, equal-mass bins |
//! | `ks`, `sm_ece` | [`ks`], [`sm_ece`] | top label, no bins |
//! | `classwise_ece`, `classwise_ece_sum` | [`classwise_ece`], [`classwise_ece_sum`] | every class, equal-width bins |
//! | `marginal_ce` | [`marginal_ce`] | every class, equal-mass bins |
//!
//! What a number is worth: [`bootstrap()`] intervals, a paired comparison ([`compare`]) and a
//! [`calibration_test()`]. What a diagram shows: [`Reliability`]. What many datasets say together:
//! [`average_relative_errors`] and [`ranks`]. What is spread over machines: [`MetricState`].
//!
//! [`evaluate()`] computes several at once. Weights are counts: a row of weight 2 is a row that is there
//! twice, for every metric. Sums are in 64 bits, in an order that does not depend on the threads.

mod binning;
mod bootstrap;
mod calibration_test;
mod classwise;
mod columns;
mod evaluate;
mod kernels;
mod metric;
mod predictions;
mod reliability;
mod scoring;
mod smooth;
mod state;
mod summary;
mod top_label;

pub use binning::Binning;
pub use bootstrap::{
    BootstrapOptions, Interval, PairedDifference, bootstrap, compare, paired_difference, resampled,
};
pub use calibration_test::{CalibrationTest, calibration_test};
pub use classwise::{classwise_ece, classwise_ece_sum, marginal_ce};
pub use evaluate::evaluate;
pub use metric::{Metric, MetricOptions};
pub use predictions::{Predictions, RowStat};
pub use reliability::{FilledBin, Reliability, ReliabilityBin, Target, wilson_interval};
pub use scoring::{accuracy, brier, nll, top_k_accuracy};
pub use state::{Estimate, MetricState};
pub use summary::{average_relative_errors, ranks, relative_error};
pub use top_label::{adaptive_ece, debiased_ece, ece, ks, mce, sm_ece};

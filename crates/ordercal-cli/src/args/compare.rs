//! The arguments of `compare` and `curve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ordercal::compare::RESAMPLES;
use ordercal::curve::CurveAxis;
use ordercal::select::Effort;

use super::keys::{method_keys, metric_keys};
use super::{EFFORTS, SourceArgs, choice};
use crate::help;

/// What `compare` and `curve` have in common.
#[derive(Debug, Args)]
pub struct ComparedArgs {
    /// Methods, separated by commas [default: as below]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = method_keys(),
        hide_possible_values = true
    )]
    pub methods: Option<Vec<String>>,
    /// Metrics, separated by commas [default: as below]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = metric_keys(),
        hide_possible_values = true
    )]
    pub metrics: Option<Vec<String>>,
    #[command(flatten)]
    pub source: SourceArgs,
    /// A folder for all results; created if needed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = help::compare())]
pub struct CompareArgs {
    /// Files with the splits `calib` and `test`
    #[arg(required = true, value_name = "BUNDLE")]
    pub bundles: Vec<OsString>,
    #[command(flatten)]
    pub compared: ComparedArgs,
    /// Choose hyperparameters by cross-validated NLL
    #[arg(long, value_name = "EFFORT", value_parser = choice(EFFORTS), default_value = "none")]
    pub search: Effort,
    /// The number of folds of the search [default: 5, or 3 from 1000 classes on]
    #[arg(long, value_name = "K")]
    pub folds: Option<usize>,
    /// The number of bins of binned metrics
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub bins: usize,
    /// Bootstrap resamples for marking methods that do not differ significantly from the best; 0 for none
    #[arg(long, value_name = "B", default_value_t = RESAMPLES)]
    pub bootstrap: usize,
    /// Continue an earlier run with the same --out
    #[arg(long, requires = "out")]
    pub resume: bool,
}

#[derive(Debug, Args)]
#[command(after_help = help::curve())]
pub struct CurveArgs {
    /// A file with the splits `calib` and `test`
    #[arg(value_name = "BUNDLE")]
    pub bundle: OsString,
    /// What varies along the curve
    #[arg(long, value_name = "AXIS", value_parser = axis_parser())]
    pub over: CurveAxis,
    #[command(flatten)]
    pub compared: ComparedArgs,
    /// How often calib-size draws the rows [default: 3]
    #[arg(long, value_name = "N")]
    pub seeds: Option<std::num::NonZeroU64>,
}

/// Parses an axis by its key.
fn axis_parser() -> impl TypedValueParser<Value = CurveAxis> {
    let keys = CurveAxis::ALL.map(CurveAxis::key);
    PossibleValuesParser::new(keys).map(|key| key.parse().expect("the key is listed"))
}

//! The arguments of `compare`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use ordercal::ScoreKind;
use ordercal::compare::RESAMPLES;

use super::keys::{method_keys, metric_keys};
use super::{ClassArgs, ReadArgs, SearchEffort, kind_parser};
use crate::help;

/// `compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods are fitted on the split `calib` of each bundle and measured on its split \
                        `test`. uncalibrated\nis always included. With --out, each result is stored as \
                        soon as it is computed; --resume continues an\ninterrupted run. DIR gets \
                        report.html, results.json, results.csv, tables.md, tables.tex, figures,\nmodels, \
                        and timings.json, the only file that differs from run to run.\n\n\
                        Examples:\n  ordercal compare a.npz b.npz --out results\n  \
                        ordercal compare a.npz --methods ts,oi,sms --metrics nll,ece --bootstrap 0"
)]
pub struct CompareArgs {
    /// Files with the splits `calib` and `test`
    #[arg(required = true, value_name = "BUNDLE")]
    pub bundles: Vec<OsString>,
    /// Methods.
    #[arg(
        long,
        help = help::compared_methods(),
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = method_keys(),
        hide_possible_values = true
    )]
    pub methods: Option<Vec<String>>,
    /// Metrics.
    #[arg(
        long,
        help = help::compared_metrics(),
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = metric_keys(),
        hide_possible_values = true
    )]
    pub metrics: Option<Vec<String>>,
    /// Choose hyperparameters by cross-validated NLL
    #[arg(long, value_name = "EFFORT", default_value = "none")]
    pub search: SearchEffort,
    /// The number of folds of the search [default: 5, or 3 from 1000 classes on]
    #[arg(long, value_name = "K")]
    pub folds: Option<usize>,
    /// The number of bins of binned metrics
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub bins: usize,
    /// Bootstrap resamples for marking methods that do not differ significantly from the best; 0 for none
    #[arg(long, value_name = "B", default_value_t = RESAMPLES)]
    pub bootstrap: usize,
    /// The kind of the scores, if their name in the file does not tell it [default: logits]
    #[arg(long, value_name = "KIND", value_parser = kind_parser())]
    pub kind: Option<ScoreKind>,
    /// The names of the classes.
    #[command(flatten)]
    pub classes: ClassArgs,
    /// The format and columns of the data.
    #[command(flatten)]
    pub read: ReadArgs,
    /// A folder for all results; created if needed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue an earlier run with the same --out
    #[arg(long, requires = "out")]
    pub resume: bool,
}

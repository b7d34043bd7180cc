//! What is typed behind `compare`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use ordercal::compare::RESAMPLES;

use super::{Kind, SearchEffort};

/// `compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods are fitted on the split `calib` of each bundle and measured on its split \
                        `test`; uncalibrated\nis always among them. With --out, each result is stored as \
                        it comes, and a run that was interrupted\ngoes on with --resume. In DIR: \
                        report.html, results.json, results.csv, tables.md, tables.tex, figures,\nmodels, \
                        and timings.json, the only file that differs from run to run.\n\n\
                        Examples:\n  ordercal compare a.npz b.npz --out results\n  \
                        ordercal compare a.npz --methods ts,oi,sms --metrics nll,ece --bootstrap 0"
)]
pub struct CompareArgs {
    /// Files with the splits `calib` and `test`
    #[arg(required = true, value_name = "BUNDLE")]
    pub bundles: Vec<OsString>,
    /// Which methods, separated by commas [default: the order-preserving and the main free ones]
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub methods: Option<Vec<String>>,
    /// Which metrics, separated by commas [default: those of the paper]
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub metrics: Option<Vec<String>>,
    /// How hyperparameters are chosen
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub search: SearchEffort,
    /// How many folds the search has [default: 5, or 3 from 1000 classes on]
    #[arg(long, value_name = "K")]
    pub folds: Option<usize>,
    /// How many bins the binned metrics have
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub bins: usize,
    /// Resamples behind the mark of what cannot be told from the best; 0 for none
    #[arg(long, value_name = "B", default_value_t = RESAMPLES)]
    pub bootstrap: usize,
    /// What the scores are, where their name does not say it [default: logits]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<Kind>,
    /// A folder for everything; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on where an earlier run with the same --out stopped
    #[arg(long, requires = "out")]
    pub resume: bool,
}

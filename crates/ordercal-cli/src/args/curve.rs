//! What is typed behind `curve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Kind;

/// `curve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods are fitted on the split `calib` of the bundle, or on a part of it, and \
                        measured on its split\n`test`. calib-size goes from 10% to 100% of the rows, once \
                        for each of --seeds seeds; odir-lambda\nthrough the penalties of ms-odir and \
                        dir-odir. In DIR: curve.json, curve.csv, curve.svg, curve.png.\n\n\
                        Examples:\n  ordercal curve a.npz --over calib-size --methods ts,oi,dir-odir --out results\n  \
                        ordercal curve a.npz --over odir-lambda --metrics nll,ece --json"
)]
pub struct CurveArgs {
    /// A file with the splits `calib` and `test`
    #[arg(value_name = "BUNDLE")]
    pub bundle: OsString,
    /// What is swept
    #[arg(long, value_name = "WHAT")]
    pub over: Over,
    /// Which methods, separated by commas
    /// [default: ts,diag,oi,op,ms-odir,dir-odir; for odir-lambda ms-odir,dir-odir]
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub methods: Option<Vec<String>>,
    /// Which metrics, separated by commas
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "accuracy,nll,ece"
    )]
    pub metrics: Vec<String>,
    /// How often calib-size draws its rows [default: 3]
    #[arg(long, value_name = "N")]
    pub seeds: Option<std::num::NonZeroU64>,
    /// What the scores are, where their name does not say it [default: logits]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<Kind>,
    /// A folder for the data and the figure; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What is swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// The share of the calibration rows.
    CalibSize,
    /// The off-diagonal penalty of the ODIR methods.
    OdirLambda,
}

impl Over {
    /// As it is typed.
    pub fn key(self) -> &'static str {
        match self {
            Self::CalibSize => "calib-size",
            Self::OdirLambda => "odir-lambda",
        }
    }
}

//! The arguments of `curve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ordercal::curve::CurveAxis;

use super::KindArg;
use crate::help;

/// `curve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods are fitted on the split `calib` of the bundle, or on a part of it, and \
                        measured on its split\n`test`. calib-size goes from 10% to 100% of the rows, once \
                        per seed; odir-lambda from 1e-4 to 1e8.\nDIR gets curve.json, curve.csv, curve.svg \
                        and curve.png.\n\n\
                        Examples:\n  ordercal curve a.npz --over calib-size --methods ts,oi,dir-odir --out results\n  \
                        ordercal curve a.npz --over odir-lambda --metrics nll,ece --json"
)]
pub struct CurveArgs {
    /// A file with the splits `calib` and `test`
    #[arg(value_name = "BUNDLE")]
    pub bundle: OsString,
    /// What varies along the curve
    #[arg(long, value_name = "AXIS")]
    pub over: AxisArg,
    /// Methods.
    #[arg(long, help = help::curve_methods(), value_name = "KEYS", value_delimiter = ',')]
    pub methods: Option<Vec<String>>,
    /// Metrics, separated by commas
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "accuracy,nll,ece"
    )]
    pub metrics: Vec<String>,
    /// How often calib-size draws the rows [default: 3]
    #[arg(long, value_name = "N")]
    pub seeds: Option<std::num::NonZeroU64>,
    /// The kind of the scores, if their name in the file does not tell it [default: logits]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<KindArg>,
    /// A folder for the data and the figure; created if needed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What varies along the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AxisArg {
    /// The share of the calibration rows.
    CalibSize,
    /// The off-diagonal penalty of the ODIR methods.
    OdirLambda,
}

impl From<AxisArg> for CurveAxis {
    fn from(axis: AxisArg) -> Self {
        match axis {
            AxisArg::CalibSize => Self::CalibSize,
            AxisArg::OdirLambda => Self::OdirLambda,
        }
    }
}

//! The arguments of `curve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ordercal::ScoreKind;
use ordercal::curve::CurveAxis;

use super::keys::{method_keys, metric_keys};
use super::{ClassArgs, ReadArgs, kind_parser};
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
    #[arg(long, value_name = "AXIS", value_parser = axis_parser())]
    pub over: CurveAxis,
    /// Methods.
    #[arg(
        long,
        help = help::curve_methods(),
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = method_keys(),
        hide_possible_values = true
    )]
    pub methods: Option<Vec<String>>,
    /// Metrics, separated by commas
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = metric_keys(),
        hide_possible_values = true,
        default_value = "accuracy,nll,ece"
    )]
    pub metrics: Vec<String>,
    /// How often calib-size draws the rows [default: 3]
    #[arg(long, value_name = "N")]
    pub seeds: Option<std::num::NonZeroU64>,
    /// The kind of the scores, if their name in the file does not tell it [default: logits]
    #[arg(long, value_name = "KIND", value_parser = kind_parser())]
    pub kind: Option<ScoreKind>,
    /// The names of the classes.
    #[command(flatten)]
    pub classes: ClassArgs,
    /// The format and columns of the data.
    #[command(flatten)]
    pub read: ReadArgs,
    /// A folder for the data and the figure; created if needed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Parses an axis by its key.
fn axis_parser() -> impl TypedValueParser<Value = CurveAxis> {
    let keys = CurveAxis::ALL.map(CurveAxis::key);
    PossibleValuesParser::new(keys).map(|key| key.parse().expect("the key is listed"))
}

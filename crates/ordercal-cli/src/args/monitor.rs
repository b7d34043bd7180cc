//! `monitor`.

use std::path::PathBuf;

use clap::Args;

use super::read::{SourceArgs, input_path, output_path};

#[derive(Debug, Args)]
#[command(
    after_help = "The inputs are one file with a column that tells the window (--by), or the states of the windows in\n\
                  their order, as `evaluate --state-out` writes them. The test bets against \"every outcome occurs with\n\
                  the probability that was said\"; the chance that it ever gives a false alarm is at most --alpha, over\n\
                  all windows, segments and classes, however often it is looked at. Exit code 1 after an alarm.\n\n\
                  Examples:\n  ordercal monitor scored.parquet --by day --model m.safetensors\n  \
                  ordercal monitor scored.csv --by week --segment country -o monitor.svg --prometheus out.prom\n  \
                  ordercal monitor monday.state tuesday.state wednesday.state"
)]
pub struct MonitorArgs {
    /// A table of scores and labels, with --by; or states
    #[arg(required = true, value_name = "DATA|STATE", value_parser = input_path())]
    pub inputs: Vec<PathBuf>,
    /// The column that tells the window of a row; windows are in the order of its values: numbers and dates such as
    /// 2024-12-31 by value, `week 2` before `week 10`
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    /// A column whose values are watched one by one
    #[arg(long, value_name = "COLUMN", requires = "by")]
    pub segment: Option<String>,
    /// A fitted model to apply first
    #[arg(long, value_name = "MODEL", requires = "by", value_parser = input_path())]
    pub model: Option<PathBuf>,
    /// The chance of a false alarm over the whole stream
    #[arg(long, value_name = "A", default_value_t = ordercal::monitor::ALPHA)]
    pub alpha: f64,
    /// Where a figure goes: .svg or .png
    #[arg(long, short, value_name = "FILE", value_parser = output_path())]
    pub output: Option<PathBuf>,
    /// Write the last window's metrics in Prometheus' text format
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    pub prometheus: Option<PathBuf>,
    /// Leave out the rows with this label, as in --ignore-label -100
    #[arg(
        long,
        value_name = "LABEL",
        requires = "by",
        allow_hyphen_values = true
    )]
    pub ignore_label: Option<String>,
    #[command(flatten)]
    pub source: SourceArgs,
}

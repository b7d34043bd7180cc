//! The command line.

mod compare;
mod keys;
mod monitor;
mod plot;
mod read;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use ordercal::ScoreKind;
use ordercal::select::Effort;
use ordercal_io::OutputType;

use crate::help;

pub use compare::{CompareArgs, ComparedArgs, CurveArgs};
use keys::{method_keys, metric_keys};
pub use monitor::MonitorArgs;
pub use plot::{
    BinnedArgs, CountedArgs, DrawArgs, PlotArgs, PlotCommand, SimplexArgs, TransformArgs,
};
pub use read::{LabelArgs, ReadArgs, SourceArgs};
use read::{input_path, kind_parser, output_path};

/// The version, with what this build can do beyond the least.
#[cfg(feature = "parquet")]
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (with parquet, arrow, zst)");
#[cfg(not(feature = "parquet"))]
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (without parquet, arrow, zst)");

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "ordercal",
    version = VERSION,
    about = "Calibrate the probabilities of any multi-class classifier without changing its predictions",
    max_term_width = 80,
    after_help = "Exit codes: 0 done, 1 a --fail-if threshold failed or monitor gave an alarm, 2 bad usage or input, 130, 143 or 129\nafter Ctrl-C, SIGTERM or SIGHUP. With --json an error is printed as {\"error\": ...}.\n\n\
                  Examples:\n  ordercal demo --out demo-out\n  \
                  ordercal fit scores.npz#calib -o model.safetensors\n  \
                  ordercal evaluate scores.npz#test --model model.safetensors\n  \
                  ordercal apply model.safetensors scores.npz#test -o probs.npy"
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: Common,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Calibrate, compare and report on scores that come with this program
    Demo(DemoArgs),
    /// Learn a calibration map from held-out scores and labels
    Fit(FitArgs),
    /// Calibrate scores with a fitted model
    Apply(ApplyArgs),
    /// Measure how good probabilities are, before and after calibration
    Evaluate(EvaluateArgs),
    /// Compute the metrics of several shards together
    Merge(MergeArgs),
    /// Watch calibration over time: metrics per window, and a test with few false alarms
    Monitor(MonitorArgs),
    /// Compare methods on one or more datasets: tables with ranks, figures, a report
    Compare(CompareArgs),
    /// Show the effect of more calibration rows, or of a stronger penalty
    Curve(CurveArgs),
    /// Draw one figure
    Plot(PlotArgs),
    /// Write a fitted model as ONNX, for other programs to run
    Export(ExportArgs),
    /// Describe a model or a data file, with warnings
    Inspect(InspectArgs),
    /// Explain the metrics: what each asks, its formula, and when it misleads
    #[command(after_help = "Examples:\n  ordercal metrics\n  ordercal metrics ece auroc")]
    Metrics {
        /// The metrics to explain [default: all]
        #[arg(value_name = "METRIC")]
        keys: Vec<String>,
    },
    /// Print a manual page
    #[command(after_help = "Example:\n  ordercal man fit > ~/.local/share/man/man1/ordercal-fit.1")]
    Man {
        /// The command that the page is about [default: the program]
        command: Option<String>,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  ordercal completions bash > ~/.local/share/bash-completion/completions/ordercal"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The options of every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print one JSON object on stdout and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results only: no progress, no remarks
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Turn warnings into errors
    #[arg(long, global = true)]
    pub strict: bool,
    /// The seed of all random numbers [default: 1357]
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// The most memory that the rows, or a part of a method or metric, may take, as in 2GB [default: three
    /// quarters of the machine's memory]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub max_memory: Option<usize>,
    /// The number of threads [default: one per processor]
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
}

/// Reads a size such as 500MB or 1.5GB; without a unit it is in bytes.
fn size(text: &str) -> Result<usize, String> {
    let text = text.trim().to_ascii_lowercase();
    let units = [("kb", 1e3), ("mb", 1e6), ("gb", 1e9), ("tb", 1e12)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, factor) = match unit {
        Some((unit, factor)) => (text.trim_end_matches(unit), *factor),
        None => (text.as_str(), 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok((number * factor) as usize),
        _ => Err("a size such as 500MB or 2GB was expected".to_owned()),
    }
}

/// The files with scores and labels.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// The data.
    #[arg(
        help = help::data(),
        value_name = "DATA",
        required_unless_present = "logits",
        conflicts_with = "logits"
    )]
    pub data: Option<OsString>,
    /// The scores, if the labels are in another file
    #[arg(long, value_name = "FILE", value_parser = input_path())]
    pub logits: Option<PathBuf>,
    /// The labels that go with --logits
    #[arg(long, value_name = "FILE", requires = "logits", value_parser = input_path())]
    pub labels: Option<PathBuf>,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// Parses one of some words, each with what it means and its value.
fn choice<T: Clone + Send + Sync + 'static>(
    choices: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let words = choices.iter();
    let words = words.map(|(word, meaning, _)| PossibleValue::new(*word).help(*meaning));
    PossibleValuesParser::new(words).map(|chosen| {
        let mut choices = choices.iter();
        let found = choices.find(|(word, ..)| *word == chosen);
        found.expect("the word is listed").2.clone()
    })
}

const DTYPES: &[(&str, &str, OutputType)] = &[
    ("f32", "32-bit floats", OutputType::F32),
    ("f64", "64-bit floats", OutputType::F64),
];

/// How hyperparameters are searched.
const EFFORTS: &[(&str, &str, Effort)] = &[
    ("none", "Not at all: the given ones are used", Effort::None),
    (
        "quick",
        "Successive halving over the paper's grid",
        Effort::Quick,
    ),
    ("paper", "The paper's whole grid", Effort::Paper),
];

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ordercal demo --out demo-out")]
pub struct DemoArgs {
    /// A folder for the data, the models, results.json and report.html; created if needed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = help::fit())]
pub struct FitArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub labels: LabelArgs,
    /// The method's key [default: that of --config, or auto]
    #[arg(long, value_name = "KEY", value_parser = method_keys(), hide_possible_values = true)]
    pub method: Option<String>,
    /// Project the result onto the order of the scores, so that no prediction changes
    #[arg(long)]
    pub keep_order: bool,
    /// Units of each hidden layer.
    #[arg(long, help = help::hidden(), value_name = "UNITS", value_delimiter = ',')]
    pub hidden: Option<Vec<usize>>,
    /// Read only the T largest scores and the mass of the rest [default: 16 for oi, 64 for op]
    #[arg(long, value_name = "T")]
    pub top: Option<usize>,
    /// The weight of the penalty
    #[arg(long, value_name = "L")]
    pub lambda: Option<f64>,
    /// How much work auto may do: quick takes about a seventh of standard, thorough twice as much
    #[arg(long, value_name = "EFFORT", value_parser = ["quick", "standard", "thorough"])]
    pub effort: Option<String>,
    /// Fit K models, each on all folds but one, and average them [default: no folds; with --search 5, or
    /// 3 from 1000 classes on]
    #[arg(long, value_name = "K")]
    pub folds: Option<usize>,
    /// Stratify the folds by label
    #[arg(long)]
    pub stratified: bool,
    /// Keep rows with the same value in this column, or array, in the same fold
    #[arg(long, value_name = "COLUMN")]
    pub groups: Option<String>,
    /// Choose hyperparameters by cross-validated NLL
    #[arg(long, value_name = "EFFORT", value_parser = choice(EFFORTS), default_value = "none")]
    pub search: Effort,
    /// Hyperparameters as a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Fit a model per group of rows too, by the values of these columns (from the coarsest on, separated
    /// by commas), each shrunk towards that of all rows; apply reads the columns again
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', conflicts_with_all = ["search", "folds", "stratified"])]
    pub by: Vec<String>,
    /// Groups of fewer rows use the model of the next coarser group, or of all rows [default: 50]
    #[arg(long, value_name = "N", requires = "by")]
    pub min_rows: Option<usize>,
    /// The method for the rows of a group, on what the model of all rows gives [default: ts]
    #[arg(long, value_name = "KEY", requires = "by", value_parser = method_keys(), hide_possible_values = true)]
    pub group_method: Option<String>,
    /// Where the model goes: .safetensors, or - for standard output
    #[arg(long, short, value_name = "MODEL", value_parser = output_path())]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Rows are read, calibrated and written in chunks: memory does not grow with the file.\n\
                        Columns are called by the names of the classes, as in prob_cat, if they are known.\n\n\
                        Examples:\n  ordercal apply m.safetensors scores.npz#test -o probs.npy\n  \
                        ordercal apply m.safetensors new.parquet --as logits --dtype f64 -o out.parquet\n  \
                        ordercal apply m.safetensors new.csv --id-columns id,day -o probs.csv\n  \
                        make-scores | ordercal apply m.safetensors - --format csv -o - | use-probabilities"
)]
pub struct ApplyArgs {
    /// The fitted model
    #[arg(value_parser = input_path())]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: DataArgs,
    /// Where the calibrated scores go.
    #[arg(long, help = help::output(), short, value_name = "OUT", value_parser = output_path())]
    pub output: PathBuf,
    /// Columns of a table that are copied to the output, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub id_columns: Vec<String>,
    /// The kind of scores to write
    #[arg(long = "as", value_name = "KIND", value_parser = kind_parser(), default_value = "probs")]
    pub output_kind: ScoreKind,
    /// The float type to write
    #[arg(long, value_name = "TYPE", value_parser = choice(DTYPES), default_value = "f32")]
    pub dtype: OutputType,
}

#[derive(Debug, Args)]
#[command(after_help = help::evaluate())]
pub struct EvaluateArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub labels: LabelArgs,
    /// A fitted model to evaluate; may be repeated
    #[arg(long, value_name = "MODEL", value_parser = input_path())]
    pub model: Vec<PathBuf>,
    /// Measure each group of rows too, by the values of these columns, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub by: Vec<String>,
    /// Metrics, separated by commas [default: all]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = metric_keys(),
        hide_possible_values = true
    )]
    pub metrics: Option<Vec<String>>,
    /// The number of bins of binned metrics
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub bins: usize,
    /// Bootstrap 95% intervals with this many resamples
    #[arg(long, value_name = "B")]
    pub bootstrap: Option<usize>,
    /// Exit with 1 if this holds for the last model, or for the scores if no model is given, on all rows, as
    /// in 'ece>0.02'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// Write the state behind the metrics, for `ordercal merge`
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    pub state_out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ordercal evaluate part1.npz --state-out part1.state\n  \
                        ordercal evaluate part2.npz --state-out part2.state\n  \
                        ordercal merge part1.state part2.state"
)]
pub struct MergeArgs {
    /// Files written by `evaluate --state-out`
    #[arg(required = true, value_name = "STATE")]
    pub states: Vec<PathBuf>,
    /// Write the merged state
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    pub state_out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The graph takes `scores` (N x K, 32-bit floats) and gives `probabilities` and `logits`.\n\n\
                        Example:\n  ordercal export m.safetensors -o m.onnx\n  ordercal export groups.safetensors#DE -o de.onnx"
)]
pub struct ExportArgs {
    /// The fitted model, or of a file of `fit --by` that of a group, as FILE#GROUP
    #[arg(value_parser = input_path())]
    pub model: PathBuf,
    /// Where the ONNX file goes: .onnx, or - for standard output
    #[arg(long, short, value_name = "FILE", value_parser = output_path())]
    pub output: PathBuf,
    /// The kind of the graph's input scores
    #[arg(long, value_name = "KIND", value_parser = kind_parser(), default_value = "logits")]
    pub kind: ScoreKind,
    /// The type of the graph's input scores: f32, or f16 for networks that compute in half precision
    #[arg(long, value_name = "TYPE", value_parser = ["f32", "f16"], default_value = "f32")]
    pub input_type: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ordercal inspect m.safetensors\n  ordercal inspect scores.npz#calib"
)]
pub struct InspectArgs {
    /// A model, or data as FILE or FILE#SPLIT
    #[arg(value_name = "MODEL|DATA")]
    pub target: OsString,
    #[command(flatten)]
    pub source: SourceArgs,
}

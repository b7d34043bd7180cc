//! What is typed on the command line.

mod compare;
mod curve;
mod plot;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ordercal::ScoreKind;
use ordercal::select::Effort;
use ordercal_io::OutputType;

pub use compare::CompareArgs;
pub use curve::{CurveArgs, Over};
pub use plot::{
    BinnedArgs, CountedArgs, DrawArgs, FormName, PlotArgs, PlotCommand, ReliabilityArgs,
    SimplexArgs, TransformArgs,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "ordercal",
    version,
    about = "Calibrate the probabilities of any multi-class classifier without changing its predictions",
    max_term_width = 80,
    after_help = "Exit codes: 0 done, 1 a --fail-if threshold failed, 2 bad usage or input.\n\n\
                  Examples:\n  ordercal demo --out demo-out\n  \
                  ordercal fit scores.npz#calib -o model.safetensors\n  \
                  ordercal evaluate scores.npz#test --model model.safetensors\n  \
                  ordercal apply model.safetensors scores.npz#test -o probs.npy"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole job on scores that are inside this program
    Demo(DemoArgs),
    /// Learn a calibration map from held-out scores and labels
    Fit(FitArgs),
    /// Calibrate scores with a fitted model
    Apply(ApplyArgs),
    /// Measure how good probabilities are, before and after calibration
    Evaluate(EvaluateArgs),
    /// Compute the metrics of many shards as one
    Merge(MergeArgs),
    /// Compare methods on bundles: tables with ranks, figures, a report
    Compare(CompareArgs),
    /// Show what more calibration rows, or a stronger penalty, change
    Curve(CurveArgs),
    /// Draw one figure
    Plot(PlotArgs),
    /// Write a fitted model as ONNX, for other programs to run
    Export(ExportArgs),
    /// Say in words what a model or a data file holds
    Inspect(InspectArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  ordercal completions bash > ~/.local/share/bash-completion/completions/ordercal"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print one JSON object on stdout and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress and no remarks; only results
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// The seed of everything that is random [default: 1357]
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// How many threads to use [default: one per processor]
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
}

/// Where scores and labels are.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// FILE or FILE#SPLIT: .npy .npz .csv .csv.gz .parquet .arrow .safetensors .p .pkl
    #[arg(
        value_name = "DATA",
        required_unless_present = "logits",
        conflicts_with = "logits"
    )]
    pub data: Option<OsString>,
    /// The scores, if they are in a file of their own
    #[arg(long, value_name = "FILE")]
    pub logits: Option<PathBuf>,
    /// The labels that go with --logits
    #[arg(long, value_name = "FILE", requires = "logits")]
    pub labels: Option<PathBuf>,
    /// What the scores are, where their name does not say it [default: logits]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<Kind>,
}

/// What scores are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// What a network emits before the softmax.
    Logits,
    /// Logarithms of probabilities.
    LogProbs,
    /// Probabilities.
    Probs,
}

impl From<Kind> for ScoreKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Logits => Self::Logits,
            Kind::LogProbs => Self::LogProbs,
            Kind::Probs => Self::Probs,
        }
    }
}

/// The float type of an output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
}

impl From<Dtype> for OutputType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F64 => Self::F64,
        }
    }
}

/// How hard to look for hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchEffort {
    /// Use the given ones.
    None,
    /// Successive halving over the paper's grid.
    Quick,
    /// The paper's whole grid.
    Paper,
}

impl From<SearchEffort> for Effort {
    fn from(effort: SearchEffort) -> Self {
        match effort {
            SearchEffort::None => Self::None,
            SearchEffort::Quick => Self::Quick,
            SearchEffort::Paper => Self::Paper,
        }
    }
}

/// `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ordercal demo --out demo-out")]
pub struct DemoArgs {
    /// A folder for the data, the models and results.json; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `fit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods that keep every prediction: auto ts ets diag oi op, and KEY+order of those \
                        that may change some:\nvs ms-odir dir-odir svs sms platt beta isotonic histogram \
                        bbq unconstrained auto-free.\nOf a bundle without #SPLIT the split `calib` is taken.\n\n\
                        Examples:\n  ordercal fit scores.npz#calib -o model.safetensors\n  \
                        ordercal fit --logits val.npy --labels y.npy --method diag -o m.safetensors\n  \
                        ordercal fit val.csv --method sms --keep-order --lambda 0.5 -o m.safetensors\n  \
                        ordercal fit val.npz --method oi --search quick -o m.safetensors"
)]
pub struct FitArgs {
    /// The calibration data.
    #[command(flatten)]
    pub data: DataArgs,
    /// The method's key [default: the config's, or auto]
    #[arg(long, value_name = "KEY")]
    pub method: Option<String>,
    /// Project the result onto the order of the scores, for methods that may change predictions
    #[arg(long)]
    pub keep_order: bool,
    /// Units of each hidden layer, as in 100,100 (diag, oi, op, unconstrained)
    #[arg(long, value_name = "UNITS", value_delimiter = ',')]
    pub hidden: Option<Vec<usize>>,
    /// The weight of the penalty
    #[arg(long, value_name = "L")]
    pub lambda: Option<f64>,
    /// Fit on all folds but one, for each, and average the models [default: only with --search: 5, or 3
    /// from 1000 classes on]
    #[arg(long, value_name = "K")]
    pub folds: Option<usize>,
    /// Spread every label evenly over the folds
    #[arg(long)]
    pub stratified: bool,
    /// Choose hyperparameters by cross-validated NLL
    #[arg(long, value_name = "EFFORT", default_value = "none")]
    pub search: SearchEffort,
    /// Hyperparameters as TOML, with the keys of the method
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the model goes
    #[arg(long, short, value_name = "MODEL")]
    pub output: PathBuf,
}

/// `apply`.
#[derive(Debug, Args)]
#[command(
    after_help = "Rows are read, calibrated and written chunk by chunk.\n\n\
                        Examples:\n  ordercal apply m.safetensors scores.npz#test -o probs.npy\n  \
                        ordercal apply m.safetensors new.parquet --as logits --dtype f64 -o out.parquet"
)]
pub struct ApplyArgs {
    /// The fitted model
    pub model: PathBuf,
    /// The scores.
    #[command(flatten)]
    pub data: DataArgs,
    /// Where the calibrated scores go: .npy .npz .csv .csv.gz .parquet .arrow .safetensors
    #[arg(long, short, value_name = "OUT")]
    pub output: PathBuf,
    /// What to write
    #[arg(long = "as", value_name = "KIND", default_value = "probs")]
    pub output_kind: Kind,
    /// The float type to write
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub dtype: Dtype,
}

/// `evaluate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Metrics: accuracy top5 nll brier ece mce adaptive_ece classwise_ece \
                        classwise_ece_sum debiased_ece\nmarginal_ce ks sm_ece.\n\
                        Of a bundle without #SPLIT the split `test` is taken.\n\
                        Above 33 million scores the rows are not kept in memory, unless --bootstrap needs them:\n\
                        metrics that sort rows are then given with a bound on their error.\n\n\
                        Examples:\n  ordercal evaluate scores.npz#test --model m.safetensors --bootstrap 1000\n  \
                        ordercal evaluate probs.csv --kind probs --metrics ece,nll --fail-if 'ece>0.02'"
)]
pub struct EvaluateArgs {
    /// The test data.
    #[command(flatten)]
    pub data: DataArgs,
    /// A fitted model to compare; may be given several times
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<PathBuf>,
    /// Which metrics, separated by commas [default: all]
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub metrics: Option<Vec<String>>,
    /// How many bins the binned metrics have
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub bins: usize,
    /// 95% intervals from this many resamples
    #[arg(long, value_name = "B")]
    pub bootstrap: Option<usize>,
    /// Exit with 1 if this holds for the last model, or for the scores if there is none
    #[arg(long, value_name = "METRIC>X")]
    pub fail_if: Vec<String>,
    /// Keep the counts behind the metrics, for `ordercal merge`
    #[arg(long, value_name = "FILE")]
    pub state_out: Option<PathBuf>,
}

/// `merge`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ordercal evaluate part1.npz --state-out part1.state\n  \
                        ordercal evaluate part2.npz --state-out part2.state\n  \
                        ordercal merge part1.state part2.state"
)]
pub struct MergeArgs {
    /// Files that `evaluate --state-out` wrote
    #[arg(required = true, value_name = "STATE")]
    pub states: Vec<PathBuf>,
    /// Write the merged state, to be merged again
    #[arg(long, value_name = "FILE")]
    pub state_out: Option<PathBuf>,
}

/// `export`.
#[derive(Debug, Args)]
#[command(
    after_help = "The file takes `scores` (N x K, 32-bit floats) and gives `probabilities` and `logits`; it is \
                        run on\nsample rows and compared with the model before it is written.\n\n\
                        Example:\n  ordercal export m.safetensors -o m.onnx"
)]
pub struct ExportArgs {
    /// The fitted model
    pub model: PathBuf,
    /// Where the ONNX file goes
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// What the scores will be
    #[arg(long, value_name = "KIND", default_value = "logits")]
    pub kind: Kind,
}

/// `inspect`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ordercal inspect m.safetensors\n  ordercal inspect scores.npz#calib"
)]
pub struct InspectArgs {
    /// A model, or data as FILE or FILE#SPLIT
    #[arg(value_name = "MODEL|DATA")]
    pub target: OsString,
    /// What the scores are, where their name does not say it [default: logits]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<Kind>,
}

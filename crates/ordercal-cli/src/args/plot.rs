//! The arguments of `plot`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ordercal::ScoreKind;
use ordercal::metrics::Binning;
use ordercal_report::{ReliabilityForm, Theme};

use super::{DataArgs, LabelArgs, ReadArgs, choice, kind_parser};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ordercal plot reliability scores.npz#test --model m.safetensors -o f.svg\n  \
                        ordercal plot transform diag.safetensors ts.safetensors --data s.npz -o f.png"
)]
pub struct PlotArgs {
    /// Which figure.
    #[command(subcommand)]
    pub figure: PlotCommand,
}

/// The figures.
#[derive(Debug, Subcommand)]
pub enum PlotCommand {
    /// Confidence against accuracy, bin by bin, before and after calibration
    #[command(
        after_help = "Of a bundle without #SPLIT the split `test` is used.\n\n\
                            Examples:\n  ordercal plot reliability scores.npz#test --model m.safetensors -o f.svg\n  \
                            ordercal plot reliability probs.csv --kind probs --form classic -o f.png"
    )]
    Reliability(ReliabilityArgs),
    /// The same, each bin weighted by its share of the rows: the heights add up to the ECE
    #[command(
        after_help = "Of a bundle without #SPLIT the split `test` is used.\n\n\
                            Example:\n  ordercal plot weighted scores.npz --model m.safetensors -o f.svg"
    )]
    Weighted(WeightedArgs),
    /// The functions learned by diag and ts models, with the identity
    #[command(
        after_help = "Of a bundle without #SPLIT the split `calib` is used for --data.\n\n\
                            Example:\n  ordercal plot transform diag.safetensors ts.safetensors --data s.npz -o f.svg"
    )]
    Transform(TransformArgs),
    /// How a model of three classes moves probabilities
    #[command(
        after_help = "Of a bundle without #SPLIT the split `test` is used for --data.\n\n\
                            Example:\n  ordercal plot simplex oi.safetensors -o f.svg"
    )]
    Simplex(SimplexArgs),
}

/// The options of every figure.
#[derive(Debug, Args)]
pub struct DrawArgs {
    /// Where the figure goes: .svg or .png
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// The colours: dark on white, or bright on black
    #[arg(long, value_name = "THEME", value_parser = choice(THEMES), default_value = "light")]
    pub theme: Theme,
    /// The title above the figure
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Resolution of a .png: pixels per unit of the drawing [default: 2]
    #[arg(long, value_name = "X")]
    pub scale: Option<f64>,
}

const THEMES: &[(&str, &str, Theme)] = &[
    ("light", "Dark on white", Theme::LIGHT),
    ("dark", "Bright on nearly black", Theme::DARK),
];

/// How the bins are cut.
const BINNINGS: &[(&str, &str, Binning)] = &[
    ("equal-width", "Bins of equal width", Binning::EqualWidth),
    (
        "equal-mass",
        "Bins with equally many rows",
        Binning::EqualMass,
    ),
];

/// The forms of a reliability diagram.
const FORMS: &[(&str, &str, ReliabilityForm)] = &[
    (
        "gap",
        "Confidence − accuracy, with a dashed line at 0",
        ReliabilityForm::Gap,
    ),
    (
        "classic",
        "Accuracy as bars against the diagonal",
        ReliabilityForm::Classic,
    ),
];

/// Scores, models and bins.
#[derive(Debug, Args)]
pub struct BinnedArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub labels: LabelArgs,
    /// A fitted model to show beside the scores; may be repeated
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<PathBuf>,
    /// The number of bins
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub bins: usize,
    /// How the bins are cut
    #[arg(long, value_name = "HOW", value_parser = choice(BINNINGS), default_value = "equal-width")]
    pub binning: Binning,
    /// Show the probability of this class instead of the predicted one's
    #[arg(long, value_name = "CLASS")]
    pub class: Option<usize>,
}

#[derive(Debug, Args)]
pub struct ReliabilityArgs {
    #[command(flatten)]
    pub binned: BinnedArgs,
    /// The form of the diagram
    #[arg(long, value_name = "FORM", value_parser = choice(FORMS), default_value = "gap")]
    pub form: ReliabilityForm,
    #[command(flatten)]
    pub draw: DrawArgs,
}

#[derive(Debug, Args)]
pub struct WeightedArgs {
    #[command(flatten)]
    pub binned: BinnedArgs,
    #[command(flatten)]
    pub draw: DrawArgs,
}

/// Data shown as counts in a figure.
#[derive(Debug, Args)]
pub struct CountedArgs {
    /// Data whose counts the figure shows: FILE or FILE#SPLIT
    #[arg(long, value_name = "DATA")]
    pub data: Option<OsString>,
    /// The kind of the scores, if their name in the file does not tell it [default: logits]
    #[arg(long, value_name = "KIND", requires = "data", value_parser = kind_parser())]
    pub kind: Option<ScoreKind>,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Args)]
pub struct TransformArgs {
    /// Fitted models of the methods diag and ts, or of a group as FILE#GROUP
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<PathBuf>,
    #[command(flatten)]
    pub counted: CountedArgs,
    #[command(flatten)]
    pub draw: DrawArgs,
}

#[derive(Debug, Args)]
pub struct SimplexArgs {
    /// A fitted model of three classes, or of a group as FILE#GROUP
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub counted: CountedArgs,
    #[command(flatten)]
    pub draw: DrawArgs,
}

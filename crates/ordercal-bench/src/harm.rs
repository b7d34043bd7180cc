//! `cargo measure harm DIR`: what methods do to scores that are calibrated already.

use std::path::PathBuf;

use anyhow::Result;
use ordercal::ndarray::Array2;
use ordercal::{Dataset, Method, Model, Rng, ScoreKind, Scores};

use crate::bundles::{Bundle, bundles, draw_labels};
use crate::method;

/// Draws labels from the predicted probabilities, so that the scores are calibrated exactly, fits, and prints by how
/// much the expected NLL on the test split rises: the mean Kullback–Leibler divergence divided by the entropy.
#[derive(clap::Args)]
pub struct Args {
    /// A folder of bundles with the splits `calib` and `test`
    dir: PathBuf,
    /// Only bundles whose name contains one of these, separated by commas
    #[arg(long, value_name = "A,B")]
    only: Option<String>,
    /// A key, or JSON with hyperparameters; may be given several times [default: auto and auto-free]
    #[arg(long = "method", value_name = "METHOD", value_parser = method::parse)]
    methods: Vec<Method>,
    /// How often labels are drawn
    #[arg(long, value_name = "N", default_value_t = 10)]
    draws: u64,
    /// How many rows are fitted to
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [200, 1000, 5000])]
    rows: Vec<usize>,
}

pub fn run(args: &Args) -> Result<()> {
    let methods = match args.methods.is_empty() {
        true => vec![Method::from_key("auto")?, Method::from_key("auto-free")?],
        false => args.methods.clone(),
    };
    println!(
        "{:<26} {:>7} {:<12} {:>9} {:>9}",
        "set", "rows", "method", "mean", "worst"
    );
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); methods.len() * args.rows.len()];
    for path in bundles(&args.dir, args.only.as_deref())? {
        let bundle = Bundle::read(&path)?;
        let (calib, test) = (bundle.calib()?, bundle.test()?);
        for (place, &rows) in args.rows.iter().enumerate() {
            if rows > calib.rows() {
                continue;
            }
            for (index, method) in methods.iter().enumerate() {
                let rises = (0..args.draws)
                    .map(|draw| rise(method, &calib, &test, rows, draw))
                    .collect::<Result<Vec<f64>>>()?;
                print_line(&bundle.name, rows, method.key(), &rises);
                all[index * args.rows.len() + place].extend(rises);
            }
        }
    }
    for (index, rises) in all
        .iter()
        .enumerate()
        .filter(|(_, rises)| !rises.is_empty())
    {
        let (method, rows) = (index / args.rows.len(), index % args.rows.len());
        print_line("all", args.rows[rows], methods[method].key(), rises);
    }
    Ok(())
}

fn print_line(set: &str, rows: usize, key: &str, rises: &[f64]) {
    let mean = rises.iter().sum::<f64>() / rises.len() as f64;
    let worst = rises.iter().copied().fold(0.0, f64::max);
    println!(
        "{set:<26} {rows:>7} {key:<12} {:>8.4}% {:>8.4}%",
        100.0 * mean,
        100.0 * worst
    );
}

/// By how much the expected NLL rises, as a share of what it is.
fn rise(
    method: &Method,
    calib: &Dataset<'_>,
    test: &Dataset<'_>,
    rows: usize,
    draw: u64,
) -> Result<f64> {
    let mut rng = Rng::new(1000 + draw);
    let mut some: Vec<usize> = (0..calib.rows()).collect();
    rng.shuffle(&mut some);
    let scores = calib.scores().select(&some[..rows]);
    let labels = draw_labels(&probabilities(&scores)?, &mut rng);
    let fitted = method.fit(&Dataset::new(scores, &labels)?)?;
    let truth = probabilities(test.scores())?;
    let found = fitted
        .model
        .apply::<f64>(test.scores(), ScoreKind::LogProbs)?;
    let (mut divergence, mut entropy) = (0.0, 0.0);
    for (p, log_q) in truth.iter().zip(&found).filter(|(p, _)| **p > 0.0) {
        divergence += p * (p.ln() - log_q);
        entropy -= p * p.ln();
    }
    Ok(divergence / entropy)
}

fn probabilities(scores: &Scores<'_>) -> Result<Array2<f64>> {
    let identity = Model::from(ordercal::models::UncalibratedModel::new(scores.classes())?);
    Ok(identity.apply::<f64>(scores, ScoreKind::Probs)?)
}

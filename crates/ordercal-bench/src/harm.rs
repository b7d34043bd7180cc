//! `cargo measure harm DIR`: what methods do to scores that are calibrated already.

use std::collections::BTreeMap;

use anyhow::Result;
use ordercal::ndarray::Array2;
use ordercal::{Dataset, Method, Model, Rng, ScoreKind, Scores};

use crate::bundles::{Selection, draw_labels};

/// Draws labels from the predicted probabilities, so that the scores are calibrated exactly, fits, and prints by how
/// much the expected NLL on the test split rises: the mean Kullback–Leibler divergence divided by the entropy.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// How often labels are drawn
    #[arg(long, value_name = "N", default_value_t = 10)]
    draws: u64,
    /// How many rows are fitted to
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [200, 1000, 5000])]
    rows: Vec<usize>,
}

pub fn run(args: &Args) -> Result<()> {
    let methods = args.selection.methods()?;
    println!(
        "{:<26} {:>7} {:<12} {:>9} {:>9}",
        "set", "rows", "method", "mean", "worst"
    );
    let mut all: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for bundle in args.selection.bundles()? {
        let bundle = bundle?;
        let (calib, test) = (bundle.calib()?, bundle.test()?);
        for &rows in args.rows.iter().filter(|rows| **rows <= calib.rows()) {
            for (index, method) in methods.iter().enumerate() {
                let rises = (0..args.draws)
                    .map(|draw| rise(method, &calib, &test, rows, draw))
                    .collect::<Result<Vec<f64>>>()?;
                print_line(&bundle.name, rows, method.key(), &rises);
                all.entry((index, rows)).or_default().extend(rises);
            }
        }
    }
    for ((index, rows), rises) in all {
        print_line("all", rows, methods[index].key(), &rises);
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

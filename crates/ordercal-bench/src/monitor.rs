//! `cargo measure monitor`: how often the sequential test gives a false alarm, and how late a real one.

use anyhow::Result;
use ordercal::Rng;
use ordercal::metrics::{MetricOptions, MetricState, Predictions};
use ordercal::monitor::Monitor;
use ordercal::ndarray::Array2;
use rayon::prelude::*;

/// Simulate streams, and count the false alarms and the delays of `monitor`
#[derive(clap::Args)]
pub struct Args {
    /// Streams of each kind
    #[arg(long, default_value_t = 400)]
    streams: usize,
    /// Windows of a stream without a change
    #[arg(long, default_value_t = 100)]
    windows: usize,
    /// Rows of a window
    #[arg(long, default_value_t = 500)]
    rows: usize,
    /// Classes
    #[arg(long, default_value_t = 10)]
    classes: usize,
}

/// The last window before a change.
const CHANGE: usize = 30;

/// What becomes of the true log-odds, as a factor of those said; below 1 the classifier is too sure.
const FACTORS: [f64; 5] = [0.95, 0.9, 0.8, 0.6, 1.25];

/// Prints a table in Markdown.
pub fn run(args: &Args) -> Result<()> {
    println!("| stream | \u{3b1} | alarms | median delay, windows | 90 % of delays within |");
    println!("|---|---|---|---|---|");
    for alpha in [0.01, 0.05, 0.2] {
        let alarms = (0..args.streams)
            .into_par_iter()
            .filter_map(|stream| alarm(args, alpha, args.windows, 1.0, stream as u64));
        let alarms = alarms.count();
        println!(
            "| calibrated, {} windows | {alpha} | {alarms} of {} | | |",
            args.windows, args.streams
        );
    }
    let streams = (args.streams / 4).max(1);
    for factor in FACTORS {
        let mut delays: Vec<usize> = (0..streams)
            .into_par_iter()
            .filter_map(|stream| alarm(args, 0.05, CHANGE + 200, factor, 1_000_000 + stream as u64))
            .filter(|&window| window >= CHANGE)
            .map(|window| window + 1 - CHANGE)
            .collect();
        delays.sort_unstable();
        let quantile = |share: f64| match delays.get((share * streams as f64) as usize) {
            Some(delay) => delay.to_string(),
            None => "none in 200".to_owned(),
        };
        println!(
            "| log-odds \u{d7} {factor} from window {CHANGE} on | 0.05 | {} of {streams} | {} | {} |",
            delays.len(),
            quantile(0.5),
            quantile(0.9)
        );
    }
    Ok(())
}

/// The window of the first alarm.
fn alarm(args: &Args, alpha: f64, windows: usize, factor: f64, seed: u64) -> Option<usize> {
    let mut rng = Rng::new(seed);
    let mut monitor = Monitor::new(args.classes, alpha).ok()?;
    (0..windows).find_map(|window| {
        let factor = if window < CHANGE { 1.0 } else { factor };
        let day = made(args, &mut rng, factor).ok()?;
        monitor.push(&day).ok()?.alarm.map(|alarm| alarm.window)
    })
}

/// A window of rows whose true log-odds are a multiple of those said.
fn made(args: &Args, rng: &mut Rng, factor: f64) -> Result<MetricState> {
    let mut probs = Array2::zeros((args.rows, args.classes));
    let mut labels = Vec::with_capacity(args.rows);
    for mut row in probs.outer_iter_mut() {
        let logits: Vec<f64> = (0..args.classes).map(|_| 2.0 * rng.normal()).collect();
        let softmax = |factor: f64| {
            let exps: Vec<f64> = logits.iter().map(|x| (factor * x).exp()).collect();
            let sum: f64 = exps.iter().sum();
            exps.into_iter().map(move |e| e / sum)
        };
        softmax(1.0)
            .zip(row.iter_mut())
            .for_each(|(p, cell)| *cell = p);
        let mut left = rng.uniform();
        let label = softmax(factor).position(|p| {
            left -= p;
            left <= 0.0
        });
        labels.push(label.unwrap_or(args.classes - 1) as u32);
    }
    let mut state = MetricState::new(args.classes, MetricOptions::default())?;
    state.update(&Predictions::from_probs(probs.view(), &labels)?)?;
    Ok(state)
}

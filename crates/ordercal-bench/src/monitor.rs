//! `cargo measure monitor`: how often the sequential test gives a false alarm, and how late a real one.

use std::fmt;

use anyhow::Result;
use ordercal::Rng;
use ordercal::metrics::{MetricOptions, MetricState, Predictions, Target};
use ordercal::monitor::{Alarm, Monitor};
use ordercal::ndarray::{Array2, Axis};
use rayon::prelude::*;

use crate::bundles::draw_labels;

#[derive(clap::Args)]
pub struct Args {
    /// Streams of each kind
    #[arg(long, default_value_t = 1000)]
    streams: usize,
    /// Windows of a stream without a change, and the most after a change
    #[arg(long, default_value_t = 100)]
    windows: usize,
}

/// The chances of a false alarm that are tried.
const ALPHAS: [f64; 3] = [0.01, 0.05, 0.2];

/// The chance of a false alarm of the streams with a change.
const ALPHA: f64 = 0.05;

/// Classes, rows of a window, and segments of streams that stay calibrated.
const CALIBRATED: [(usize, usize, usize); 8] = [
    (2, 50, 1),
    (2, 500, 1),
    (10, 50, 1),
    (10, 500, 1),
    (100, 50, 1),
    (100, 200, 1),
    (10, 200, 5),
    (10, 100, 10),
];

/// Classes and rows of a window of streams with a change.
const CHANGED: [(usize, usize); 4] = [(2, 200), (10, 200), (10, 2000), (100, 500)];

/// The windows before a change.
const BEFORE: usize = 30;

/// Different rows of scores; a window is a sample of them.
const POOL: usize = 5000;

/// What happens to the outcomes; the probabilities that are said stay as they are.
#[derive(Clone, Copy)]
enum Change {
    /// Nothing: they occur with these probabilities.
    None,
    /// They follow the softmax of the scores divided by this.
    Temperature(f64),
    /// The classes become more or less frequent, by factors between 1/2 and 2.
    LabelShift,
    /// This share of the outcomes of the first class become the second class.
    OneClass(f64),
}

const CHANGES: [Change; 6] = [
    Change::Temperature(1.1),
    Change::Temperature(1.5),
    Change::Temperature(0.67),
    Change::LabelShift,
    Change::OneClass(0.2),
    Change::OneClass(0.5),
];

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Temperature(t) => write!(f, "temperature {t}"),
            Self::LabelShift => f.write_str("label shift, factors 1/2 to 2"),
            Self::OneClass(share) => write!(f, "one class, {} % to another", 100.0 * share),
        }
    }
}

/// Prints two tables in Markdown.
pub fn run(args: &Args) -> Result<()> {
    let (streams, windows) = (args.streams, args.windows);
    println!("{streams} streams of {windows} windows, calibrated: the share with a false alarm\n");
    println!("| classes | rows of a window | segments | \u{3b1} = 0.01 | 0.05 | 0.2 |");
    println!("|---|---|---|---|---|---|");
    for (classes, rows, segments) in CALIBRATED {
        let source = Source::new(classes, Change::None);
        // The p-value is valid at every time, so that it tells of every α whether there was an alarm. Segments share α.
        let least = |stream: usize| -> Result<f64> {
            let segments = (0..segments).map(|segment| {
                let mut rng = Rng::new((stream * segments + segment) as u64);
                let mut monitor = Monitor::new(classes, ALPHA)?;
                let mut p_value = 1.0;
                for _ in 0..windows {
                    p_value = monitor.push(&source.window(rows, &mut rng)?)?.p_value;
                }
                Ok(p_value * segments as f64)
            });
            segments.reduce(|a, b| Ok(a?.min(b?))).unwrap_or(Ok(1.0))
        };
        let found = (0..streams).into_par_iter().map(least);
        let found: Vec<f64> = found.collect::<Result<_>>()?;
        let shares = ALPHAS.map(|alpha| {
            let alarms = found.iter().filter(|p| **p <= alpha).count();
            format!("{:.3}", alarms as f64 / streams as f64)
        });
        println!(
            "| {classes} | {rows} | {segments} | {} |",
            shares.join(" | ")
        );
    }
    println!(
        "\n{streams} streams that change after {BEFORE} windows, \u{3b1} = {ALPHA}; delays of those without an alarm before\n"
    );
    println!(
        "| classes | rows of a window | change | found within {windows} windows | median delay, windows | rows | 90 % \
         within, windows | what alarms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (classes, rows) in CHANGED {
        delays(args, classes, rows)?;
    }
    Ok(())
}

/// Prints a line for each change.
fn delays(args: &Args, classes: usize, rows: usize) -> Result<()> {
    let before = Source::new(classes, Change::None);
    let after = CHANGES.map(|change| Source::new(classes, change));
    // The first alarm after each of the changes; no line if there was one before.
    let alarms = |stream: usize| -> Result<Option<Vec<Option<Alarm>>>> {
        let mut rng = Rng::new(1_000_000 + stream as u64);
        let mut monitor = Monitor::new(classes, ALPHA)?;
        for _ in 0..BEFORE {
            if monitor
                .push(&before.window(rows, &mut rng)?)?
                .alarm
                .is_some()
            {
                return Ok(None);
            }
        }
        let first = |source: &Source| {
            let mut monitor = monitor.clone();
            for _ in 0..args.windows {
                let verdict = monitor.push(&source.window(rows, &mut rng)?)?;
                if verdict.alarm.is_some() {
                    return Ok(verdict.alarm);
                }
            }
            Ok(None)
        };
        Ok(Some(after.iter().map(first).collect::<Result<_>>()?))
    };
    let streams = (0..args.streams).into_par_iter().map(alarms);
    let streams: Vec<_> = streams.collect::<Result<_>>()?;
    let streams: Vec<_> = streams.into_iter().flatten().collect();
    for (place, change) in CHANGES.iter().enumerate() {
        let found: Vec<Alarm> = streams.iter().filter_map(|stream| stream[place]).collect();
        let mut delays: Vec<usize> = found.iter().map(|a| a.window + 1 - BEFORE).collect();
        delays.sort_unstable();
        // What was not found has a delay above all others.
        let quantile = |share: f64| delays.get((share * streams.len() as f64) as usize);
        let say = |delay: Option<usize>| delay.map_or("none".to_owned(), |d| d.to_string());
        let top = found
            .iter()
            .filter(|a| a.target == Target::TopLabel)
            .count();
        let share = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
        println!(
            "| {classes} | {rows} | {change} | {:.1} % | {} | {} | {} | the predicted class in {:.0} % |",
            share(found.len(), streams.len()),
            say(quantile(0.5).copied()),
            say(quantile(0.5).map(|delay| delay * rows)),
            say(quantile(0.9).copied()),
            share(top, found.len()),
        );
    }
    Ok(())
}

/// Rows of probabilities, as they are said and as outcomes occur.
struct Source {
    said: Array2<f64>,
    truth: Array2<f64>,
}

impl Source {
    fn new(classes: usize, change: Change) -> Self {
        let mut rng = Rng::new(classes as u64);
        let logits = Array2::from_shape_fn((POOL, classes), |_| 2.5 * rng.normal());
        let said = softmax(&logits);
        let truth = match change {
            Change::None => said.clone(),
            Change::Temperature(t) => softmax(&logits.mapv(|x| x / t)),
            Change::LabelShift => {
                let mut shifted = logits;
                for (class, mut column) in shifted.axis_iter_mut(Axis(1)).enumerate() {
                    // From 1/2 for the first class to 2 for the last.
                    let place = class as f64 / (classes - 1) as f64;
                    column += (2.0 * place - 1.0) * f64::ln(2.0);
                }
                softmax(&shifted)
            }
            Change::OneClass(share) => {
                let mut moved = said.clone();
                for mut row in moved.outer_iter_mut() {
                    let lost = share * row[0];
                    row[0] -= lost;
                    row[1] += lost;
                }
                moved
            }
        };
        Self { said, truth }
    }

    fn window(&self, rows: usize, rng: &mut Rng) -> Result<MetricState> {
        let some: Vec<usize> = (0..rows).map(|_| rng.below(POOL)).collect();
        let labels = draw_labels(&self.truth.select(Axis(0), &some), rng);
        let said = self.said.select(Axis(0), &some);
        let mut state = MetricState::new(self.said.ncols(), MetricOptions::default())?;
        state.update(&Predictions::from_probs(said.view(), &labels)?)?;
        Ok(state)
    }
}

fn softmax(logits: &Array2<f64>) -> Array2<f64> {
    let mut probs = logits.mapv(f64::exp);
    for mut row in probs.outer_iter_mut() {
        row /= row.sum();
    }
    probs
}

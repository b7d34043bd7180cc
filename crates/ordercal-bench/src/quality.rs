//! `cargo measure quality DIR`: `auto` and `auto-free` beside twelve methods on every bundle of a folder.

use std::time::Instant;

use anyhow::Result;
use ordercal::compare::changed_predictions;
use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::ndarray::Array2;
use ordercal::{Dataset, Method, Rng, ScoreKind};

use crate::bundles::{Selection, draw_labels};

/// What is beaten, or not.
const OTHERS: [&str; 12] = [
    "uncalibrated",
    "ts",
    "ets",
    "diag",
    "oi",
    "op",
    "svs",
    "sms",
    "sms+order",
    "vs",
    "beta",
    "isotonic",
];

/// What counts.
const METRICS: [Metric; 3] = [Metric::Nll, Metric::Brier, Metric::Ece];

/// How often labels are drawn from a model's own probabilities for the least ECE that can be expected.
const DRAWS: usize = 20;

/// NLL above this multiple of the uncalibrated one is harm.
const HARM: f64 = 1.001;

/// Prints metrics divided by the uncalibrated ones, the share of twelve other methods beaten, sets harmed, ECE divided by
/// its floor, changed predictions and seconds.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Calibrate on so many rows, drawn at random
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
}

/// NLL, Brier score and ECE.
type Figures = [f64; 3];

/// A method on a set.
struct Outcome {
    uncalibrated: Figures,
    figures: Figures,
    /// The share of the twelve, in percent, that are worse.
    beaten: Figures,
    /// The least ECE that can be expected.
    floor: f64,
    changed: usize,
    wall: f64,
    cpu: f64,
}

/// Calibrates on the split `calib`, measures on the split `test`.
pub fn run(args: &Args) -> Result<()> {
    let methods = args.selection.methods()?;
    let mut tables: Vec<Vec<Outcome>> = methods.iter().map(|_| Vec::new()).collect();
    println!(
        "{:<26} {:<12} {:>8} {:>8} {:>8} | {:>7} {:>7} {:>7} | {:>6} {:>6} | beaten nll brier ece",
        "set", "method", "nll", "brier", "ece", "÷ nll", "÷ brier", "÷ ece", "wall", "cpu"
    );
    for bundle in args.selection.bundles()? {
        let bundle = bundle?;
        let test = bundle.test()?;
        let calib = some_rows(bundle.calib()?, args.rows);
        let other = |key: &&str| -> Result<Figures> {
            let model = Method::from_key(key)?.fit(&calib)?.model;
            let probs = model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
            figures(&probs, test.labels())
        };
        let others: Vec<Figures> = OTHERS.iter().map(other).collect::<Result<_>>()?;
        for (method, table) in methods.iter().zip(&mut tables) {
            let (outcome, notes) = measure(method, &calib, &test, &others)?;
            let ([nll, brier, ece], before) = (outcome.figures, outcome.uncalibrated);
            println!(
                "{:<26} {:<12} {nll:>8.5} {brier:>8.5} {ece:>8.5} | {:>7.4} {:>7.4} {:>7.4} | {:>6.1} {:>6.1} | \
                 {:>3.0} {:>3.0} {:>3.0} | ece/floor {:.2} changed {}{}",
                bundle.name,
                method.key(),
                nll / before[0],
                brier / before[1],
                ece / before[2],
                outcome.wall,
                outcome.cpu,
                outcome.beaten[0],
                outcome.beaten[1],
                outcome.beaten[2],
                ece / outcome.floor,
                outcome.changed,
                if outcome.harmed() { " HARMED" } else { "" },
            );
            for note in notes {
                println!("      {note}");
            }
            table.push(outcome);
        }
    }
    for (method, table) in methods.iter().zip(&tables) {
        summary(&serde_json::to_string(method)?, table);
    }
    Ok(())
}

impl Outcome {
    fn harmed(&self) -> bool {
        self.figures[0] > HARM * self.uncalibrated[0]
    }
}

/// So many rows, drawn at random.
fn some_rows(data: Dataset<'_>, count: Option<usize>) -> Dataset<'_> {
    let Some(count) = count else {
        return data;
    };
    let mut rows: Vec<usize> = (0..data.rows()).collect();
    Rng::new(7).shuffle(&mut rows);
    data.select(&rows[..count.clamp(1, rows.len())])
}

fn summary(name: &str, table: &[Outcome]) {
    let sum = |value: &dyn Fn(&Outcome) -> f64| table.iter().map(value).sum::<f64>();
    let mean = |value: &dyn Fn(&Outcome) -> f64| sum(value) / table.len() as f64;
    println!("{name}: {} sets", table.len());
    for (at, metric) in METRICS.into_iter().enumerate() {
        let ratio = |set: &Outcome| set.figures[at] / set.uncalibrated[at];
        println!(
            "  {:<6} ÷ uncalibrated: mean {:.4}, geometric {:.4}; beaten {:.1}%",
            metric.key(),
            mean(&ratio),
            mean(&|set| ratio(set).ln()).exp(),
            mean(&|set| set.beaten[at]),
        );
    }
    println!(
        "  harmed {}, ECE ÷ floor {:.3} (geometric), changed {}, wall {:.1} s, cpu {:.1} s",
        table.iter().filter(|set| set.harmed()).count(),
        mean(&|set| (set.figures[2] / set.floor).ln()).exp(),
        table.iter().map(|set| set.changed).sum::<usize>(),
        sum(&|set| set.wall),
        sum(&|set| set.cpu),
    );
}

/// The share of the others, in percent, that are worse; a tie counts half.
fn beaten(figures: &Figures, others: &[Figures]) -> Figures {
    [0, 1, 2].map(|at| {
        let points = others.iter().map(|other| {
            let gap = other[at] - figures[at];
            if gap.abs() < 1e-6 {
                0.5
            } else {
                f64::from(gap > 0.0)
            }
        });
        100.0 * points.sum::<f64>() / others.len() as f64
    })
}

fn measure(
    method: &Method,
    calib: &Dataset<'_>,
    test: &Dataset<'_>,
    others: &[Figures],
) -> Result<(Outcome, Vec<String>)> {
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let fitted = method.fit(calib)?;
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let probs = fitted.model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
    let figures = figures(&probs, test.labels())?;
    let outcome = Outcome {
        uncalibrated: others[0],
        figures,
        beaten: beaten(&figures, others),
        floor: floor(&probs)?,
        changed: changed_predictions(test, probs.view()),
        wall,
        cpu,
    };
    Ok((outcome, fitted.report.notes))
}

fn figures(probs: &Array2<f64>, labels: &[u32]) -> Result<Figures> {
    let predictions = Predictions::from_probs(probs.view(), labels)?;
    let values = evaluate(&predictions, &METRICS, &MetricOptions::default())?;
    Ok(METRICS.map(|metric| values[&metric]))
}

/// The mean ECE where labels are drawn from the probabilities themselves.
fn floor(probs: &Array2<f64>) -> Result<f64> {
    let mut rng = Rng::new(5);
    let mut sum = 0.0;
    for _ in 0..DRAWS {
        sum += figures(probs, &draw_labels(probs, &mut rng))?[2];
    }
    Ok(sum / DRAWS as f64)
}

/// Seconds of processor time that this process has used.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name in parentheses: state is the first, user and system time the 12th and 13th.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}

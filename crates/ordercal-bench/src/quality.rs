//! `cargo measure quality DIR`: `auto` and `auto-free` beside twelve methods on every bundle of a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use ordercal::compare::changed_predictions;
use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::ndarray::Array2;
use ordercal::{Dataset, Method, Rng, ScoreKind};
use serde_json::{Value, json};

use crate::bundles::{Bundle, bundles, draw_labels};
use crate::{method, root};

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
    /// A folder of bundles with the splits `calib` and `test`
    dir: PathBuf,
    /// Where the figures of the twelve are kept [default: target/quality.json]
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,
    /// Only bundles whose name contains one of these, separated by commas
    #[arg(long, value_name = "A,B")]
    only: Option<String>,
    /// A key, or JSON with hyperparameters; may be given several times [default: auto and auto-free]
    #[arg(long = "method", value_name = "METHOD", value_parser = method::parse)]
    methods: Vec<Method>,
    /// Calibrate on so many rows, drawn at random; needs a cache of its own
    #[arg(long, value_name = "N", requires = "cache")]
    rows: Option<usize>,
    /// Fit the twelve again
    #[arg(long)]
    refresh: bool,
}

/// How a method does on one set: NLL, Brier score, ECE.
type Figures = [f64; 3];

/// The uncalibrated figures of a set, those of the twelve, and the method's.
type SetRow = (Figures, Vec<Figures>, SetFigures);

/// A method's figures on a set with what they cost.
struct SetFigures {
    figures: Figures,
    floor: f64,
    changed: usize,
    wall: f64,
    cpu: f64,
}

/// Calibrates on the split `calib`, measures on the split `test`.
pub fn run(args: &Args) -> Result<()> {
    let methods = match args.methods.is_empty() {
        true => vec![Method::from_key("auto")?, Method::from_key("auto-free")?],
        false => args.methods.clone(),
    };
    let kept = args.cache.clone();
    let kept = kept.unwrap_or_else(|| root().join("target/quality.json"));
    let mut cache = read_cache(&kept)?;
    let mut tables: Vec<Vec<SetRow>> = Vec::new();
    tables.resize_with(methods.len(), Vec::new);
    println!(
        "{:<26} {:<12} {:>8} {:>8} {:>8} | {:>7} {:>7} {:>7} | {:>6} {:>6} | beaten nll brier ece",
        "set", "method", "nll", "brier", "ece", "÷ nll", "÷ brier", "÷ ece", "wall", "cpu"
    );
    for path in bundles(&args.dir, args.only.as_deref())? {
        let bundle = Bundle::read(&path)?;
        let (name, test) = (&bundle.name, bundle.test()?);
        let calib = some_rows(bundle.calib()?, args.rows);
        let of_set = cache.entry(name.clone()).or_insert_with(|| json!({}));
        let mut others = Vec::new();
        for key in OTHERS {
            if args.refresh || of_set[key].is_null() {
                let outcome = measure(&Method::from_key(key)?, &calib, &test, false)?.0;
                let [nll, brier, ece] = outcome.figures;
                of_set[key] = json!({"nll": nll, "brier": brier, "ece": ece, "cpu": outcome.cpu});
            }
            let found = |metric: &str| of_set[key][metric].as_f64();
            let figures = [found("nll"), found("brier"), found("ece")];
            others.push(figures.map(|figure| figure.unwrap_or(f64::NAN)));
        }
        write_cache(&kept, &cache)?;
        for (method, table) in methods.iter().zip(&mut tables) {
            let (outcome, notes) = measure(method, &calib, &test, true)?;
            let before = others[0];
            let f = outcome.figures;
            let beaten = beaten(&f, &others);
            println!(
                "{:<26} {:<12} {:>8.5} {:>8.5} {:>8.5} | {:>7.4} {:>7.4} {:>7.4} | {:>6.1} {:>6.1} | {:>3.0} {:>3.0} {:>3.0} | ece/floor {:.2} changed {}{}",
                name,
                method.key(),
                f[0],
                f[1],
                f[2],
                f[0] / before[0],
                f[1] / before[1],
                f[2] / before[2],
                outcome.wall,
                outcome.cpu,
                beaten[0],
                beaten[1],
                beaten[2],
                f[2] / outcome.floor,
                outcome.changed,
                if f[0] > HARM * before[0] {
                    " HARMED"
                } else {
                    ""
                },
            );
            for note in notes {
                println!("      {note}");
            }
            table.push((before, others.clone(), outcome));
        }
    }
    for (method, table) in methods.iter().zip(&tables) {
        summary(&serde_json::to_string(method)?, table);
    }
    Ok(())
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

fn summary(name: &str, table: &[SetRow]) {
    let sets = table.len() as f64;
    let mean = |value: &dyn Fn(&SetRow) -> f64| table.iter().map(value).sum::<f64>() / sets;
    println!("{name}: {} sets", table.len());
    for (at, metric) in ["nll", "brier", "ece"].into_iter().enumerate() {
        let ratio = |row: &SetRow| row.2.figures[at] / row.0[at];
        println!(
            "  {metric:<6} ÷ uncalibrated: mean {:.4}, geometric {:.4}; beaten {:.1}%",
            mean(&ratio),
            mean(&|row| ratio(row).ln()).exp(),
            mean(&|row| beaten(&row.2.figures, &row.1)[at]),
        );
    }
    println!(
        "  harmed {}, ECE ÷ floor {:.3} (geometric), changed {}, wall {:.1} s, cpu {:.1} s",
        table
            .iter()
            .filter(|row| row.2.figures[0] > HARM * row.0[0])
            .count(),
        mean(&|row| (row.2.figures[2] / row.2.floor).ln()).exp(),
        table.iter().map(|row| row.2.changed).sum::<usize>(),
        table.iter().map(|row| row.2.wall).sum::<f64>(),
        table.iter().map(|row| row.2.cpu).sum::<f64>(),
    );
}

/// The share of the others, in percent, that are worse; a tie counts half.
fn beaten(figures: &Figures, others: &[Figures]) -> Figures {
    let share = |at: usize| {
        let points = others.iter().map(|other| {
            // The cache holds six digits.
            let gap = other[at] - figures[at];
            if gap.abs() < 1e-6 {
                0.5
            } else {
                f64::from(gap > 0.0)
            }
        });
        100.0 * points.sum::<f64>() / others.len() as f64
    };
    [share(0), share(1), share(2)]
}

fn measure(
    method: &Method,
    calib: &Dataset<'_>,
    test: &Dataset<'_>,
    with_floor: bool,
) -> Result<(SetFigures, Vec<String>)> {
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let fitted = method.fit(calib)?;
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let probs = fitted.model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
    let figures = figures(&probs, test.labels())?;
    let floor = if with_floor { floor(&probs)? } else { f64::NAN };
    let outcome = SetFigures {
        figures,
        floor,
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
        let labels = draw_labels(probs, &mut rng);
        let predictions = Predictions::from_probs(probs.view(), &labels)?;
        sum += evaluate(&predictions, &[Metric::Ece], &MetricOptions::default())?[&Metric::Ece];
    }
    Ok(sum / DRAWS as f64)
}

fn read_cache(path: &Path) -> Result<BTreeMap<String, Value>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))
        }
        Err(_) => Ok(BTreeMap::new()),
    }
}

fn write_cache(path: &Path, cache: &BTreeMap<String, Value>) -> Result<()> {
    let text = serde_json::to_string_pretty(cache)?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
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

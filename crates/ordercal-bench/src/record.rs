//! `cargo measure record DIR`: the results of every method on every bundle, compared with an earlier record.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::ndarray::ArrayView1;
use ordercal::{Method, ScoreKind};
use ordercal_io::SavedModel;
use sha2::{Digest, Sha256};

use crate::bundles::{Bundle, bundles};
use crate::{method, root};

const HEADER: &str = "set,method,nll,ece,argmax,model,fit_seconds,apply_seconds";

/// Largest difference of NLL and ECE that counts as equal.
const TOLERANCE: f64 = 1e-6;

/// Fits every method with its default settings to the split `calib` and measures it on the split `test`.
#[derive(clap::Args)]
pub struct Args {
    /// A folder of bundles with the splits `calib` and `test`; the demo's bundles are added
    dir: PathBuf,
    /// The record to compare with
    #[arg(long, value_name = "FILE", default_value = "benchmarks/record.csv")]
    against: PathBuf,
    /// Write the new record to this file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only bundles whose name contains one of these, separated by commas
    #[arg(long, value_name = "A,B")]
    only: Option<String>,
    /// A key, or JSON with hyperparameters; may be given several times [default: every method and KEY+order]
    #[arg(long = "method", value_name = "METHOD", value_parser = method::parse)]
    methods: Vec<Method>,
}

/// One line of the record.
struct Entry {
    nll: f64,
    ece: f64,
    /// Hash of the predicted classes.
    argmax: String,
    /// Hash of the model file.
    model: String,
    fit_seconds: f64,
    apply_seconds: f64,
}

/// Set and method.
type Key = (String, String);

pub fn run(args: &Args) -> Result<()> {
    let old = match args.against.exists() {
        true => read(&args.against)?,
        false => BTreeMap::new(),
    };
    let methods = match args.methods.is_empty() {
        true => all_methods(),
        false => args.methods.clone(),
    };
    let mut paths = bundles(&args.dir, args.only.as_deref())?;
    if args.only.is_none() {
        paths.extend(bundles(&root().join("crates/ordercal-cli/demo"), None)?);
    }
    let (mut text, mut compared, mut different) = (format!("{HEADER}\n"), 0, 0);
    for path in paths {
        let bundle = Bundle::read(&path)?;
        for method in &methods {
            let new = measure(method, &bundle)?;
            let key = (bundle.name.clone(), method.key().to_owned());
            if let Some(old) = old.get(&key) {
                compared += 1;
                different += usize::from(!old.agrees_with(&new, &key));
            }
            writeln!(
                text,
                "{},{},{:.9},{:.9},{},{},{:.4},{:.4}",
                key.0,
                key.1,
                new.nll,
                new.ece,
                new.argmax,
                new.model,
                new.fit_seconds,
                new.apply_seconds
            )?;
        }
    }
    if let Some(out) = &args.out {
        std::fs::write(out, &text).with_context(|| format!("writing {}", out.display()))?;
    }
    println!(
        "{compared} of {} results are in {}; {different} of them differ",
        text.lines().count() - 1,
        args.against.display()
    );
    ensure!(different == 0, "results differ from the record");
    Ok(())
}

/// Every method, and the projection of every method that may change predictions.
fn all_methods() -> Vec<Method> {
    let all = Method::all();
    let projected = all.iter().filter(|method| !method.promises_order());
    let projected: Vec<Method> = projected.cloned().map(Method::keep_order).collect();
    [all, projected].concat()
}

fn measure(method: &Method, bundle: &Bundle) -> Result<Entry> {
    let (calib, test) = (bundle.calib()?, bundle.test()?);
    let begin = Instant::now();
    let fitted = method.fit(&calib)?;
    let fit_seconds = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let probs = fitted.model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
    let apply_seconds = begin.elapsed().as_secs_f64();
    let predictions = Predictions::from_probs(probs.view(), test.labels())?;
    let metrics = [Metric::Nll, Metric::Ece];
    let values = evaluate(&predictions, &metrics, &MetricOptions::default())?;
    let argmax = |row: ArrayView1<'_, f64>| {
        let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter().position(|&p| p >= best).unwrap_or_default() as u32
    };
    let classes = probs.rows().into_iter().map(argmax);
    let classes: Vec<u8> = classes.flat_map(u32::to_le_bytes).collect();
    Ok(Entry {
        nll: values[&Metric::Nll],
        ece: values[&Metric::Ece],
        argmax: hash(&classes),
        model: hash(&SavedModel::new(method.clone(), fitted).to_bytes()?),
        fit_seconds,
        apply_seconds,
    })
}

impl Entry {
    /// Prints what differs. A model file with other bytes is printed but is no difference: results count.
    fn agrees_with(&self, new: &Self, (set, method): &Key) -> bool {
        let equal = |a: f64, b: f64| (a - b).abs() <= TOLERANCE || a.is_nan() && b.is_nan();
        if !equal(self.nll, new.nll) || !equal(self.ece, new.ece) {
            println!(
                "{set} {method}: nll {:.7} -> {:.7}, ece {:.7} -> {:.7}",
                self.nll, new.nll, self.ece, new.ece
            );
            return false;
        }
        if self.argmax != new.argmax {
            println!("{set} {method}: other predictions");
            return false;
        }
        if self.model != new.model {
            println!("{set} {method}: same results, other bytes of the model file");
        }
        true
    }
}

fn read(path: &Path) -> Result<BTreeMap<Key, Entry>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let entry = |line: &str| -> Result<(Key, Entry)> {
        let fields: Vec<&str> = line.split(',').collect();
        let [set, method, nll, ece, argmax, model, fit, apply] = fields[..] else {
            anyhow::bail!("{}: not a line of a record: {line}", path.display());
        };
        let entry = Entry {
            nll: nll.parse()?,
            ece: ece.parse()?,
            argmax: argmax.to_owned(),
            model: model.to_owned(),
            fit_seconds: fit.parse()?,
            apply_seconds: apply.parse()?,
        };
        Ok(((set.to_owned(), method.to_owned()), entry))
    };
    text.lines().skip(1).map(entry).collect()
}

/// The first 16 digits of the SHA-256.
fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

//! Development commands; `cargo xtask` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod browser;
mod check;
mod demo_data;
mod hammer;
mod picture;
mod python;
mod quality;
mod reference_metrics;
mod scaling;
mod speed;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  check                        everything the continuous integration runs
  browser [--built]            test the demo's report in headless Chromium; installs Debian's
                               package if it is missing and that is allowed; --built takes the
                               program as it was built last
  python                       of that only the Python package: its wheel, types and tests
  quality DIR [--reference F]  fit every method on every bundle *.npz in DIR (calibrate on its
                               split calib, score on its split test) and print nll, ece, brier,
                               accuracy, changed predictions and seconds; with F, a JSON file of
                               other implementations' figures, beside those. Without F, DIR's
                               sibling reference/calibrators.json is taken if it is there, and
                               the metrics are compared with reference/metrics.json. ms-odir and
                               dir-odir without weights have them chosen by 5-fold cross validation.
          [--method M]...      only these: a key, or e.g. '{\"method\": \"oi\", \"hidden\": [100, 100]}'
  demo-data [DIR]              train the demo classifiers again and write their held-out logits to
                               DIR (default demo); installs Debian packages
  picture                      draw docs/reliability.svg, the README's picture
  speed [--rows N]             fit methods to N rows (default 25000) of overconfident logits of
          [--classes K]        K classes (default 1000), and print seconds and the most memory
          [--method M]...      these (default svs)
  bench [--peers] [DIR]        time ordercal, with --peers in turns with other packages that do the same
          [--repeats N]        (in a virtual environment of their own below target/), and print ratios;
          [--only TEXT]        with DIR on the bundles *.npz there, else on generated data. The whole of
                               it writes benchmarks/results.md. Runs each N times (default 5); only
                               work whose name contains TEXT
  scaling [DIR]                time fits of every method against rows, classes and threads, and measure
                               memory; writes scaling.md with figures into DIR (default docs)
  hammer [--rows N] [--seed S] the order promise on N hostile rows (default 1000000)";

/// What only makes sense in a program that was optimised.
const MEASURING: [&str; 5] = ["bench", "quality", "scaling", "speed", "hammer"];

/// Runs the same command in a release build: only those who measure have to wait for one.
fn optimised(args: &[String]) -> Result<()> {
    let status = std::process::Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(args)
        .status()
        .context("cannot run cargo")?;
    std::process::exit(status.code().unwrap_or(1));
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|a| a == "--help" || a == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    if cfg!(debug_assertions) && MEASURING.contains(&args[0].as_str()) {
        return optimised(&args);
    }
    let command = args.remove(0);
    let options = Options::parse(args)?;
    match command.as_str() {
        "bench" => bench::run(&bench::Settings {
            peers: options.peers,
            repeats: options.repeats,
            only: options.only,
            bundles: options.directory,
        }),
        "check" => check::run(),
        "browser" => browser::run(options.built),
        "python" => python::run(),
        "quality" => {
            let dir = options
                .directory
                .as_deref()
                .context("quality needs a folder of bundles")?;
            let beside =
                |name: &str| Some(dir.join("../reference").join(name)).filter(|f| f.exists());
            let reference = options.reference.or_else(|| beside("calibrators.json"));
            let methods = options.methods.unwrap_or_else(|| {
                let mut all = ordercal::Method::all();
                // The projections that other implementations' figures are known of.
                let projected = ["svs+order", "sms+order"];
                all.extend(projected.map(|key| ordercal::Method::from_key(key).expect("a key")));
                all
            });
            quality::run(dir, reference.as_deref(), &methods)?;
            match beside("metrics.json") {
                Some(metrics) if !reference_metrics::check(dir, &metrics)? => {
                    bail!("a metric differs from its reference")
                }
                _ => Ok(()),
            }
        }
        "demo-data" => demo_data::run(options.directory.as_deref().unwrap_or("demo".as_ref())),
        "picture" => picture::run(Path::new("docs/reliability.svg")),
        "speed" => {
            let methods = options
                .methods
                .unwrap_or_else(|| vec![ordercal::Svs::default().into()]);
            speed::run(options.rows.unwrap_or(25_000), options.classes, &methods)
        }
        "scaling" => scaling::run(options.directory.as_deref().unwrap_or("docs".as_ref())),
        "hammer" => hammer::run(options.rows.unwrap_or(1_000_000), options.seed),
        other => bail!("there is no command {other}\n{HELP}"),
    }
}

/// What was typed behind the command.
struct Options {
    directory: Option<PathBuf>,
    reference: Option<PathBuf>,
    methods: Option<Vec<ordercal::Method>>,
    rows: Option<usize>,
    built: bool,
    peers: bool,
    repeats: usize,
    only: Option<String>,
    classes: usize,
    seed: u64,
}

impl Options {
    fn parse(args: Vec<String>) -> Result<Self> {
        let mut options = Self {
            directory: None,
            reference: None,
            methods: None,
            rows: None,
            built: false,
            peers: false,
            repeats: 5,
            only: None,
            classes: 1000,
            seed: 1,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--reference" => options.reference = Some(value()?.into()),
                "--method" => {
                    let given = value()?;
                    let method = if given.starts_with('{') {
                        serde_json::from_str(&given).map_err(anyhow::Error::from)
                    } else {
                        ordercal::Method::from_key(&given).map_err(anyhow::Error::from)
                    };
                    let methods = options.methods.get_or_insert_default();
                    methods.push(method.with_context(|| format!("--method {given}"))?);
                }
                "--peers" => options.peers = true,
                "--only" => options.only = Some(value()?),
                "--repeats" => {
                    let given: usize = value()?.parse().context("--repeats takes a number")?;
                    options.repeats = given.max(1);
                }
                "--built" => options.built = true,
                "--rows" => options.rows = Some(value()?.parse().context("--rows takes a number")?),
                "--classes" => {
                    options.classes = value()?.parse().context("--classes takes a number")?
                }
                "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
                flag if flag.starts_with('-') => bail!("there is no option {flag}\n{HELP}"),
                path if options.directory.is_none() => {
                    options.directory = Some(Path::new(path).to_owned())
                }
                extra => bail!("what is {extra} for?\n{HELP}"),
            }
        }
        Ok(options)
    }
}

//! Development commands; `cargo xtask` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod check;
mod hammer;
mod npz;
mod quality;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  check                        everything the continuous integration runs
  quality DIR [--reference F]  fit every method on every bundle *.npz in DIR (calibrate on its
                               split calib, score on its split test) and print nll, ece, brier,
                               accuracy, changed predictions and seconds; with F, a JSON file of
                               other implementations' figures, beside those. DIR's sibling
                               reference/calibrators.json is F unless given.
          [--method M]...      only these: a key, or e.g. '{\"method\": \"oi\", \"hidden\": [100, 100]}'
  hammer [--rows N] [--seed S] the order promise on N hostile rows (default 1000000)";

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|a| a == "--help" || a == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let command = args.remove(0);
    let options = Options::parse(args)?;
    match command.as_str() {
        "check" => check::run(),
        "quality" => {
            let dir = options
                .directory
                .as_deref()
                .context("quality needs a folder of bundles")?;
            let beside = dir.join("../reference/calibrators.json");
            let reference = options
                .reference
                .or_else(|| beside.exists().then_some(beside));
            quality::run(dir, reference.as_deref(), &options.methods)
        }
        "hammer" => hammer::run(options.rows, options.seed),
        other => bail!("there is no command {other}\n{HELP}"),
    }
}

/// What was typed behind the command.
struct Options {
    directory: Option<PathBuf>,
    reference: Option<PathBuf>,
    methods: Vec<ordercal::Method>,
    rows: usize,
    seed: u64,
}

impl Options {
    fn parse(args: Vec<String>) -> Result<Self> {
        let mut options = Self {
            directory: None,
            reference: None,
            methods: Vec::new(),
            rows: 1_000_000,
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
                    options
                        .methods
                        .push(method.with_context(|| format!("--method {given}"))?);
                }
                "--rows" => options.rows = value()?.parse().context("--rows takes a number")?,
                "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
                flag if flag.starts_with('-') => bail!("there is no option {flag}\n{HELP}"),
                path if options.directory.is_none() => {
                    options.directory = Some(Path::new(path).to_owned())
                }
                extra => bail!("what is {extra} for?\n{HELP}"),
            }
        }
        if options.methods.is_empty() {
            options.methods = ordercal::Method::all();
        }
        Ok(options)
    }
}

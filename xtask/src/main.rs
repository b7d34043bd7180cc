//! Development commands; `cargo xtask` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod browser;
mod check;
mod debian;
mod demo_data;
mod docs;
mod format;
mod fuzz;
mod instructions;
mod package;
mod picture;
mod python;
mod release;
mod run;
mod tools;
mod worked_example;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  check               everything the continuous integration runs
  format [--fix]      of that only the format of every *.rs file; --fix writes it
  browser [--built]   of that only the demo's report in headless Chromium; --built takes the program as it was
                      built last
  python              of that only the Python package: its wheel, types and tests
  torch               the tests of the PyTorch modules, which the check skips: installs torch below target/ (gigabytes)
  spark               the tests of ordercal.spark on a cluster of two executors and with Spark Connect; installs
                      pyspark (0.4 GB) below target/
  docs [--built] [--fix]
                      of that only the guide: runs the code of its pages, builds the site below target/, checks
                      links and looks at it in headless Chromium; --fix writes outputs and pictures as they are
                      now; --built takes program and wheel as they were built last
  package [--verify]  of that only the packages that are published: their contents; --verify also builds each
                      from its package alone (minutes)
  release --dry-run   pack the crates, the source distribution and a wheel, and install and try each in a clean
                      place (minutes)
  deny                cargo-deny with deny.toml, which the check skips: licences, duplicates, sources and advisories of
                      the dependencies; installs cargo-deny below target/ (minutes)
  example             of that only the example of the library, as it was built last
  instructions [--built] [--fix]
                      of that only the instructions of the hottest loops, counted by valgrind; --fix writes them down
  lines [REVISION]    count lines of code, documentation and tests for each crate
  worked-example      of that only the calibrator that CONTRIBUTING.md adds, in a copy of the sources
  fuzz --minutes N [TARGET…]
                      libFuzzer on the targets of crates/ordercal-io/fuzz, all of them unless some are named; installs
                      cargo-fuzz below target/
  fuzz --minimise     take what fuzzing found into the corpus that the tests replay
  demo-data [DIR]     train the demo classifiers again and write their held-out logits to DIR (default
                      crates/ordercal-cli/demo); installs Debian packages
  picture             draw docs/reliability.svg, the README's picture
  venv DIR FILE       make a Python virtual environment in DIR with the packages of a requirements file

Chromium, valgrind and Java are installed with apt-get where that is allowed; what needs them is skipped where not, and
what needs Python with it. What measures (quality, bench, scaling, speed, hammer) is under `cargo measure`.";

/// The folder of the demo's bundles.
const DEMO: &str = "crates/ordercal-cli/demo";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] | ["help" | "--help" | "-h", ..] => {
            println!("{HELP}");
            Ok(())
        }
        ["check"] => check::run(),
        ["format"] => format::run(false),
        ["format", "--fix"] => format::run(true),
        ["deny"] => tools::deny(),
        ["browser"] => browser::run(false),
        ["browser", "--built"] => browser::run(true),
        ["docs"] => docs::run(false, false),
        ["docs", "--fix"] => docs::run(false, true),
        ["docs", "--built"] => docs::run(true, false),
        ["docs", "--built", "--fix"] => docs::run(true, true),
        ["instructions"] => instructions::run(false, false),
        ["instructions", "--fix"] => instructions::run(false, true),
        ["instructions", "--built"] => instructions::run(true, false),
        ["instructions", "--built", "--fix"] => instructions::run(true, true),
        ["example"] => run::example(),
        ["python"] => python::run(),
        ["torch"] => python::torch(),
        ["spark"] => python::spark(),
        ["fuzz", "--minutes", minutes, ref only @ ..] => fuzz::run(minutes, only),
        ["fuzz", "--minimise"] => fuzz::minimise(),
        ["package"] => package::run(false).map(drop),
        ["package", "--verify"] => package::run(true).map(drop),
        ["release", "--dry-run"] => release::dry_run(),
        ["demo-data"] => demo_data::run(&root().join(DEMO)),
        ["demo-data", folder] => demo_data::run(folder.as_ref()),
        ["lines", ref revision @ ..] => run::lines(revision),
        ["worked-example"] => worked_example::run(),
        ["picture"] => picture::run(),
        ["venv", folder, requirements] => {
            python::environment(folder.as_ref(), requirements.as_ref()).map(|_| ())
        }
        _ => bail!(
            "there is no command `{}`; `cargo xtask` lists them",
            args.join(" ")
        ),
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("xtask lies in the workspace")
}

//! `cargo xtask fuzz`: libFuzzer on every target of `crates/ordercal-io/fuzz`.
//!
//! Coverage is compiled in by flags that the stable compiler takes; only sanitizers would need nightly, and without
//! unsafe code in the readers they would find little. What the fuzzer finds grows below `target/fuzz`; `--minimise`
//! takes the smallest set of inputs that covers as much into the corpus that is committed and that the tests replay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::run::{output, step};
use crate::tools;

/// Limits of a single input, beyond which it counts as a crash.
const LIMITS: [&str; 3] = ["-rss_limit_mb=1024", "-malloc_limit_mb=512", "-timeout=30"];

/// Longer inputs are slower and find no more.
const LONGEST: &str = "-max_len=8192";

/// The corpus of a target may take so many bytes: the smallest inputs go first. Whole files of every format are among the
/// fixtures of other tests.
const MOST_BYTES: u64 = 19_000;

/// Where things are.
struct Fuzzer {
    program: PathBuf,
    committed: PathBuf,
    work: PathBuf,
}

/// What a run of one target came to.
struct Outcome {
    executions: u64,
    edges: u64,
    inputs: usize,
    bytes: u64,
    crashes: Vec<PathBuf>,
}

/// Runs the targets one after the other, for equal parts of the time, and prints a table.
pub fn run(minutes: &str, only: &[&str]) -> Result<()> {
    let minutes: f64 = minutes
        .parse()
        .with_context(|| format!("--minutes {minutes}: a number of minutes is expected"))?;
    let fuzzer = Fuzzer::build()?;
    let targets = fuzzer.targets(only)?;
    let seconds = (60.0 * minutes / targets.len() as f64).ceil().max(1.0) as u64;
    let mut crashes = Vec::new();
    println!("target        executions       edges      inputs       bytes     crashes");
    for target in targets {
        let found = fuzzer.fuzz(&target, seconds)?;
        println!(
            "{target:12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            found.executions,
            found.edges,
            found.inputs,
            found.bytes,
            found.crashes.len()
        );
        crashes.extend(found.crashes);
    }
    for crash in &crashes {
        println!("crashed: {}", crash.display());
    }
    ensure!(
        crashes.is_empty(),
        "{} inputs crashed; to replay one, put it into the corpus of its target ({}) and run cargo test -p ordercal-io \
         --test it fuzz_corpus",
        crashes.len(),
        fuzzer.committed.display()
    );
    Ok(())
}

/// Replaces the committed corpus by the fewest inputs that cover the same edges as all that were found.
pub fn minimise() -> Result<()> {
    let fuzzer = Fuzzer::build()?;
    for target in fuzzer.targets(&[])? {
        let (committed, smallest) = (
            fuzzer.committed.join(&target),
            fuzzer.folder("smallest", &target)?,
        );
        fs::remove_dir_all(&smallest)?;
        fs::create_dir_all(&smallest)?;
        let mut command = fuzzer.command(&target);
        command.args(["-set_cover_merge=1", "-use_counters=0", "-verbosity=0"]);
        command.args([
            &smallest,
            &committed,
            &fuzzer.folder("found", &target)?,
            &fuzzer.folder("seeds", &target)?,
        ]);
        step(command.stderr(Stdio::null()))?;
        fs::remove_dir_all(&committed)?;
        fs::create_dir_all(&committed)?;
        let mut sized = Vec::new();
        for input in contents(&smallest)?.0 {
            sized.push((fs::metadata(&input)?.len(), input));
        }
        sized.sort();
        let (mut count, mut bytes) = (0, 0);
        for (size, input) in &sized {
            if bytes + size > MOST_BYTES {
                break;
            }
            (count, bytes) = (count + 1, bytes + size);
            let name = input.file_name().context("an input has a name")?;
            // The first digits of its hash are enough to tell it from the others.
            let name: String = name.to_string_lossy().chars().take(10).collect();
            fs::copy(input, committed.join(name))?;
        }
        println!("{target}: {count} of {} inputs, {bytes} bytes", sized.len());
    }
    Ok(())
}

impl Fuzzer {
    /// Builds the program, with the versions of the workspace's dependencies.
    fn build() -> Result<Self> {
        let cargo_fuzz = tools::install("cargo-fuzz")?;
        let root = crate::root();
        let source = root.join("crates/ordercal-io/fuzz");
        let work = root.join("target/fuzz");
        fs::copy(root.join("Cargo.lock"), source.join("Cargo.lock"))?;
        step(
            Command::new(cargo_fuzz)
                .args(["build", "--sanitizer", "none", "--codegen-units", "16"])
                .arg("--fuzz-dir")
                .arg(&source)
                .arg("--target-dir")
                .arg(&work),
        )?;
        let host = output(Command::new("rustc").arg("-vV"))?;
        let host = host.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc does not say what it compiles for")?;
        Ok(Self {
            program: work.join(host).join("release/ordercal-fuzz"),
            committed: source.join("corpus"),
            work,
        })
    }

    /// The targets that are named, or all: each has a folder in the corpus.
    fn targets(&self, only: &[&str]) -> Result<Vec<String>> {
        let folders = fs::read_dir(&self.committed)?;
        let names = folders.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<Result<Vec<String>>>()?;
        names.sort();
        let unknown = only.iter().find(|&&name| !names.iter().any(|n| n == name));
        if let Some(unknown) = unknown {
            let known = names.join(", ");
            bail!("there is no target `{unknown}`; the targets are {known}");
        }
        names.retain(|name| only.is_empty() || only.contains(&name.as_str()));
        Ok(names)
    }

    /// A folder of a target below `target/fuzz`.
    fn folder(&self, purpose: &str, target: &str) -> Result<PathBuf> {
        let folder = self.work.join(purpose).join(target);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(LIMITS)
            .arg(LONGEST)
            .env("TARGET", target)
            .env("SEEDS", self.work.join("seeds").join(target))
            .env("TMPDIR", &self.work)
            .env("RAYON_NUM_THREADS", "1");
        command
    }

    fn fuzz(&self, target: &str, seconds: u64) -> Result<Outcome> {
        let [found, seeds, crashes] =
            ["found", "seeds", "crashes"].map(|purpose| self.folder(purpose, target));
        let (found, seeds, crashes) = (found?, seeds?, crashes?);
        let old = contents(&crashes)?.0;
        let mut command = self.command(target);
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", crashes.display()))
            .args(["-print_final_stats=1", "-reload=0"])
            .args([&found, &self.committed.join(target), &seeds]);
        let result = command
            .output()
            .with_context(|| format!("cannot run {command:?}"))?;
        let log = String::from_utf8_lossy(&result.stderr).into_owned();
        fs::write(self.work.join(format!("{target}.log")), &log)?;
        let (mut new, _) = contents(&crashes)?;
        new.retain(|crash| !old.contains(crash));
        if !result.status.success() && new.is_empty() {
            let end: Vec<&str> = log.lines().rev().take(5).collect();
            bail!("{target} cannot be fuzzed: {}", end.join("; "));
        }
        let (inputs, bytes) = contents(&found)?;
        Ok(Outcome {
            executions: last_number(&log, "stat::number_of_executed_units:"),
            edges: last_number(&log, " cov:"),
            inputs: inputs.len(),
            bytes,
            crashes: new,
        })
    }
}

/// The files of a folder, and how many bytes they hold.
fn contents(folder: &Path) -> Result<(Vec<PathBuf>, u64)> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += entry.metadata()?.len();
        files.push(entry.path());
    }
    files.sort();
    Ok((files, bytes))
}

/// The number that follows the last mention of a word in libFuzzer's log.
fn last_number(log: &str, word: &str) -> u64 {
    let after = log.rsplit_once(word).map_or("", |(_, after)| after);
    let number = after.split_whitespace().next();
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

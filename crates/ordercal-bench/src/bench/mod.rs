//! `cargo measure bench`: ordercal and its peers on the same work, in turns.

mod calls;
mod data;
mod limits;
mod peers;
mod same_nll;
mod table;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use data::Set;
use limits::Limits;
use peers::Pythons;
use table::{Line, Table};
use workloads::Workload;

/// With --peers and without --only or DIR, also writes benchmarks/results.md and its chart.
#[derive(clap::Args)]
pub struct Args {
    /// A folder of bundles *.npz to work on instead of generated data
    #[arg(value_name = "DIR")]
    bundles: Option<PathBuf>,
    /// Run other packages on the same work, in turns with ordercal, and calls of our own Python package; all are installed
    /// below target/
    #[arg(long)]
    peers: bool,
    /// How often each side runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: u16,
    /// Only work whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs everything, prints it, and writes `benchmarks/results.md` and its chart if nothing was left out.
pub fn run(args: &Args) -> Result<()> {
    let root = crate::root();
    let folder = root.join("target/bench");
    // First: the peers take a moment to import all that they need.
    let limits = Limits::measure();
    let mut pythons = match args.peers {
        true => Some(Pythons::start(root)?),
        false => None,
    };
    let versions = pythons.as_ref().map_or(Vec::new(), |p| p.versions.clone());
    let mut table = Table::new(&limits, versions, args.repeats.into());
    println!("{}", table.heading());
    match &args.bundles {
        None => {
            let mut workloads = workloads::all();
            workloads.extend(same_nll::all());
            workloads.extend(calls::all());
            let mut last: Option<Set> = None;
            for work in workloads.iter().filter(|w| args.wants(w)) {
                let there = last.take().filter(|set| set.is(work.size, work.truth));
                let set = match there {
                    Some(set) => set,
                    None => Set::generate(work.size, work.truth, &folder)?,
                };
                table.add(args.measure(work, &set, pythons.as_mut())?);
                last = Some(set);
            }
            if args.peers && args.only.is_none() {
                table.write(&root.join("benchmarks"))?;
            }
        }
        Some(bundles) => {
            for bundle in crate::bundles::bundles(bundles, None)? {
                let set = Set::load(&bundle, &folder)?;
                println!("{}", bundle.display());
                let mut workloads = workloads::on_bundles(set.size());
                workloads.extend(same_nll::on_bundles(set.size()));
                for work in workloads {
                    if args.wants(&work) {
                        table.add(args.measure(&work, &set, pythons.as_mut())?);
                    }
                }
            }
        }
    }
    Ok(())
}

impl Args {
    fn wants(&self, work: &Workload) -> bool {
        let wanted = |part: &String| work.name.contains(part.as_str());
        self.only.as_ref().is_none_or(wanted) && (self.peers || !work.needs_python())
    }

    /// Runs both sides in turns, after a first run of each that does not count.
    fn measure(&self, work: &Workload, set: &Set, pythons: Option<&mut Pythons>) -> Result<Line> {
        let (mut peers, mut python) = match pythons {
            None => (None, None),
            Some(pythons) => (Some(&mut pythons.peers), Some(&mut pythons.ours)),
        };
        let first = work.run(set, python.as_deref_mut())?;
        let mut ours = Vec::new();
        let mut theirs = vec![Vec::new(); work.peers.len()];
        let mut results = vec![f64::NAN; work.peers.len()];
        if let Some(peers) = &mut peers {
            for (place, (peer, _)) in work.peers.iter().enumerate() {
                let answer = peers.run(peer, &set.folder, true)?;
                results[place] = answer.result;
                if work.once {
                    theirs[place].push(answer.seconds);
                }
            }
        }
        if work.once {
            ours.push(first.seconds);
        }
        for _ in 0..if work.once { 0 } else { self.repeats } {
            if let Some(peers) = &mut peers {
                for (place, (peer, _)) in work.peers.iter().enumerate() {
                    let run = || Ok(peers.run(peer, &set.folder, false)?.seconds);
                    theirs[place].push(turn(run)?);
                }
                // Threads of the peers may wait for work by spinning for a moment.
                std::thread::sleep(Duration::from_millis(100));
            }
            ours.push(turn(|| Ok(work.run(set, python.as_deref_mut())?.seconds))?);
        }
        Ok(Line::new(work, &first, &mut ours, &mut theirs, &results))
    }
}

/// One turn of one side. A short run is repeated and the shortest counts: after the other side's turn, caches are
/// cold and threads asleep.
fn turn(mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut shortest = run()?;
    for _ in 0..4 {
        if shortest > 0.1 {
            break;
        }
        shortest = shortest.min(run()?);
    }
    Ok(shortest)
}

//! `cargo measure bench`: ordercal and its peers on the same work, in turns.

mod data;
mod limits;
mod peers;
mod table;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use data::Set;
use limits::Limits;
use peers::Peers;
use table::{Line, Table};
use workloads::Workload;

/// With --peers and without --only or DIR, also writes benchmarks/results.md and its chart.
#[derive(clap::Args)]
pub struct Args {
    /// A folder of bundles *.npz to work on instead of generated data
    #[arg(value_name = "DIR")]
    bundles: Option<PathBuf>,
    /// Run other packages on the same work, in turns with ordercal; they are installed below target/
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
    let mut peers = match args.peers {
        true => Some(Peers::start(root)?),
        false => None,
    };
    let versions = peers.as_ref().map_or(Vec::new(), |p| p.versions.clone());
    let mut table = Table::new(&limits, versions, args.repeats.into());
    println!("{}", table.heading());
    match &args.bundles {
        None => {
            let workloads = workloads::all();
            let mut last: Option<Set> = None;
            for work in workloads.iter().filter(|w| args.wants(w)) {
                let there = last.take().filter(|set| set.size() == work.size);
                let set = match there {
                    Some(set) => set,
                    None => Set::generate(work.size, &folder)?,
                };
                table.add(args.measure(work, &set, peers.as_mut())?);
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
                for work in workloads::on_bundles(set.size()) {
                    if args.wants(&work) {
                        table.add(args.measure(&work, &set, peers.as_mut())?);
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
        self.only.as_ref().is_none_or(wanted)
    }

    /// Runs both sides in turns, after a first run of each that does not count.
    fn measure(&self, work: &Workload, set: &Set, peers: Option<&mut Peers>) -> Result<Line> {
        let first = work.run(set)?;
        let mut ours = Vec::new();
        let mut theirs = vec![Vec::new(); work.peers.len()];
        let mut results = vec![f64::NAN; work.peers.len()];
        match peers {
            None => {
                for _ in 0..self.repeats {
                    ours.push(turn(|| Ok(work.run(set)?.seconds))?);
                }
            }
            Some(peers) => {
                for (place, (peer, _)) in work.peers.iter().enumerate() {
                    results[place] = peers.run(peer, &set.folder, true)?.result;
                }
                for _ in 0..self.repeats {
                    for (place, (peer, _)) in work.peers.iter().enumerate() {
                        let run = || Ok(peers.run(peer, &set.folder, false)?.seconds);
                        theirs[place].push(turn(run)?);
                    }
                    // Threads of the peers may wait for work by spinning for a moment.
                    std::thread::sleep(Duration::from_millis(100));
                    ours.push(turn(|| Ok(work.run(set)?.seconds))?);
                }
            }
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

//! `cargo measure bench`: ordercal and its peers on the same work, in turns.

mod calls;
mod data;
mod peers;
mod table;
mod workloads;

use std::time::Duration;

use anyhow::Result;

use data::Set;
use peers::Pythons;
use table::{Line, Table};
use workloads::Workload;

/// With --peers and without --only, also writes benchmarks/results.md.
#[derive(clap::Args)]
pub struct Args {
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

pub fn run(args: &Args) -> Result<()> {
    let root = crate::root();
    let mut pythons = match args.peers {
        true => Some(Pythons::start(root)?),
        false => None,
    };
    let mut table = Table::new();
    let mut workloads = workloads::all();
    workloads.extend(calls::all());
    let mut last: Option<Set> = None;
    for work in workloads.iter().filter(|w| args.wants(w)) {
        let set = match last.take() {
            Some(set) if set.is(work.size, work.truth) => set,
            _ => Set::generate(work.size, work.truth, &root.join("target/bench"))?,
        };
        table.add(&args.measure(work, &set, pythons.as_mut())?);
        last = Some(set);
    }
    match pythons {
        Some(pythons) if args.only.is_none() => {
            table.write(&root.join("benchmarks"), &pythons.versions, args.repeats)
        }
        _ => Ok(()),
    }
}

impl Args {
    fn wants(&self, work: &Workload) -> bool {
        let wanted = |part: &String| work.name.contains(part.as_str());
        self.only.as_ref().is_none_or(wanted) && (self.peers || !work.needs_python())
    }

    /// Runs both sides in turns, after a first run of each that does not count.
    fn measure<'a>(
        &self,
        work: &'a Workload,
        set: &Set,
        pythons: Option<&mut Pythons>,
    ) -> Result<Line<'a>> {
        let (mut peers, mut python) = match pythons {
            None => (None, None),
            Some(pythons) => (Some(&mut pythons.peers), Some(&mut pythons.ours)),
        };
        let first = work.run(set, python.as_deref_mut())?;
        let mut line = Line::new(work, first.result);
        if let Some(peers) = &mut peers {
            for &(peer, goal) in &work.peers {
                let answer = peers.run(peer, &set.folder, true)?;
                line.peers.push((peer, goal, answer.result));
                line.theirs.push(vec![answer.seconds]);
            }
        }
        line.ours.push(first.seconds);
        if work.once {
            return Ok(line);
        }
        line.ours.clear();
        line.theirs.iter_mut().for_each(Vec::clear);
        for _ in 0..self.repeats {
            if let Some(peers) = &mut peers {
                for ((peer, _), seconds) in work.peers.iter().zip(&mut line.theirs) {
                    let run = || Ok(peers.run(peer, &set.folder, false)?.seconds);
                    seconds.push(turn(run)?);
                }
                // Threads of the peers may wait for work by spinning for a moment.
                std::thread::sleep(Duration::from_millis(100));
            }
            let run = || Ok(work.run(set, python.as_deref_mut())?.seconds);
            line.ours.push(turn(run)?);
        }
        Ok(line)
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

//! The results: on the terminal as they come, then as Markdown with a chart.

use std::path::Path;

use anyhow::{Context, Result};
use ordercal_report::{Bar, BarFigure, Theme};

use super::limits::{Limits, LowerBound};
use super::workloads::{Caller, Goal, Run, Workload};

/// One workload, measured.
pub struct Line {
    work: String,
    caller: &'static str,
    size: (usize, usize),
    ours: f64,
    result: f64,
    bound: LowerBound,
    alone: Option<Goal>,
    peers: Vec<Peer>,
}

struct Peer {
    name: &'static str,
    seconds: f64,
    result: f64,
    goal: Option<Goal>,
}

impl Line {
    pub fn new(
        work: &Workload,
        first: &Run,
        ours: &mut [f64],
        theirs: &mut [Vec<f64>],
        results: &[f64],
    ) -> Self {
        let all = work.peers.iter().zip(theirs).zip(results);
        let measured = all.filter(|((_, seconds), _)| !seconds.is_empty());
        Self {
            work: work.name.to_owned(),
            caller: match work.caller {
                Caller::Kernel => "kernel",
                Caller::Library => "library",
                Caller::Python => "Python",
                Caller::Command => "command",
            },
            size: work.size,
            ours: median(ours),
            result: first.result,
            bound: first.bound,
            alone: work.alone,
            peers: measured
                .map(|(((name, goal), seconds), &result)| Peer {
                    name,
                    seconds: median(seconds),
                    result,
                    goal: *goal,
                })
                .collect(),
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// All of them, with the limits of the machine.
pub struct Table {
    lines: Vec<Line>,
    operations: f64,
    bytes: f64,
    versions: Vec<String>,
    repeats: usize,
}

const COLUMNS: [&str; 10] = [
    "work",
    "call of",
    "size",
    "peer",
    "peer takes",
    "we take",
    "ratio",
    "goal",
    "of the limit",
    "result (peer)",
];

impl Table {
    pub fn new(limits: &Limits, versions: Vec<String>, repeats: usize) -> Self {
        Self {
            lines: Vec::new(),
            operations: limits.operations,
            bytes: limits.bytes,
            versions,
            repeats,
        }
    }

    /// What comes before the first line.
    pub fn heading(&self) -> String {
        format!(
            "{} threads; matrix products {:.0} GFLOP/s, memory {:.0} GB/s\n{}",
            rayon::current_num_threads(),
            self.operations / 1e9,
            self.bytes / 1e9,
            terminal(&COLUMNS.map(str::to_owned))
        )
    }

    /// Prints a line and keeps it.
    pub fn add(&mut self, line: Line) {
        for cells in self.cells(&line) {
            println!("{}", terminal(&cells));
        }
        self.lines.push(line);
    }

    fn cells(&self, line: &Line) -> Vec<[String; 10]> {
        let limits = Limits {
            operations: self.operations,
            bytes: self.bytes,
        };
        let share = limits.seconds(line.bound);
        let share = share.map_or(String::new(), |s| format!("{:.0}%", 100.0 * s / line.ours));
        let size = format!("{}×{}", line.size.0, line.size.1);
        let row = |peer: &str, theirs: String, ratio: String, goal: String, result: String| {
            [
                line.work.clone(),
                line.caller.to_owned(),
                size.clone(),
                peer.to_owned(),
                theirs,
                seconds(line.ours),
                ratio,
                goal,
                share.clone(),
                result,
            ]
        };
        if line.peers.is_empty() {
            let goal = match line.alone {
                Some(Goal::Seconds(most)) => {
                    format!("≤ {}{}", seconds(most), mark(line.ours <= most))
                }
                _ => String::new(),
            };
            let result = shown(line.result);
            return vec![row("", String::new(), String::new(), goal, result)];
        }
        let rows = line.peers.iter().map(|peer| {
            let ratio = peer.seconds / line.ours;
            let goal = match peer.goal {
                Some(Goal::Ratio(bound)) => format!("≥ {bound}{}", mark(ratio >= bound)),
                Some(Goal::RatioAtResult(bound)) => {
                    let good = ratio >= bound && line.result <= 1.001 * peer.result;
                    format!("≥ {bound}{}", mark(good))
                }
                _ => String::new(),
            };
            let result = results(line.result, peer.result);
            let shown = if ratio >= 100.0 {
                format!("{ratio:.0}")
            } else {
                format!("{ratio:.1}")
            };
            row(peer.name, seconds(peer.seconds), shown, goal, result)
        });
        rows.collect()
    }

    /// Writes `results.md` and `ratios.svg` into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut text = format!(
            "# Results\nWritten by `cargo measure bench --peers`: medians of {} runs, peers and ordercal in turns, on {} \
             threads. Matrix products reach {:.0} GFLOP/s here, reading memory {:.0} GB/s; \"of the limit\" is how \
             much of that we use. A result is the NLL that a fit \
             reached (on held-out rows where it is \"to the same NLL\"), or a metric's value. Calls of \
             Python and commands are timed as a user waits for them, with conversion and checks.\n\n\
             ![Ratios](ratios.svg)\n\n",
            self.repeats,
            rayon::current_num_threads(),
            self.operations / 1e9,
            self.bytes / 1e9,
        );
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        text += &line(&COLUMNS.map(str::to_owned));
        text += &line(&COLUMNS.map(|_| "---".to_owned()));
        for cells in self.lines.iter().flat_map(|l| self.cells(l)) {
            text += &line(&cells);
        }
        text += &format!("\nPeers: {}.\n", self.versions.join(", "));
        let path = folder.join("results.md");
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        let bars = self.lines.iter().flat_map(|line| {
            let bar = |peer: &Peer| Bar {
                name: format!("{} {}×{}", line.work, line.size.0, line.size.1),
                note: peer.name.to_owned(),
                value: peer.seconds / line.ours,
            };
            line.peers.iter().map(bar).collect::<Vec<_>>()
        });
        let figure = BarFigure {
            title: "How many times as fast as its peers ordercal is".to_owned(),
            bars: bars.collect(),
            note: format!(
                "medians of {} runs in turns, {} threads",
                self.repeats,
                rayon::current_num_threads()
            ),
        };
        let path = folder.join("ratios.svg");
        std::fs::write(&path, figure.draw(Theme::LIGHT)?.as_str())
            .with_context(|| format!("writing {}", path.display()))
    }
}

fn mark(reached: bool) -> &'static str {
    if reached { " ✓" } else { " ✗" }
}

fn seconds(value: f64) -> String {
    if value >= 1.0 {
        format!("{value:.2} s")
    } else if value >= 1e-3 {
        format!("{:.2} ms", value * 1e3)
    } else {
        format!("{:.1} µs", value * 1e6)
    }
}

/// The results of both sides; not every peer has one.
fn results(ours: f64, theirs: f64) -> String {
    format!("{} ({})", shown(ours), shown(theirs))
}

fn shown(result: f64) -> String {
    if result.is_nan() {
        "–".to_owned()
    } else {
        format!("{result:.4}")
    }
}

fn terminal(cells: &[String; 10]) -> String {
    let [
        work,
        caller,
        size,
        peer,
        theirs,
        ours,
        ratio,
        goal,
        share,
        result,
    ] = cells;
    format!(
        "{work:<38} {caller:<8} {size:<11} {peer:<32} {theirs:>10} {ours:>10} {ratio:>7} {goal:<13} {share:>12} {result}"
    )
}

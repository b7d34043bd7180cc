//! The results, in Markdown: on the terminal as they come, then in a file.

use std::path::Path;

use anyhow::{Context, Result};

use super::workloads::{Caller, Goal, Workload};

/// One workload, measured.
pub struct Line<'a> {
    work: &'a Workload,
    /// The result of our side.
    result: f64,
    /// The seconds of every turn.
    pub ours: Vec<f64>,
    /// Each peer with the ratio to reach and its result.
    pub peers: Vec<(&'static str, Option<Goal>, f64)>,
    /// The seconds of every turn of each peer.
    pub theirs: Vec<Vec<f64>>,
}

impl<'a> Line<'a> {
    pub fn new(work: &'a Workload, result: f64) -> Self {
        Self {
            work,
            result,
            ours: Vec::new(),
            peers: Vec::new(),
            theirs: Vec::new(),
        }
    }

    /// A row for each peer, or one for our side alone.
    fn rows(&self) -> Vec<[String; 9]> {
        let ours = median(&self.ours);
        let row = |[peer, theirs, ratio, goal, result]: [String; 5]| {
            [
                self.work.name.to_owned(),
                match self.work.caller {
                    Caller::Kernel => "kernel",
                    Caller::Library => "library",
                    Caller::Python => "Python",
                    Caller::Command => "command",
                }
                .to_owned(),
                format!("{}×{}", self.work.size.0, self.work.size.1),
                peer,
                theirs,
                seconds(ours),
                ratio,
                goal,
                result,
            ]
        };
        let mark = |reached| if reached { " ✓" } else { " ✗" };
        if self.peers.is_empty() {
            let goal = self.work.within.map_or(String::new(), |most| {
                format!("≤ {}{}", seconds(most), mark(ours <= most))
            });
            let none = String::new;
            return vec![row([none(), none(), none(), goal, shown(self.result)])];
        }
        let peers = self.peers.iter().zip(&self.theirs);
        let rows = peers.map(|(&(name, goal, result), theirs)| {
            let ratio = median(theirs) / ours;
            let goal = goal.map_or(String::new(), |goal| {
                let good = !goal.same_result || self.result <= 1.001 * result;
                format!("≥ {}{}", goal.ratio, mark(good && ratio >= goal.ratio))
            });
            let decimals = usize::from(ratio < 100.0);
            row([
                name.to_owned(),
                seconds(median(theirs)),
                format!("{ratio:.decimals$}"),
                goal,
                format!("{} ({})", shown(self.result), shown(result)),
            ])
        });
        rows.collect()
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// All of them.
pub struct Table(String);

impl Table {
    pub fn new() -> Self {
        let mut table = Self(String::new());
        let heads = [
            "work",
            "call of",
            "size",
            "peer",
            "peer takes",
            "we take",
            "ratio",
            "goal",
            "result (peer)",
        ];
        table.row(&heads.map(str::to_owned));
        table.row(&["---"; 9].map(str::to_owned));
        table
    }

    pub fn add(&mut self, line: &Line<'_>) {
        line.rows().iter().for_each(|row| self.row(row));
    }

    /// Prints a row and keeps it.
    fn row(&mut self, cells: &[String; 9]) {
        let line = format!("| {} |\n", cells.join(" | "));
        print!("{line}");
        self.0 += &line;
    }

    /// Writes `results.md` into a folder.
    pub fn write(&self, folder: &Path, versions: &[String], repeats: u16) -> Result<()> {
        let text = format!(
            "# Results\nWritten by `cargo measure bench --peers`: medians of {repeats} runs, peers and ordercal in turns, on {} \
             threads. A result is the NLL that a fit reached (on held-out rows where it is \"to the same NLL\"), or a metric's \
             value. Calls of Python and commands are timed as a user waits for them, with conversion and checks.\n\n\
             {}\nPeers: {}.\n",
            rayon::current_num_threads(),
            self.0,
            versions.join(", ")
        );
        let path = folder.join("results.md");
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
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

/// A result; not every peer has one.
fn shown(result: f64) -> String {
    if result.is_nan() {
        "–".to_owned()
    } else {
        format!("{result:.4}")
    }
}

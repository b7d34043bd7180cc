//! `cargo xtask scaling`: how the time of a fit grows with rows, classes and threads, and the memory it takes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ordercal::optim::Adam;
use ordercal::{Dataset, Diag, Method, Oi, Op, Svs, Ts};
use ordercal_report::{LineFigure, LinePanel, LinePoint, LineSeries, Theme};
use ordercal_testkit::rows::overconfident_data;

/// Sizes that a method would take longer than this for are left out.
const PATIENCE: f64 = 15.0;

/// What grows.
struct Sweep {
    name: &'static str,
    sizes: [usize; 4],
    of: fn(usize) -> (usize, usize),
    file: &'static str,
}

const SWEEPS: [Sweep; 2] = [
    Sweep {
        name: "rows of 10 classes",
        sizes: [1000, 10_000, 100_000, 1_000_000],
        of: |rows| (rows, 10),
        file: "scaling_rows.svg",
    },
    Sweep {
        name: "classes, 2000 rows",
        sizes: [10, 100, 1000, 10_000],
        of: |classes| (2000, classes),
        file: "scaling_classes.svg",
    },
];

/// The methods, as they are drawn.
const PANELS: [(&str, &[&str]); 3] = [
    (
        "order kept",
        &["ts", "ets", "diag", "oi", "op", "svs+order", "auto"],
    ),
    (
        "linear maps",
        &["vs", "svs", "sms", "ms-odir", "dir-odir", "unconstrained"],
    ),
    (
        "class by class",
        &["platt", "beta", "isotonic", "histogram", "bbq"],
    ),
];

/// Measures everything; writes `scaling.md` and its figures into a folder.
pub fn run(folder: &Path) -> Result<()> {
    let mut text = format!(
        "# How the time of a fit grows\nWritten by `cargo xtask scaling`: seconds of one fit with a method's default \
         settings on generated logits, {} threads. \"–\" stands for what would take longer than {PATIENCE:.0} s.\n",
        rayon::current_num_threads()
    );
    for sweep in SWEEPS {
        let (table, figure) = sweep.measure()?;
        text += &format!(
            "\n## {}\n![{}]({})\n\n{table}",
            capital(sweep.name),
            sweep.name,
            sweep.file
        );
        std::fs::write(folder.join(sweep.file), figure.draw(Theme::LIGHT)?.as_str())?;
    }
    text += &format!("\n## Threads\n{}", threads()?);
    text += &format!("\n## Memory\n{}", memory()?);
    let path = folder.join("scaling.md");
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

impl Sweep {
    fn measure(&self) -> Result<(String, LineFigure)> {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let sizes = self.sizes.map(|size| size.to_string()).to_vec();
        let heading = [
            vec!["method".to_owned()],
            sizes,
            vec!["last growth".to_owned(), "of which passes".to_owned()],
        ]
        .concat();
        let mut table = row(heading.clone()) + &row(vec!["---".to_owned(); heading.len()]);
        println!("{}", heading.join("\t"));
        let data = self.sizes.map(|size| {
            let (rows, classes) = (self.of)(size);
            overconfident_data(rows, classes, 1)
        });
        let mut panels = Vec::new();
        for (name, methods) in PANELS {
            let mut series = Vec::new();
            for (slot, key) in methods.iter().enumerate() {
                let times = self.times(&Method::from_key(key)?, &data)?;
                let shown = times
                    .iter()
                    .map(|t| t.map_or("–".to_owned(), |t| seconds(t.seconds)));
                let known: Vec<Took> = times.iter().flatten().copied().collect();
                let growth = match known[..] {
                    [.., before, last] => vec![
                        format!("{:.1}×", last.seconds / before.seconds),
                        format!("{:.1}×", last.passes / before.passes),
                    ],
                    _ => vec!["–".to_owned(); 2],
                };
                let cells = [vec![(*key).to_owned()], shown.collect(), growth].concat();
                println!("{}", cells.join("\t"));
                table += &row(cells);
                let points = self
                    .sizes
                    .iter()
                    .zip(&known)
                    .map(|(&size, took)| LinePoint {
                        x: size as f64,
                        y: took.seconds,
                        low: took.seconds,
                        high: took.seconds,
                        repetitions: 1,
                    });
                series.push(LineSeries {
                    name: (*key).to_owned(),
                    slot: slot + 1,
                    points: points.collect(),
                });
            }
            panels.push(LinePanel {
                name: format!("{name}: seconds"),
                series,
            });
        }
        let ticks = self.sizes.map(|size| (size as f64, size.to_string()));
        let figure = LineFigure {
            title: format!("Seconds of a fit against {}", self.name),
            x_name: self.name.to_owned(),
            logarithmic: true,
            logarithmic_y: true,
            x_ticks: ticks.to_vec(),
            panels,
            note: format!("default settings, {} threads", rayon::current_num_threads()),
        };
        Ok((table, figure))
    }

    /// Seconds for each size, as far as patience goes.
    fn times(&self, method: &Method, data: &[Dataset<'_>]) -> Result<Vec<Option<Took>>> {
        let mut times = Vec::new();
        let mut expected = 0.0;
        for data in data {
            if expected > PATIENCE {
                times.push(None);
                continue;
            }
            let took = median(method, data)?;
            // Matrices have a hundred times the weights for ten times the classes; with few, that is not what counts.
            let matrix = matches!(method.key(), "sms" | "ms-odir" | "dir-odir" | "auto");
            let steep = self.of_classes() && matrix && data.classes() >= 100;
            expected = took.seconds * if steep { 100.0 } else { 10.0 };
            times.push(Some(took));
        }
        Ok(times)
    }

    fn of_classes(&self) -> bool {
        (self.of)(10).1 == 10 && (self.of)(100).1 == 100
    }
}

/// What a fit took.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    /// Passes over the data; how many it takes is a matter of the data, what each takes is ours.
    passes: f64,
}

/// The median of three fits, or one that took long.
fn median(method: &Method, data: &Dataset<'_>) -> Result<Took> {
    let mut times = Vec::new();
    let mut passes = 0;
    while times.len() < 3 && times.iter().sum::<f64>() < 1.0 {
        let begin = Instant::now();
        passes = method.fit(data)?.report.evaluations;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(Took {
        seconds: times[times.len() / 2],
        passes: passes as f64,
    })
}

fn seconds(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0}")
    } else if value >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.5}")
    }
}

const LARGE: (usize, usize) = (25_000, 1000);

fn epochs(count: usize) -> Adam {
    Adam::default().with_epochs(count)
}

/// One thread against all of them.
fn threads() -> Result<String> {
    let data = overconfident_data(LARGE.0, LARGE.1, 1);
    let hidden = [150, 150];
    let methods: [Method; 5] = [
        Ts::default().into(),
        Diag::default().into(),
        Svs::default().into(),
        Oi::default()
            .with_hidden(&hidden)
            .with_optimizer(epochs(3))
            .into(),
        Op::default()
            .with_hidden(&hidden)
            .with_optimizer(epochs(3))
            .into(),
    ];
    let all = rayon::current_num_threads();
    let mut text = format!(
        "A fit of {} × {}, seconds (`oi` and `op`: hidden 150,150, 3 epochs).\n\n\
         | method | 1 thread | {all} threads | ratio |\n|---|---|---|---|\n",
        LARGE.0, LARGE.1
    );
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for method in methods {
        let mut ratios = Vec::new();
        // In turns, so that a busy moment of the machine hits both.
        for _ in 0..3 {
            let one = alone.install(|| timed(&method, &data))?;
            ratios.push((one, timed(&method, &data)?));
        }
        ratios.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (one, many) = ratios[1];
        let line = format!(
            "| {} | {} | {} | {:.2}× |\n",
            method.key(),
            seconds(one),
            seconds(many),
            one / many
        );
        print!("{line}");
        text += &line;
    }
    Ok(text)
}

fn timed(method: &Method, data: &Dataset<'_>) -> Result<f64> {
    let begin = Instant::now();
    method.fit(data)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// The most memory of a fit, each in a process of its own.
fn memory() -> Result<String> {
    let input = (LARGE.0 * LARGE.1 * 4) as f64 / 1e6;
    let mut text = format!(
        "The most memory that a process with a fit of {} × {} has held, the {input:.0} MB of logits included.\n\n\
         | method | MB | times the logits |\n|---|---|---|\n",
        LARGE.0, LARGE.1
    );
    let network = |key: &str| {
        format!(
            r#"{{"method": "{key}", "hidden": [150, 150], "optimizer": {{"kind": "adam", "epochs": 1}}}}"#
        )
    };
    let methods = [
        "ts".to_owned(),
        "diag".to_owned(),
        "svs".to_owned(),
        network("oi"),
        network("op"),
    ];
    for method in methods {
        let output = Command::new(std::env::current_exe()?)
            .args(["speed", "--method", &method])
            .output()?;
        ensure!(output.status.success(), "cannot measure {method}");
        let line = String::from_utf8(output.stdout)?;
        let last = line.lines().last().context("a line of figures")?;
        let megabytes = last.split(',').rev().nth(1).context("the memory")?.trim();
        let megabytes: f64 = megabytes.trim_end_matches(" MB").parse()?;
        let megabytes = megabytes * 1.048_576;
        let key = last.split_whitespace().next().unwrap_or_default();
        let line = format!("| {key} | {megabytes:.0} | {:.1}× |\n", megabytes / input);
        print!("{line}");
        text += &line;
    }
    Ok(text)
}

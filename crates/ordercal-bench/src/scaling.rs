//! `cargo measure scaling`: how the time of a fit grows with rows, classes and threads, and the memory it takes.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use ordercal::optim::Adam;
use ordercal::{Dataset, Diag, Method, Oi, Op, Svs, Ts, Uncalibrated};
use ordercal_io::SavedModel;
use ordercal_report::{LineFigure, LinePanel, LinePoint, LineSeries, Theme};
use ordercal_testkit::rows::overconfident_data;

use crate::speed;

/// Writes scaling.md and its figures.
#[derive(clap::Args)]
pub struct Args {
    /// The folder they go to
    #[arg(value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))]
    folder: PathBuf,
}

/// Sizes that are expected to take longer than this many seconds are left out.
const PATIENCE: f64 = 15.0;

/// Most methods in a panel of the figure: as many as there are colours that can be told apart.
const PANEL: usize = 7;

/// What grows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Rows,
    Classes,
}

struct Sweep {
    name: &'static str,
    axis: Axis,
    sizes: [usize; 4],
    file: &'static str,
}

const SWEEPS: [Sweep; 2] = [
    Sweep {
        name: "rows of 10 classes",
        axis: Axis::Rows,
        sizes: [1000, 10_000, 100_000, 1_000_000],
        file: "scaling_rows.svg",
    },
    Sweep {
        name: "classes, 2000 rows",
        axis: Axis::Classes,
        sizes: [10, 100, 1000, 10_000],
        file: "scaling_classes.svg",
    },
];

/// Every method that fits anything, and one projection: the order-preserving ones, then the free ones.
fn panels() -> Vec<(String, Vec<Method>)> {
    let uncalibrated = Method::from(Uncalibrated::default());
    let methods = Method::all().into_iter().filter(|m| *m != uncalibrated);
    let (mut kept, free): (Vec<Method>, Vec<Method>) = methods.partition(Method::promises_order);
    kept.push(Method::from(Svs::default()).keep_order());
    let named = |name: &str, methods: Vec<Method>| {
        let panels = methods.len().div_ceil(PANEL);
        let size = methods.len().div_ceil(panels);
        let chunks = methods.chunks(size).enumerate().map(|(place, chunk)| {
            let name = match panels {
                1 => name.to_owned(),
                _ => format!("{name} ({} of {panels})", place + 1),
            };
            (name, chunk.to_vec())
        });
        chunks.collect::<Vec<_>>()
    };
    [named("order-preserving", kept), named("free", free)].concat()
}

/// Measures everything; writes `scaling.md` and its figures into a folder.
pub fn run(Args { folder }: &Args) -> Result<()> {
    let mut text = format!(
        "# How the time of a fit grows\nWritten by `cargo measure scaling`: seconds of one fit with a method's default \
         settings on generated logits, {} threads. \"–\" stands for what is expected to take longer than \
         {PATIENCE:.0} s. \"Last growth\" compares the last two sizes; \"passes\" are those over the data, for each \
         size. Their number depends on the data: the true map is a temperature of 2, so a fit that starts there, as \
         `diag` does, ends after a few passes unless it finds structure in the noise of few rows, and may take longer on \
         fewer rows.\n",
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
            ["last growth", "of passes", "passes"]
                .map(str::to_owned)
                .to_vec(),
        ]
        .concat();
        let mut table = row(heading.clone()) + &row(vec!["---".to_owned(); heading.len()]);
        println!("{}", heading.join("\t"));
        let data = self.sizes.map(|size| match self.axis {
            Axis::Rows => overconfident_data(size, 10, 1),
            Axis::Classes => overconfident_data(2000, size, 1),
        });
        let mut drawn = Vec::new();
        for (name, methods) in panels() {
            let mut series = Vec::new();
            for (slot, method) in methods.iter().enumerate() {
                let key = method.key();
                let times = self.times(method, &data)?;
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
                let passes = known.iter().map(|took| took.passes.to_string());
                let passes = vec![passes.collect::<Vec<_>>().join(", ")];
                let cells = [vec![key.to_owned()], shown.collect(), growth, passes].concat();
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
                    name: key.to_owned(),
                    slot: slot + 1,
                    points: points.collect(),
                });
            }
            drawn.push(LinePanel {
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
            panels: drawn,
            note: format!("default settings, {} threads", rayon::current_num_threads()),
        };
        Ok((table, figure))
    }

    /// What a fit of each size took, as far as patience goes.
    fn times(&self, method: &Method, data: &[Dataset<'_>]) -> Result<Vec<Option<Took>>> {
        let quadratic = self.axis == Axis::Classes && quadratic_in_classes(method)?;
        let mut times = Vec::new();
        let mut expected = 0.0;
        for data in data {
            if expected > PATIENCE {
                times.push(None);
                continue;
            }
            let took = median(method, data)?;
            // With few classes the rows cost more than the matrix does.
            let steep = quadratic && data.classes() >= 100;
            expected = took.seconds * if steep { 100.0 } else { 10.0 };
            times.push(Some(took));
        }
        Ok(times)
    }
}

/// Whether a method's models hold a matrix of classes by classes: then one of twice the classes has four times the size.
fn quadratic_in_classes(method: &Method) -> Result<bool> {
    let size = |classes: usize| -> Result<f64> {
        let fitted = method.fit(&overconfident_data(400, classes, 1))?;
        Ok(SavedModel::new(method.clone(), fitted).to_bytes()?.len() as f64)
    };
    Ok(size(80)? > 3.0 * size(40)?)
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

/// What threads and memory are measured with; networks are trained for some epochs only.
fn large_methods(epochs: usize) -> [Method; 5] {
    let hidden = [150, 150];
    let adam = Adam::default().with_epochs(epochs);
    [
        Ts::default().into(),
        Diag::default().into(),
        Svs::default().into(),
        Oi::default()
            .with_hidden(&hidden)
            .with_optimizer(adam.clone())
            .into(),
        Op::default()
            .with_hidden(&hidden)
            .with_optimizer(adam)
            .into(),
    ]
}

/// One thread against all of them.
fn threads() -> Result<String> {
    let data = overconfident_data(LARGE.0, LARGE.1, 1);
    let all = rayon::current_num_threads();
    let mut text = format!(
        "A fit of {} × {}, seconds (`oi` and `op`: hidden 150,150, 3 epochs).\n\n\
         | method | 1 thread | {all} threads | ratio |\n|---|---|---|---|\n",
        LARGE.0, LARGE.1
    );
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for method in large_methods(3) {
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

/// The peak memory of a fit, each in a process of its own.
fn memory() -> Result<String> {
    let input = (LARGE.0 * LARGE.1 * 4) as f64;
    let mut text = format!(
        "Peak memory of a process with a fit of {} × {}, the {:.0} MB of logits included.\n\n\
         | method | MB | times the logits |\n|---|---|---|\n",
        LARGE.0,
        LARGE.1,
        input / 1e6
    );
    for method in large_methods(1) {
        let cost = speed::in_own_process(&method, LARGE)?;
        let line = format!(
            "| {} | {:.0} | {:.1}× |\n",
            cost.method,
            cost.peak_bytes / 1e6,
            cost.peak_bytes / input
        );
        print!("{line}");
        text += &line;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_in_one_panel() {
        let panels = panels();
        let shown = panels.iter().flat_map(|(_, methods)| methods);
        let shown: Vec<&str> = shown.map(Method::key).collect();
        for method in Method::all() {
            let times = shown.iter().filter(|key| **key == method.key()).count();
            assert_eq!(times, usize::from(method.key() != "uncalibrated"));
        }
        assert!(panels.iter().all(|(_, methods)| methods.len() <= PANEL));
    }

    #[test]
    fn matrices_are_told_from_vectors() {
        let quadratic = |key: &str| quadratic_in_classes(&Method::from_key(key).unwrap()).unwrap();
        assert!(quadratic("ms-odir"));
        assert!(!quadratic("svs"));
        assert!(!quadratic("ts"));
    }
}

//! `cargo measure scaling`: how the time of a fit grows with rows, classes and threads, and the memory it takes.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use ordercal::optim::Adam;
use ordercal::{Dataset, Diag, Method, Oi, Op, Svs, Ts};
use ordercal_io::SavedModel;
use ordercal_testkit::rows::overconfident_data;

use crate::speed;

#[derive(clap::Args)]
pub struct Args {
    /// The folder it goes to
    #[arg(value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))]
    folder: PathBuf,
}

/// Sizes that are expected to take longer than this many seconds are left out.
const PATIENCE: f64 = 15.0;

/// A heading with the sizes below it, as rows and classes.
const SWEEPS: [(&str, [(usize, usize); 4]); 2] = [
    (
        "Rows of 10 classes",
        [(1000, 10), (10_000, 10), (100_000, 10), (1_000_000, 10)],
    ),
    (
        "Classes, 2000 rows",
        [(2000, 10), (2000, 100), (2000, 1000), (2000, 10_000)],
    ),
];

/// What threads and memory are measured with.
const LARGE: (usize, usize) = (25_000, 1000);

pub fn run(Args { folder }: &Args) -> Result<()> {
    let mut page = Page(format!(
        "# How the time of a fit grows\nWritten by `cargo measure scaling`: seconds of one fit with a method's default \
         settings on generated logits, {} threads. \"–\" stands for what is expected to take longer than \
         {PATIENCE:.0} s. \"Last growth\" compares the last two sizes; \"passes\" are those over the data, for each \
         size. Their number depends on the data: the true map is a temperature of 2, so a fit that starts there, as \
         `diag` does, ends after a few passes unless it finds structure in the noise of few rows, and may take longer on \
         fewer rows.\n",
        rayon::current_num_threads()
    ));
    for (name, sizes) in SWEEPS {
        sweep(&mut page, name, sizes)?;
    }
    threads(&mut page)?;
    memory(&mut page)?;
    let path = folder.join("scaling.md");
    std::fs::write(&path, page.0).with_context(|| format!("writing {}", path.display()))
}

/// The text, which is printed as it is made.
struct Page(String);

impl Page {
    fn part(&mut self, name: &str, before: &str, heads: &[String]) {
        self.0 += &format!("\n## {name}\n{before}\n");
        self.row(heads);
        self.row(&vec!["---".to_owned(); heads.len()]);
    }

    fn row(&mut self, cells: &[String]) {
        let line = format!("| {} |\n", cells.join(" | "));
        print!("{line}");
        self.0 += &line;
    }
}

/// Times every method that fits anything, and one projection.
fn sweep(page: &mut Page, name: &str, sizes: [(usize, usize); 4]) -> Result<()> {
    let by_classes = sizes[0].0 == sizes[1].0;
    let shown = sizes.map(|(rows, classes)| if by_classes { classes } else { rows }.to_string());
    let mut heads = vec!["method".to_owned()];
    heads.extend(shown);
    heads.extend(["last growth", "of passes", "passes"].map(str::to_owned));
    page.part(name, "", &heads);
    let data = sizes.map(|(rows, classes)| overconfident_data(rows, classes, 1));
    let mut methods = Method::all();
    methods.retain(|method| method.key() != "uncalibrated");
    methods.push(Method::from(Svs::default()).keep_order());
    for method in methods {
        let times = times(&method, &data, by_classes)?;
        let mut cells = vec![method.key().to_owned()];
        cells.extend(times.iter().map(|(time, _)| seconds(*time)));
        cells.resize(1 + sizes.len(), "–".to_owned());
        cells.extend(match times[..] {
            [.., (before, some), (last, more)] => {
                [last / before, more as f64 / some as f64].map(|growth| format!("{growth:.1}×"))
            }
            _ => ["–", "–"].map(str::to_owned),
        });
        let passes: Vec<String> = times.iter().map(|(_, passes)| passes.to_string()).collect();
        cells.push(passes.join(", "));
        page.row(&cells);
    }
    Ok(())
}

/// Seconds and passes over the data of a fit of each size, as far as patience goes: the median of three fits, or one that
/// takes long.
fn times(method: &Method, data: &[Dataset<'_>], by_classes: bool) -> Result<Vec<(f64, usize)>> {
    let quadratic = by_classes && quadratic_in_classes(method)?;
    let mut found = Vec::new();
    for data in data {
        let mut times = Vec::new();
        let mut passes = 0;
        while times.len() < 3 && times.iter().sum::<f64>() < 1.0 {
            let begin = Instant::now();
            passes = method.fit(data)?.report.evaluations;
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        found.push((median, passes));
        // With few classes the rows cost more than the matrix does.
        let steep = quadratic && data.classes() >= 100;
        if median * if steep { 100.0 } else { 10.0 } > PATIENCE {
            break;
        }
    }
    Ok(found)
}

/// Whether a method's models hold a matrix of classes by classes: then one of twice the classes has four times the size.
fn quadratic_in_classes(method: &Method) -> Result<bool> {
    let size = |classes: usize| -> Result<f64> {
        let fitted = method.fit(&overconfident_data(400, classes, 1))?;
        Ok(SavedModel::new(method.clone(), fitted).to_bytes()?.len() as f64)
    };
    Ok(size(80)? > 3.0 * size(40)?)
}

fn seconds(value: f64) -> String {
    let decimals = match value {
        10.0.. => 0,
        0.1.. => 2,
        _ => 5,
    };
    format!("{value:.decimals$}")
}

/// Some methods; networks are trained for some epochs only.
fn large_methods(epochs: usize) -> [Method; 5] {
    let hidden = [150, 150];
    let adam = Adam::default().with_epochs(epochs);
    let oi = Oi::default().with_hidden(hidden);
    let op = Op::default().with_hidden(hidden);
    [
        Ts::default().into(),
        Diag::default().into(),
        Svs::default().into(),
        oi.with_optimizer(adam.clone()).into(),
        op.with_optimizer(adam).into(),
    ]
}

/// One thread against all of them.
fn threads(page: &mut Page) -> Result<()> {
    let data = overconfident_data(LARGE.0, LARGE.1, 1);
    let all = rayon::current_num_threads();
    let before = format!(
        "A fit of {} × {}, seconds (`oi` and `op`: hidden 150,150, 3 epochs).\n",
        LARGE.0, LARGE.1
    );
    let many = format!("{all} threads");
    let heads = ["method", "1 thread", &many, "ratio"].map(str::to_owned);
    page.part("Threads", &before, &heads);
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for method in large_methods(3) {
        let timed = || -> Result<f64> {
            let begin = Instant::now();
            method.fit(&data)?;
            Ok(begin.elapsed().as_secs_f64())
        };
        let mut ratios = Vec::new();
        // In turns, so that a busy moment of the machine hits both.
        for _ in 0..3 {
            ratios.push((alone.install(timed)?, timed()?));
        }
        ratios.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (one, many) = ratios[1];
        let ratio = format!("{:.2}×", one / many);
        page.row(&[method.key().to_owned(), seconds(one), seconds(many), ratio]);
    }
    Ok(())
}

/// The peak memory of a fit, each in a process of its own.
fn memory(page: &mut Page) -> Result<()> {
    let input = (LARGE.0 * LARGE.1 * 4) as f64 / 1e6;
    let before = format!(
        "Peak memory of a process with a fit of {} × {}, the {input:.0} MB of logits included.\n",
        LARGE.0, LARGE.1
    );
    let heads = ["method", "MB", "times the logits"].map(str::to_owned);
    page.part("Memory", &before, &heads);
    for method in large_methods(1) {
        let peak = speed::peak_in_own_process(&method, LARGE)?;
        let times = format!("{:.1}×", peak / input);
        page.row(&[method.key().to_owned(), format!("{peak:.0}"), times]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_told_from_vectors() {
        let quadratic = |key: &str| quadratic_in_classes(&Method::from_key(key).unwrap()).unwrap();
        assert!(quadratic("ms-odir"));
        assert!(!quadratic("svs"));
        assert!(!quadratic("ts"));
    }
}

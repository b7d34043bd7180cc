//! `cargo measure kernels`: the hottest loops, each by itself and on one thread.
//!
//! `cargo xtask instructions` runs the same list under callgrind, counts the instructions of each, and compares them with
//! those of `crates/ordercal-bench/instructions.txt`.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use ordercal::metrics::{
    BootstrapOptions, Metric, MetricOptions, Predictions, bootstrap, ece, evaluate,
};
use ordercal::models::{DiagModel, TsModel};
use ordercal::optim::Adam;
use ordercal::{Dataset, InputKind, Method, Model, Oi, Rng, ScoreKind, Svs, kernels};
use ordercal_testkit::rows::overconfident_data;

#[derive(clap::Args)]
pub struct Args {
    /// Only kernels whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run each kernel twice, the second time as the function `measured` for a profiler, and print only the names
    #[arg(long)]
    once: bool,
}

/// A loop with what it is called and how many elements it works on.
struct Kernel {
    name: String,
    elements: usize,
    run: Box<dyn FnMut()>,
}

impl Kernel {
    fn new(name: impl Into<String>, elements: usize, run: impl FnMut() + 'static) -> Self {
        Self {
            name: name.into(),
            elements,
            run: Box::new(run),
        }
    }
}

/// Runs every kernel on one thread and prints the nanoseconds per element, the shortest of many runs.
pub fn run(args: &Args) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.context("no thread can be started")?.install(|| {
        let wanted = |kernel: &Kernel| {
            let part = args.only.as_ref();
            part.is_none_or(|part| kernel.name.contains(part.as_str()))
        };
        for mut kernel in all()?.into_iter().filter(wanted) {
            // The first run allocates buffers that are kept.
            (kernel.run)();
            if args.once {
                measured(&mut *kernel.run);
                println!("{}", kernel.name);
            } else {
                let nanoseconds = 1e9 * shortest(&mut *kernel.run) / kernel.elements as f64;
                println!("{:<34} {nanoseconds:>9.3} ns/element", kernel.name);
            }
        }
        Ok(())
    })
}

/// What a profiler counts. Callgrind finds it by its name.
#[inline(never)]
fn measured(kernel: &mut dyn FnMut()) {
    kernel();
}

/// The seconds of the shortest run in about a fifth of a second.
fn shortest(kernel: &mut dyn FnMut()) -> f64 {
    let begin = Instant::now();
    let mut shortest = f64::INFINITY;
    while begin.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        kernel();
        shortest = shortest.min(start.elapsed().as_secs_f64());
    }
    shortest
}

/// All kernels, small enough for callgrind, which is fifty times as slow as the processor.
fn all() -> Result<Vec<Kernel>> {
    let mut kernels = loops();
    kernels.extend(passes());
    for (rows, classes) in [(2000, 10), (50, 1000)] {
        kernels.extend(applications(rows, classes)?);
    }
    kernels.extend(metrics());
    Ok(kernels)
}

fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    (0..count).map(|_| rng.normal() as f32 * 4.0).collect()
}

/// Loops over a row, and matrix products.
fn loops() -> Vec<Kernel> {
    const CLASSES: usize = 1000;
    let scores = random(1, CLASSES);
    let wide: Vec<f64> = scores.iter().map(|&v| f64::from(v)).collect();
    let mut row = wide.clone();
    let softmax = Kernel::new("softmax, 1000", CLASSES, move || {
        row.copy_from_slice(&wide);
        kernels::softmax(black_box(&mut row));
    });

    let mut sorted = scores.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut z = scores.clone();
    let head = Kernel::new("head of oi, 1000", CLASSES, move || {
        z.copy_from_slice(&scores);
        black_box(kernels::sorted_head(black_box(&mut z), &sorted, 1));
    });

    let (rows, inner, columns) = (128, 1000, 150);
    let (left, right) = (random(2, rows * inner), random(3, inner * columns));
    let mut target = vec![0.0; rows * columns];
    let operations = rows * inner * columns;
    let product = Kernel::new("product, 128×1000×150", operations, move || {
        let size = (rows, inner, columns);
        kernels::multiply(black_box(&mut target), &left, &right, size);
    });
    vec![softmax, head, product]
}

/// Data that live as long as the program, as closures that are kept need them.
fn kept(rows: usize, classes: usize) -> &'static Dataset<'static> {
    Box::leak(Box::new(overconfident_data(rows, classes, 5)))
}

/// One evaluation of a loss with its gradient over all rows, and a short fit of a linear method.
fn passes() -> Vec<Kernel> {
    let (rows, classes) = (500, 100);
    let data = kept(rows, classes);
    let mut ts = kernels::temperature_pass(data);
    let mut diag = kernels::diag_pass(data);
    let svs = Method::from(Svs::default());
    let elements = rows * classes;
    vec![
        Kernel::new("pass of ts, 500×100", elements, move || {
            black_box(ts());
        }),
        Kernel::new("pass of diag, 500×100", elements, move || {
            black_box(diag());
        }),
        Kernel::new("fit of svs, 500×100", elements, move || {
            black_box(svs.fit(data).is_ok());
        }),
    ]
}

/// Models, applied to all rows.
fn applications(rows: usize, classes: usize) -> Result<Vec<Kernel>> {
    let data = kept(rows, classes);
    let slopes = (0..4097).map(|node| 0.5 + 0.1 * f64::from(node % 7));
    let diag = DiagModel::from_slopes(
        classes,
        InputKind::LogSoftmax,
        (-30.0, 0.0),
        slopes.collect(),
    )?;
    let oi = Oi::default()
        .with_hidden([20])
        .with_optimizer(Adam::default().with_epochs(1));
    let few = data.select(&(0..40).collect::<Vec<_>>());
    let models: [(&str, Model); 4] = [
        ("ts", TsModel::new(classes, 0.6)?.into()),
        ("diag", diag.into()),
        ("oi", Method::from(oi).fit(&few)?.model),
        ("svs+order", Method::from_key("svs+order")?.fit(&few)?.model),
    ];
    let kernel = |(name, model): (&str, Model)| {
        let name = format!("apply {name}, {rows}×{classes}");
        Kernel::new(name, rows * classes, move || {
            black_box(model.apply::<f32>(data.scores(), ScoreKind::Probs).is_ok());
        })
    };
    Ok(models.into_iter().map(kernel).collect())
}

/// Metrics of a matrix.
fn metrics() -> Vec<Kernel> {
    let (rows, classes) = (500, 100);
    let data = kept(rows, classes);
    let probs = {
        let mut probs = data.scores().view().mapv(f64::from);
        for mut row in probs.rows_mut() {
            kernels::softmax(row.as_slice_mut().expect("rows are contiguous"));
        }
        probs.mapv(|p| p as f32)
    };
    let options = MetricOptions::default();
    let every = Metric::for_classes(classes);
    let of_probs = {
        let options = options.clone();
        move || {
            let predictions = Predictions::from_probs(probs.view(), data.labels());
            black_box(predictions.and_then(|p| ece(&p, &options)).is_ok());
        }
    };
    let (all_options, all) = (options.clone(), every.clone());
    let of_logits = move || {
        black_box(evaluate(&Predictions::from(data), &all, &all_options).is_ok());
    };
    let resampled = move || {
        let how = BootstrapOptions::default().with_resamples(64);
        black_box(bootstrap(&Predictions::from(data), &every, &options, &how).is_ok());
    };
    let elements = rows * classes;
    vec![
        Kernel::new("ece of probabilities, 500×100", elements, of_probs),
        Kernel::new("all metrics, 500×100", elements, of_logits),
        Kernel::new("bootstrap of all, 64 of 500×100", elements, resampled),
    ]
}

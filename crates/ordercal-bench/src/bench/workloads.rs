//! The workloads: our side of each, its peers, and the ratios to reach.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use ndarray::{Array2, s};
use ordercal::metrics::{MetricOptions, Predictions, ece, marginal_ce, nll};
use ordercal::optim::Adam;
use ordercal::{
    Auto, Dataset, Diag, DirOdir, Isotonic, Method, Model, MsOdir, Oi, Op, Progress, ScoreKind,
    Sms, Svs, Ts, kernels,
};

use super::data::{Set, Truth};
use super::peers::Server;

/// One run of our side, or of a peer's.
pub struct Run {
    pub seconds: f64,
    /// The NLL that a fit reached, or the value of a metric; NaN if there is none.
    pub result: f64,
}

/// A ratio to reach: a peer's time over ours.
#[derive(Clone, Copy)]
pub struct Goal {
    pub ratio: f64,
    /// Whether our result must not be more than 0.1% above the peer's, too.
    pub same_result: bool,
}

/// From where our side is called.
#[derive(Clone, Copy)]
pub enum Caller {
    /// An inner loop of the library, alone.
    Kernel,
    /// A function of the library.
    Library,
    /// A public call of the Python package, with conversion and checks.
    Python,
    /// A whole command of the tool.
    Command,
}

/// Work that ordercal and its peers do.
pub struct Workload {
    pub caller: Caller,
    pub name: &'static str,
    /// Rows and classes.
    pub size: (usize, usize),
    /// Names of the peers' workloads, each with the ratio to reach, if one is set.
    pub peers: Vec<(&'static str, Option<Goal>)>,
    /// The most seconds that our side may take.
    pub within: Option<f64>,
    /// What the labels follow.
    pub truth: Truth,
    /// Whether it is too long to be measured more than once.
    pub once: bool,
    ours: Ours,
}

/// Our side of it.
pub enum Ours {
    Here(OurRun),
    /// The name of a call of `benchmarks/calls.py`.
    Python(&'static str),
}

pub type OurRun = Box<dyn Fn(&Set) -> Result<Run> + Send + Sync>;

impl Workload {
    fn new(name: &'static str, size: (usize, usize), ours: OurRun) -> Self {
        Self::of(Caller::Library, name, size, Ours::Here(ours))
    }

    pub fn of(caller: Caller, name: &'static str, size: (usize, usize), ours: Ours) -> Self {
        Self {
            caller,
            name,
            size,
            peers: Vec::new(),
            within: None,
            truth: Truth::Temperature,
            once: false,
            ours,
        }
    }

    fn on(mut self, truth: Truth) -> Self {
        self.truth = truth;
        self
    }

    fn once(mut self) -> Self {
        self.once = true;
        self
    }

    fn at_same_nll(mut self, peer: &'static str, ratio: f64) -> Self {
        let same_result = true;
        self.peers.push((peer, Some(Goal { ratio, same_result })));
        self
    }

    pub fn against(mut self, peer: &'static str, ratio: f64) -> Self {
        let same_result = false;
        self.peers.push((peer, Some(Goal { ratio, same_result })));
        self
    }

    pub fn beside(mut self, peer: &'static str) -> Self {
        self.peers.push((peer, None));
        self
    }

    pub fn within(mut self, seconds: f64) -> Self {
        self.within = Some(seconds);
        self
    }

    /// Whether our side needs Python.
    pub fn needs_python(&self) -> bool {
        matches!(self.ours, Ours::Python(_))
    }

    /// Runs our side once.
    pub fn run(&self, set: &Set, python: Option<&mut Server>) -> Result<Run> {
        match &self.ours {
            Ours::Here(run) => run(set),
            Ours::Python(call) => {
                let python = python.context("calls of Python need --peers")?;
                python.run(call, &set.folder, true)
            }
        }
    }
}

const SMALL: (usize, usize) = (5000, 10);
const MIDDLE: (usize, usize) = (5000, 100);
pub const LARGE: (usize, usize) = (25_000, 1000);
pub const LONG: (usize, usize) = (1_000_000, 10);
const WIDE: (usize, usize) = (100_000, 100);
/// Rows of 1000 classes that are transformed on one core.
const APPLIED: (usize, usize) = (4096, 1000);

/// Everything that is measured on generated data.
pub fn all() -> Vec<Workload> {
    let rows = APPLIED.0 as f64;
    vec![
        Workload::new("fit ts", SMALL, fit(Ts::default()))
            .against("torch-ts", 20.0)
            .beside("sklearn-ts")
            .beside("netcal-ts"),
        Workload::new("fit ts", LARGE, fit(Ts::default()))
            .against("torch-ts", 15.0)
            .against("probmetrics-ts", 60.0),
        Workload::new("fit oi 10,10, 40 epochs", SMALL, fit(oi(10))).against("torch-oi-10", 30.0),
        Workload::new("fit oi 100,100, 40 epochs", MIDDLE, fit(oi(100))).beside("torch-oi-100"),
        Workload::new("epoch of oi 150,150", LARGE, epoch(oi)).beside("torch-oi-epoch"),
        Workload::new("epoch of op 150,150", LARGE, epoch(op)).beside("torch-op-epoch"),
        Workload::of(
            Caller::Kernel,
            "diag, loss and gradient",
            MIDDLE,
            Ours::Here(Box::new(diag_pass)),
        )
        .against("torch-diag-pass", 3000.0),
        Workload::new("fit diag", LARGE, fit(Diag::default())).within(20.0),
        Workload::new("fit svs", LARGE, fit(Svs::default())).against("probmetrics-svs", 8.0),
        Workload::new("fit sms", MIDDLE, fit(Sms::default())).against("probmetrics-sms", 2.0),
        Workload::new("fit sms", LARGE, fit(Sms::default()))
            .within(6.0)
            .once(),
        Workload::new("fit ms-odir", LARGE, fit(MsOdir::default()))
            .within(20.0)
            .once(),
        Workload::new("fit dir-odir", LARGE, fit(DirOdir::default()))
            .within(20.0)
            .once(),
        Workload::new("fit isotonic", MIDDLE, fit(Isotonic::default())).beside("sklearn-isotonic"),
        Workload::new("marginal_ce of probabilities", LARGE, metric(marginal_ce))
            .against("uncertainty-calibration-marginal", 50.0),
        Workload::new("ece of probabilities", LARGE, metric(ece))
            .against("torchmetrics-ece", 2.0)
            .beside("netcal-ece"),
        Workload::new("ts to probabilities", LONG, apply(Ts::default()))
            .against("numpy-softmax", 6.0),
        Workload::new("diag to probabilities", LONG, apply(Diag::default()))
            .against("numpy-softmax", 4.0),
        // Where a temperature is the true map, auto may find just that.
        Workload::new("auto to probabilities", LONG, apply(Auto::default()))
            .on(Truth::Curved)
            .beside("numpy-softmax"),
        Workload::new("ts to probabilities", WIDE, apply(Ts::default()))
            .on(Truth::Curved)
            .beside("numpy-softmax"),
        Workload::new("auto to probabilities", WIDE, apply(Auto::default()))
            .on(Truth::Curved)
            .beside("numpy-softmax"),
        Workload::new("ts to probabilities", LARGE, apply(Ts::default()))
            .on(Truth::Curved)
            .beside("numpy-softmax"),
        Workload::new("auto to probabilities", LARGE, apply(Auto::default()))
            .on(Truth::Curved)
            .beside("numpy-softmax"),
        Workload::new(
            "ts to probabilities, one core",
            APPLIED,
            on_one_core(Ts::default()),
        )
        .within(1.5e-6 * rows),
        Workload::new(
            "diag to probabilities, one core",
            APPLIED,
            on_one_core(Diag::default()),
        )
        .within(2.2e-6 * rows),
        Workload::new("ts, row by row", SMALL, row_by_row(Ts::default()))
            .within(2e-6 * SMALL.0 as f64),
        Workload::new("ts, row by row", APPLIED, row_by_row(Ts::default())).within(2e-6 * rows),
        Workload::new(
            "oi 150,150 to probabilities, one core",
            APPLIED,
            on_one_core(oi(150).with_optimizer(adam().with_epochs(1))),
        )
        .within(40e-6 * rows),
        Workload::new("fit auto", MIDDLE, fit(Auto::default())).within(20.0),
        // PyTorch trains for the paper's 40 epochs; ours is the method as it is by default. On rows whose true map is a
        // temperature there would be nothing to learn beyond the start.
        Workload::new("fit oi to the same NLL", MIDDLE, to_same_nll(Oi::default()))
            .on(Truth::Curved)
            .at_same_nll("torch-oi-100-held-out", 8.0),
        Workload::new("fit oi to the same NLL", LARGE, to_same_nll(Oi::default()))
            .on(Truth::Curved)
            .at_same_nll("torch-oi-150-held-out", 10.0)
            .once(),
        Workload::new("fit op to the same NLL", LARGE, to_same_nll(Op::default()))
            .on(Truth::Curved)
            .at_same_nll("torch-op-150-held-out", 10.0)
            .once(),
    ]
}

fn adam() -> Adam {
    Adam::default().with_learning_rate(1e-3)
}

/// The paper's settings, which the PyTorch side has, too: it reads all scores.
fn oi(units: usize) -> Oi {
    let mut oi = Oi::default()
        .with_hidden([units, units])
        .with_lambda(5e-4)
        .with_optimizer(adam());
    oi.top = None;
    oi
}

fn op(units: usize) -> Op {
    let mut op = Op::default()
        .with_hidden([units, units])
        .with_lambda(5e-4)
        .with_optimizer(adam());
    op.top = None;
    op
}

pub fn timed<T>(run: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let begin = Instant::now();
    let found = run()?;
    Ok((begin.elapsed().as_secs_f64(), found))
}

/// A complete fit to validated scores.
fn fit(method: impl Into<Method>) -> OurRun {
    let method = method.into();
    Box::new(move |set| {
        let (seconds, fitted) = timed(|| Ok(method.fit(&set.data)?))?;
        let result = fitted.report.nll_after;
        Ok(Run { seconds, result })
    })
}

/// The same, judged on held-out rows.
fn to_same_nll(method: impl Into<Method>) -> OurRun {
    let method = method.into();
    Box::new(move |set| {
        let (seconds, fitted) = timed(|| Ok(method.fit(&set.data)?))?;
        let held_out = set.held_out.as_ref().context("no held-out rows")?;
        let probs = fitted
            .model
            .apply::<f64>(held_out.scores(), ScoreKind::Probs)?;
        let predictions = Predictions::from_probs(probs.view(), held_out.labels())?;
        let result = nll(&predictions, &MetricOptions::default())?;
        Ok(Run { seconds, result })
    })
}

/// The mean time of an epoch, without setup and evaluation.
fn epoch<M: Into<Method>>(method: fn(usize) -> M) -> OurRun {
    const EPOCHS: usize = 3;
    const UNITS: usize = 150;
    let mut method: Method = method(UNITS).into();
    match &mut method {
        Method::Oi(m) => m.optimizer = adam().with_epochs(EPOCHS).into(),
        Method::Op(m) => m.optimizer = adam().with_epochs(EPOCHS).into(),
        _ => unreachable!("a network"),
    }
    Box::new(move |set| {
        let times = Mutex::new(Vec::new());
        let watch = |_: &Progress| {
            times.lock().expect("nobody panicked").push(Instant::now());
            ControlFlow::Continue(())
        };
        let fitted = method.fit_watched(&set.data, &watch)?;
        let times = times.into_inner().expect("nobody panicked");
        let (first, last) = (times[0], times[times.len() - 1]);
        Ok(Run {
            seconds: (last - first).as_secs_f64() / (times.len() - 1) as f64,
            result: fitted.report.nll_after,
        })
    })
}

fn diag_pass(set: &Set) -> Result<Run> {
    const PASSES: usize = 20;
    let mut pass = kernels::diag_pass(&set.data);
    let (seconds, loss) = timed(|| Ok((0..PASSES).map(|_| pass()).fold(0.0, f64::max)))?;
    Ok(Run {
        seconds: seconds / PASSES as f64,
        result: loss,
    })
}

type MetricFunction = fn(&Predictions<'_>, &MetricOptions) -> ordercal::Result<f64>;

/// A metric of a matrix of probabilities, validation included.
fn metric(function: MetricFunction) -> OurRun {
    Box::new(move |set| {
        let (seconds, result) = timed(|| {
            let predictions = Predictions::from_probs(set.probs.view(), set.data.labels())?;
            Ok(function(&predictions, &MetricOptions::default())?)
        })?;
        Ok(Run { seconds, result })
    })
}

fn fitted(method: &Method, data: &Dataset<'_>) -> Result<Model> {
    let some: Vec<usize> = (0..data.rows().min(5000)).collect();
    Ok(method.fit(&data.select(&some))?.model)
}

/// 32-bit probabilities of every row, validation of the scores included.
fn apply(method: impl Into<Method>) -> OurRun {
    let method = method.into();
    let known = Mutex::new(None);
    Box::new(move |set| {
        let mut known = known.lock().expect("nobody panicked");
        let model = match &mut *known {
            Some(model) => model,
            none => none.insert(fitted(&method, &set.data)?),
        };
        let (seconds, probs) = timed(|| {
            let scores = ordercal::Scores::new(ScoreKind::Logits, set.data.scores().view())?;
            Ok(model.apply::<f32>(&scores, ScoreKind::Probs)?)
        })?;
        let at_label = |(row, &label): (usize, &u32)| -f64::from(probs[[row, label as usize]]).ln();
        let labels = set.data.labels().iter().enumerate();
        Ok(Run {
            seconds,
            result: labels.map(at_label).sum::<f64>() / set.data.rows() as f64,
        })
    })
}

/// The same for one row after the other, as a service gets them.
fn row_by_row(method: impl Into<Method>) -> OurRun {
    let method = method.into();
    Box::new(move |set| {
        let model = fitted(&method, &set.data)?;
        let (rows, classes) = (set.data.rows(), set.data.classes());
        let mut probs = Array2::<f32>::zeros((1, classes));
        let mut sum = 0.0;
        let (seconds, ()) = timed(|| {
            for row in 0..rows {
                let scores = set.data.scores().view();
                let scores = scores.slice_move(s![row..=row, ..]);
                let scores = ordercal::Scores::new(ScoreKind::Logits, scores)?;
                model.apply_into(&scores, ScoreKind::Probs, probs.view_mut())?;
                sum -= f64::from(probs[[0, set.data.labels()[row] as usize]]).ln();
            }
            Ok(())
        })?;
        Ok(Run {
            seconds,
            result: sum / rows as f64,
        })
    })
}

fn on_one_core(method: impl Into<Method>) -> OurRun {
    let run = apply(method);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.expect("a thread can be had");
    Box::new(move |set| pool.install(|| run(set)))
}

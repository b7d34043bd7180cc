//! Which candidates there are: by how much work is wanted, and by what so many rows and classes can carry.

use serde::{Deserialize, Serialize};

use crate::methods::kernel::Kernel;
use crate::methods::listed::{Diag, Ets, Oi, Op, Sms, Svs, Ts, Uncalibrated};
use crate::methods::{Calibrator, Estimate};

/// How much work `auto` may do. It is counted in candidates and folds, not in seconds, so that the result is the same
/// on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum AutoEffort {
    /// The few candidates that matter most, on three folds: about a seventh of the work.
    Quick,
    /// What pays for itself.
    #[default]
    Standard,
    /// More networks and more strengths of every penalty: about twice the work for a little more.
    Thorough,
}

/// One that may get a share.
pub(super) struct Candidate {
    pub(super) name: String,
    /// The candidate whose output on held-out rows it reads; without one it reads the scores.
    pub(super) reads: Option<usize>,
    pub(super) method: Box<dyn Calibrator>,
    pub(super) cost: Cost,
}

/// What a candidate costs, on one thread.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    /// Microseconds of a fit per row, `a + b·K + c·K²` for K classes. `cargo measure speed` compares what follows from it
    /// with what a fit took.
    fit: (f64, f64, f64),
    /// Nanoseconds per score that applying its model takes.
    pub(super) applied: f64,
}

impl Cost {
    const SCALING: Self = Self::new((1.0, 0.02, 0.0), 1.0);
    const DIAG: Self = Self::new((9.0, 0.2, 0.0), 2.0);
    const SMALL_NETWORK: Self = Self::new((2.0, 0.1, 0.0), 3.0);
    const NETWORK: Self = Self::new((10.0, 0.35, 0.0), 5.0);
    const MATRIX: Self = Self::new((3.0, 0.0, 0.004), 2.0);
    const KERNEL: Self = Self::new((10.0, 0.9, 0.0), 8.0);

    const fn new(fit: (f64, f64, f64), applied: f64) -> Self {
        Self { fit, applied }
    }

    fn per_row(self, classes: f64) -> f64 {
        self.fit.0 + self.fit.1 * classes + self.fit.2 * classes * classes
    }
}

/// Microseconds per score to mix and to project what was fitted.
const MIXING: f64 = 0.5;
/// Copies of the scores beside those of the folds.
const COPIES: f64 = 7.0;
/// Bytes per row that a kernel takes on each thread.
const KERNEL_BYTES: f64 = 1600.0;
/// What is needed for the smallest data.
const LEAST_BYTES: f64 = 5e6;

/// What is fitted, and on how many folds.
pub(super) struct Plan {
    pub(super) candidates: Vec<Candidate>,
    pub(super) folds: usize,
    size: (usize, usize),
}

/// The place of `ts`, which every plan has behind the scores as they are.
pub(super) const TS: usize = 1;

/// With more classes than this a matrix of classes × classes is not worth its time.
const MOST_FOR_MATRICES: usize = 250;
/// With more classes than this, distances between probabilities say little.
const MOST_FOR_KERNELS: usize = 500;
/// How many of the largest scores networks read one by one. More are slower and a little worse (docs/auto.md).
const TOP: usize = 16;
/// From so many classes on, weaker penalties are better: there are so few rows per class that theirs grow large.
const MANY: usize = 50;
/// Fewer rows than this are dealt out to more folds, more than this to fewer.
const FEW_ROWS: usize = 2000;
const MANY_ROWS: usize = 20_000;
/// A network that reads classes has too many weights for fewer rows than this: by chance it looks better than it is.
const FEWEST_FOR_CLASSES: usize = 1000;
/// From so many scores on three folds have to do.
const MANY_SCORES: usize = 4_000_000;

/// The strengths of the linear maps and kernels of one source.
struct Strengths {
    vectors: &'static [f64],
    matrices: &'static [f64],
    kernels: &'static [f64],
}

impl Plan {
    pub(super) fn new(
        (rows, classes): (usize, usize),
        effort: AutoEffort,
        chains: bool,
        seed: u64,
    ) -> Self {
        let many = classes >= MANY;
        let quick = effort == AutoEffort::Quick;
        let folds = if rows >= MANY_ROWS || rows * classes >= MANY_SCORES || quick {
            3
        } else if rows < FEW_ROWS && !many {
            10
        } else {
            5
        };
        let mut plan = Self {
            candidates: Vec::new(),
            folds,
            size: (rows, classes),
        };
        let oi = |units: usize| {
            let oi = Oi::default().with_hidden([units]).with_top(TOP);
            oi.with_seed(seed)
        };
        let op = |units: usize| {
            let op = Op::default().with_hidden([units]).with_top(TOP);
            op.with_seed(seed)
        };
        plan.add("uncalibrated", None, Uncalibrated::default(), Cost::SCALING);
        plan.add("ts", None, Ts::default(), Cost::SCALING);
        plan.add("ets", None, Ets::default(), Cost::SCALING);
        // In a hurry, one that knows how to correct confidence has to do.
        let diag = Diag::default().with_seed(seed);
        let diag = (!quick).then(|| plan.add("diag", None, diag, Cost::DIAG));
        let small = Some(plan.add("oi (20)", None, oi(20), Cost::SMALL_NETWORK));
        if effort == AutoEffort::Thorough {
            plan.add("oi (100)", None, oi(100), Cost::NETWORK);
        }
        if rows >= FEWEST_FOR_CLASSES && classes <= MOST_FOR_KERNELS && !quick {
            plan.add("op (100)", None, op(100), Cost::NETWORK);
            if effort == AutoEffort::Thorough {
                plan.add("op (20)", None, op(20), Cost::NETWORK);
            }
        }
        let own = match (effort, many) {
            (AutoEffort::Quick, _) => Strengths::new(&[0.1], &[], &[]),
            (AutoEffort::Standard, false) => Strengths::new(&[0.1], &[1.0, 0.3], &[]),
            (AutoEffort::Standard, true) => Strengths::new(&[0.1], &[0.1, 0.01], &[]),
            (AutoEffort::Thorough, false) => Strengths::new(&[1.0, 0.1], &[3.0, 1.0, 0.3], &[1.0]),
            (AutoEffort::Thorough, true) => {
                Strengths::new(&[1.0, 0.1], &[1.0, 0.1, 0.03, 0.01], &[0.3])
            }
        };
        plan.add_second(None, &own, classes, seed);
        if !chains {
            return plan;
        }
        for source in [diag, small].into_iter().flatten() {
            let behind = match (effort, many) {
                (AutoEffort::Quick, false) => Strengths::new(&[], &[0.3], &[1.0]),
                (AutoEffort::Quick, true) => Strengths::new(&[0.1], &[0.1], &[]),
                (AutoEffort::Standard, false) => Strengths::new(&[0.1], &[1.0, 0.3], &[1.0, 0.3]),
                (AutoEffort::Standard, true) => Strengths::new(&[0.1], &[0.1], &[0.3]),
                (AutoEffort::Thorough, false) => {
                    Strengths::new(&[1.0, 0.1], &[1.0, 0.3], &[3.0, 1.0, 0.3])
                }
                (AutoEffort::Thorough, true) => {
                    Strengths::new(&[1.0, 0.1], &[1.0, 0.1], &[1.0, 0.3, 0.1])
                }
            };
            plan.add_second(Some(source), &behind, classes, seed);
        }
        plan
    }

    fn add(
        &mut self,
        name: &str,
        reads: Option<usize>,
        method: impl Calibrator + 'static,
        cost: Cost,
    ) -> usize {
        let name = match reads {
            None => name.to_owned(),
            Some(source) => format!("{} followed by {name}", self.candidates[source].name),
        };
        self.candidates.push(Candidate {
            name,
            reads,
            method: Box::new(method),
            cost,
        });
        self.candidates.len() - 1
    }

    /// How many folds are worked on at once: where the data are large, their copies would take too much memory.
    pub(super) fn folds_at_once(&self) -> usize {
        let (rows, classes) = self.size;
        if rows * classes < MANY_SCORES {
            self.folds
        } else {
            1
        }
    }

    /// What a fit by this plan is going to take on so many threads.
    pub(super) fn estimate(&self, threads: usize) -> Estimate {
        let (rows, classes) = (self.size.0 as f64, self.size.1 as f64);
        let fits: f64 = self
            .candidates
            .iter()
            .map(|candidate| candidate.cost.per_row(classes))
            .sum();
        // Every fold leaves out a part, and what gets a share is fitted once more: as if every fold had all rows.
        let microseconds = rows * (self.folds as f64 * fits + MIXING * classes);
        let read = |place: usize| self.candidates.iter().any(|c| c.reads == Some(place));
        let outputs = (0..self.candidates.len())
            .filter(|&place| read(place))
            .count();
        let copies = (self.folds_at_once() + outputs) as f64 + COPIES;
        let kernels = self
            .candidates
            .iter()
            .any(|c| c.cost.fit == Cost::KERNEL.fit);
        let kernel_bytes = if kernels {
            KERNEL_BYTES * rows * threads as f64
        } else {
            0.0
        };
        Estimate {
            seconds: microseconds * 1e-6 / threads as f64,
            bytes: LEAST_BYTES + 4.0 * rows * classes * copies + kernel_bytes,
        }
    }

    /// Maps that tell classes apart, as far as there are not too many classes.
    fn add_second(
        &mut self,
        reads: Option<usize>,
        strengths: &Strengths,
        classes: usize,
        seed: u64,
    ) {
        for &lambda in strengths.vectors {
            let svs = Svs::default().with_lambda(lambda);
            self.add(&format!("svs ({lambda})"), reads, svs, Cost::SCALING);
        }
        if classes <= MOST_FOR_MATRICES {
            for &lambda in strengths.matrices {
                let sms = Sms::default().with_lambda(lambda);
                self.add(&format!("sms ({lambda})"), reads, sms, Cost::MATRIX);
            }
        }
        if classes <= MOST_FOR_KERNELS {
            for &lambda in strengths.kernels {
                let kernel = Kernel {
                    lambda,
                    seed,
                    ..Kernel::default()
                };
                self.add(&format!("kernel ({lambda})"), reads, kernel, Cost::KERNEL);
            }
        }
    }
}

impl Strengths {
    fn new(vectors: &'static [f64], matrices: &'static [f64], kernels: &'static [f64]) -> Self {
        Self {
            vectors,
            matrices,
            kernels,
        }
    }
}

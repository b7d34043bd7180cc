//! Which candidates there are: by how much work is wanted, and by what so many rows and classes can carry.

use serde::{Deserialize, Serialize};

use crate::methods::Calibrator;
use crate::methods::kernel::Kernel;
use crate::methods::listed::{Diag, Ets, Oi, Op, Sms, Svs, Ts, Uncalibrated};

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
}

/// What is fitted, and on how many folds.
pub(super) struct Plan {
    pub(super) candidates: Vec<Candidate>,
    pub(super) folds: usize,
}

/// The place of `ts`, which every plan has behind the scores as they are.
pub(super) const TS: usize = 1;

/// With more classes than this a matrix of classes × classes is not worth its time.
const MOST_FOR_MATRICES: usize = 250;
/// With more classes than this, distances between probabilities say little.
const MOST_FOR_KERNELS: usize = 500;
/// With more classes than this, a network that reads all scores has more weights than there is to learn.
const MOST_FOR_NETWORKS: usize = 2000;
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
        };
        let oi = |units: usize| Oi::default().with_hidden(&[units]).with_seed(seed);
        let op = |units: usize| Op::default().with_hidden(&[units]).with_seed(seed);
        let networks = classes <= MOST_FOR_NETWORKS;
        plan.add("uncalibrated", None, Uncalibrated::default());
        plan.add("ts", None, Ts::default());
        plan.add("ets", None, Ets::default());
        // In a hurry, one that knows how to correct confidence has to do.
        let diag =
            (!quick || !networks).then(|| plan.add("diag", None, Diag::default().with_seed(seed)));
        let small = networks.then(|| plan.add("oi (20)", None, oi(20)));
        if networks && effort == AutoEffort::Thorough {
            plan.add("oi (100)", None, oi(100));
        }
        if rows >= FEWEST_FOR_CLASSES && classes <= MOST_FOR_KERNELS && !quick {
            plan.add("op (100)", None, op(100));
            if effort == AutoEffort::Thorough {
                plan.add("op (20)", None, op(20));
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
    ) -> usize {
        let name = match reads {
            None => name.to_owned(),
            Some(source) => format!("{} followed by {name}", self.candidates[source].name),
        };
        self.candidates.push(Candidate {
            name,
            reads,
            method: Box::new(method),
        });
        self.candidates.len() - 1
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
            self.add(&format!("svs ({lambda})"), reads, svs);
        }
        if classes <= MOST_FOR_MATRICES {
            for &lambda in strengths.matrices {
                let sms = Sms::default().with_lambda(lambda);
                self.add(&format!("sms ({lambda})"), reads, sms);
            }
        }
        if classes <= MOST_FOR_KERNELS {
            for &lambda in strengths.kernels {
                let kernel = Kernel {
                    lambda,
                    seed,
                    ..Kernel::default()
                };
                self.add(&format!("kernel ({lambda})"), reads, kernel);
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

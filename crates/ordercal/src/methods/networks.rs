//! The hyperparameters and the fit of `oi`, `op` and `unconstrained`, which differ in the wiring of their network.

use std::fmt;
use std::marker::PhantomData;

use derive_setters::Setters;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, FitReport, Fitted, check_non_negative};
use crate::models::{InputReader, NetworkModel, Wiring, check_hidden};
use crate::nn::input::{InputKind, Inputs};
use crate::nn::loss::{FreeTargets, Head, NetworkLoss, SortedTargets};
use crate::nn::mlp::Shape;
use crate::nn::train::train;
use crate::optim::{Adam, EarlyStopping, Optimizer};
use crate::rank::Sorter;
use crate::watch::{Unwatched, Watch};

/// A network family: the differences between `oi`, `op` and `unconstrained`.
pub trait Family: fmt::Debug + Clone + PartialEq + Default + Send + Sync + 'static {
    /// The inputs of the network and the meaning of its outputs.
    const WIRING: Wiring;
    /// What the method learns, in a few words.
    const BRIEF: &'static str;
    /// The name of the method's class in Python.
    const PYTHON_CLASS: &'static str;

    /// The family's default hyperparameters.
    fn defaults() -> Network<Self>;
}

/// The hyperparameters of a network method: [`Oi`](crate::Oi), [`Op`](crate::Op) or
/// [`Unconstrained`](crate::Unconstrained), each with its own defaults.
///
/// The fit minimises the weighted mean NLL + λ/2 ‖θ‖² over the parameters θ of a multi-layer perceptron with K inputs and K
/// outputs. It starts at temperature scaling, and is reproducible for a given seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields, bound = "")]
#[non_exhaustive]
#[setters(prefix = "with_", strip_option, generate_private = false)]
pub struct Network<F: Family> {
    /// The number of units of each hidden layer.
    #[setters(into)]
    pub hidden: Vec<usize>,
    /// λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.
    pub lambda: f64,
    /// The shift that is subtracted from a row before it enters the network.
    pub input: InputKind,
    /// Read only so many of the largest scores and the log-sum-exp of the rest, whose gaps share one multiplier (`oi`,
    /// `op`). `None`, or at least the number of classes less one, to read all scores.
    pub top: Option<usize>,
    /// The optimiser and its settings.
    #[setters(into)]
    pub optimizer: Optimizer,
    /// Early stopping by the loss on held-out rows; `None` to train on all rows to the end.
    pub early_stopping: Option<EarlyStopping>,
    /// The seed of the initial weights, the mini-batches and the held-out rows.
    pub seed: u64,
    #[serde(skip)]
    pub(crate) family: PhantomData<F>,
}

impl<F: Family> Default for Network<F> {
    fn default() -> Self {
        F::defaults()
    }
}

/// The default optimiser: 40 passes, but of more than 10,000 rows only as many as take 1600 steps.
///
/// On the two real sets with clearly more rows (12,500 and 30,596, of 2 and 5 classes), 1600 steps reach the test NLL of
/// 40 passes to within 0.0001. On 10,108 rows, half the steps lose up to 0.9%.
pub(crate) fn adam() -> Adam {
    Adam::default()
        .with_learning_rate(5e-3)
        .with_max_steps(1600)
}

impl<F: Family> Calibrator for Network<F> {
    fn validate(&self) -> Result<()> {
        check_hidden(&self.hidden)?;
        check_non_negative("lambda", self.lambda)?;
        if F::WIRING == Wiring::ClassesToLogits && self.top.is_some() {
            return Err(Error::invalid(
                "top",
                "a number",
                "none: only oi and op sort scores",
            ));
        }
        if self.top == Some(0) {
            return Err(Error::invalid("top", 0, "at least 1 score"));
        }
        self.optimizer.validate()?;
        self.early_stopping
            .as_ref()
            .map_or(Ok(()), EarlyStopping::validate)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        if self.early_stopping.is_some() && data.has_groups() {
            return Err(Error::invalid(
                "early_stopping",
                "set",
                "none: its held-out rows are drawn one by one, which would divide groups and soft labels",
            ));
        }
        let (beta, start) = fit_beta(data, &Unwatched)?;
        let sorted = SortedData::new(data);
        let classes = data.classes();
        let reader = InputReader {
            wiring: F::WIRING,
            // Otherwise the whole row is read.
            top: self.top.filter(|top| top + 1 < classes),
            inputs: sorted.learn_inputs(self.input, classes),
        };
        let shape = reader.shape(classes, &self.hidden);
        let loss = sorted.into_loss(data, &reader, shape.clone(), beta);
        let trained = train(
            &loss,
            &self.optimizer,
            self.lambda,
            self.early_stopping.as_ref(),
            self.seed,
            watch,
        )?;
        let model = NetworkModel {
            reader,
            classes,
            shape,
            beta,
            params: trained.params,
        };
        let report = FitReport {
            iterations: trained.iterations,
            evaluations: trained.evaluations,
            loss: trained.loss,
            ..FitReport::new(start.nll_before, trained.nll, trained.stop)
        };
        Ok(Fitted {
            model: model.into(),
            report,
        })
    }
}

/// The paper's search space: widths of hidden layers for up to 100 classes.
const WIDTHS: [usize; 7] = [1, 2, 10, 20, 50, 100, 150];
/// The paper's search space: widths of hidden layers for more than 100 classes.
const WIDTHS_OF_MANY_CLASSES: [usize; 7] = [2, 10, 20, 50, 100, 150, 500];
/// The paper's search space: numbers of hidden layers.
const DEPTHS: [usize; 3] = [1, 2, 3];
/// The weights of the L2 penalty that a search tries. The penalty shrinks a network to temperature scaling.
const LAMBDAS: [f64; 3] = [1e-4, 1e-3, 1e-2];

/// The hidden layers that a search tries: 1 to 3 layers of equal width.
pub(crate) fn layers(classes: usize) -> impl Iterator<Item = Vec<usize>> {
    let widths = if classes > 100 {
        WIDTHS_OF_MANY_CLASSES
    } else {
        WIDTHS
    };
    DEPTHS
        .into_iter()
        .flat_map(move |depth| widths.map(|width| vec![width; depth]))
}

impl<F: Family> Describe for Network<F> {
    const BRIEF: &'static str = F::BRIEF;
    const PYTHON_CLASS: &'static str = F::PYTHON_CLASS;
    const READS_LOGARITHMS: bool = true;
    // Adam uses mini-batches.
    const FULL_BATCH: bool = false;

    fn space(&self, classes: usize) -> Vec<Self> {
        let settings =
            layers(classes).flat_map(|hidden| LAMBDAS.map(|lambda| (hidden.clone(), lambda)));
        let candidate = |(hidden, lambda): (Vec<usize>, f64)| {
            self.clone().with_hidden(hidden).with_lambda(lambda)
        };
        settings.map(candidate).collect()
    }

    fn cheaper(&self) -> Self {
        let mut cheap = self.clone();
        match &mut cheap.optimizer {
            Optimizer::Adam(adam) => adam.epochs = adam.epochs.min(3),
            Optimizer::Lbfgs(lbfgs) => lbfgs.max_iterations = lbfgs.max_iterations.min(10),
        }
        cheap
    }
}

/// The data with each row sorted in descending order, computed once per fit.
struct SortedData {
    /// Sorted scores, N×K. Masked classes are last.
    sorted: Vec<f32>,
    /// The sorted classes of each row, N×K.
    order: Vec<u32>,
    /// The number of unmasked classes of each row.
    unmasked: Vec<u32>,
}

impl SortedData {
    fn new(data: &Dataset<'_>) -> Self {
        let classes = data.classes();
        let scores = data.scores().as_slice();
        let mut sorted = vec![0.0_f32; scores.len()];
        let mut order = vec![0_u32; scores.len()];
        let rows = sorted
            .par_chunks_mut(classes)
            .zip(order.par_chunks_mut(classes))
            .zip(scores.par_chunks(classes));
        rows.for_each_init(
            || Sorter::new(classes),
            |sorter, ((sorted, order), scores)| {
                order.copy_from_slice(sorter.sort(scores));
                for (sorted, &class) in sorted.iter_mut().zip(&*order) {
                    *sorted = scores[class as usize];
                }
            },
        );
        let unmasked = sorted
            .chunks_exact(classes)
            .map(|y| y.partition_point(|&s| s > f32::NEG_INFINITY) as u32)
            .collect();
        Self {
            sorted,
            order,
            unmasked,
        }
    }

    fn learn_inputs(&self, kind: InputKind, classes: usize) -> Inputs {
        let rows = self.sorted.chunks_exact(classes).zip(&self.unmasked);
        Inputs::learn(kind, rows.map(|(y, &n)| &y[..n as usize]))
    }

    /// The loss of a network that reads the rows in this way.
    fn into_loss(
        mut self,
        data: &Dataset<'_>,
        reader: &InputReader,
        shape: Shape,
        beta: f64,
    ) -> NetworkLoss {
        let classes = data.classes();
        let mean_weight = data.total_weight() / data.rows() as f64;
        let weights = data
            .weights()
            .map(|w| w.iter().map(|w| w / mean_weight).collect());
        // A network that reads all sorted scores shares them with the head.
        let shared = reader.wiring == Wiring::SortedToGaps && reader.top.is_none();
        let mut inputs = Vec::new();
        if !shared {
            inputs = vec![0.0_f32; data.rows() * shape.inputs()];
            inputs
                .par_chunks_mut(shape.inputs())
                .zip(data.scores().as_slice().par_chunks(classes))
                .zip(self.sorted.par_chunks(classes).zip(&self.unmasked))
                .for_each(|((inputs, scores), (sorted, &n))| {
                    reader.read(scores, &sorted[..n as usize], inputs);
                });
        }
        let head = if reader.wiring == Wiring::ClassesToLogits {
            Head::Free(FreeTargets {
                scores: data.scores().as_slice().to_vec(),
                labels: data.labels().to_vec(),
            })
        } else {
            self.scale_as_inputs(&reader.inputs, classes);
            let rows = self.order.chunks_exact(classes).zip(data.labels());
            let rank = |(order, label): (&[u32], &u32)| order.iter().position(|c| c == label);
            let label_ranks = rows
                .map(|row| rank(row).expect("every label is a class") as u32)
                .collect();
            let sorted = if shared {
                inputs = self.sorted;
                None
            } else {
                Some(self.sorted)
            };
            Head::Sorted(SortedTargets {
                sorted,
                unit: (reader.inputs.scale * beta) as f32,
                label_ranks,
                possible: self.unmasked,
            })
        };
        NetworkLoss {
            shape,
            inputs,
            classes,
            head,
            weights,
        }
    }

    /// Brings the sorted scores into the units and the range of the inputs; masked classes get the smallest of their row.
    fn scale_as_inputs(&mut self, inputs: &Inputs, classes: usize) {
        self.sorted
            .par_chunks_mut(classes)
            .zip(&self.unmasked)
            .for_each(|(y, &n)| {
                let (unmasked, masked) = y.split_at_mut(n as usize);
                let shift = inputs.kind.shift(unmasked);
                for y in unmasked.iter_mut() {
                    *y = inputs.value(*y, shift);
                }
                masked.fill(unmasked[unmasked.len() - 1]);
            });
    }
}

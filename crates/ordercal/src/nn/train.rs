//! Training a network on rows: mini-batches or the whole data, on all cores, the same result on any number.
//!
//! Rows are worked on in pieces of a fixed size, and gradients are added over the pieces in order. Threads only decide
//! who does which piece and which stretch of the parameters, never what is added to what.

use std::cell::RefCell;

use rayon::prelude::*;

use super::head::{RowScratch, free_row, sorted_row};
use super::mlp::{Buffers, Pass, Shape, Stretch};
use super::{narrow, transposed};
use crate::error::Result;
use crate::math::simd::vectorized;
use crate::optim::adam::{AdamState, Rule, split};
use crate::optim::lbfgs::Step;
use crate::optim::{Adam, EarlyStopping, Lbfgs, Optimizer, StopReason};
use crate::rng::Rng;
use crate::watch::{Watch, report_progress};

/// Rows per piece: enough for matrix products near their full speed, few enough for the cache.
const PIECE: usize = 128;
/// Pieces of a pass that are worked on at once, and of a mini-batch: more would take more memory.
const PIECES: usize = 8;
const BATCH_PIECES: usize = 64;
/// Below this many operations, handing some of them to another thread costs more than it saves.
const WORTH_SHARING: usize = 8_000_000;
/// The relative precision of a loss whose terms are computed in 32 bits.
const NOISE: f64 = 1e-8;

/// What the last layer means.
pub(crate) enum Head {
    /// Multipliers of the gaps between sorted scores.
    Sorted {
        /// The sorted inputs, if they are not what the network reads.
        sorted: Option<Vec<f32>>,
        /// What a difference of 1 between inputs is in logits where the network says 0.
        unit: f32,
        /// The label's position in the sorted row.
        label_ranks: Vec<u32>,
        /// How many classes of each row are not masked.
        possible: Vec<u32>,
    },
    /// The logits themselves.
    Free {
        /// The scores: they say which classes are masked.
        scores: Vec<f32>,
        labels: Vec<u32>,
    },
}

/// The data of a fit and the loss on it.
pub(crate) struct NetworkLoss {
    pub shape: Shape,
    /// What the network reads, N×K.
    pub inputs: Vec<f32>,
    pub classes: usize,
    pub head: Head,
    /// Row weights with mean 1.
    pub weights: Option<Vec<f64>>,
}

/// One piece's buffers.
struct Lane {
    room: Room,
    loss: f64,
}

/// Where a piece is worked on.
enum Room {
    /// By matrix products.
    Wide(Wide),
    /// By rows as vectors; with the gradient.
    Narrow(narrow::Buffers, Vec<f32>),
}

struct Wide {
    inputs: Vec<f32>,
    buffers: Buffers,
    scratch: RowScratch,
    /// How many rows there are.
    rows: usize,
}

impl Wide {
    fn pass(&self) -> Pass<'_> {
        Pass {
            inputs: &self.inputs,
            rows: self.rows,
            buffers: &self.buffers,
        }
    }
}

/// What training settled on.
pub(crate) struct Trained {
    pub params: Vec<f32>,
    pub loss: f64,
    pub nll: f64,
    pub iterations: usize,
    pub evaluations: usize,
    pub stop: StopReason,
}

impl NetworkLoss {
    fn rows(&self) -> usize {
        self.inputs.len() / self.classes
    }

    fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[row])
    }

    /// Whether rows are better off as vectors than in matrix products.
    fn is_narrow(&self) -> bool {
        matches!(self.head, Head::Sorted { .. }) && narrow::suits(&self.shape)
    }

    /// Rows per piece.
    fn piece_rows(&self) -> usize {
        if self.is_narrow() {
            transposed::ROWS
        } else {
            PIECE
        }
    }

    fn lane(&self) -> Lane {
        let room = if self.is_narrow() {
            let gradient = vec![0.0; self.shape.params()];
            Room::Narrow(narrow::Buffers::new(&self.shape), gradient)
        } else {
            Room::Wide(Wide {
                inputs: vec![0.0; PIECE * self.classes],
                buffers: self.shape.buffers(PIECE),
                scratch: RowScratch::new(self.classes),
                rows: 0,
            })
        };
        Lane { room, loss: 0.0 }
    }

    /// Works on the rows of a piece: their weighted loss, and the way back from it if asked for.
    fn piece(&self, params: &[f32], rows: &[u32], backward: bool, lane: &mut Lane) {
        lane.loss = match (&mut lane.room, &self.head) {
            (
                Room::Narrow(buffers, gradient),
                Head::Sorted {
                    sorted,
                    unit,
                    label_ranks,
                    possible,
                },
            ) => {
                let source = narrow::Source {
                    inputs: &self.inputs,
                    sorted: sorted.as_deref(),
                    unit: *unit,
                    label_ranks,
                    possible,
                    weights: self.weights.as_deref(),
                };
                let gradient = backward.then_some(&mut gradient[..]);
                buffers.piece(&self.shape, params, &source, rows, gradient)
            }
            (Room::Narrow(..), Head::Free { .. }) => {
                unreachable!("rows of a free head are not turned")
            }
            (Room::Wide(wide), _) => self.wide_piece(params, rows, wide, backward),
        };
    }

    fn wide_piece(&self, params: &[f32], rows: &[u32], room: &mut Wide, backward: bool) -> f64 {
        let classes = self.classes;
        let Wide {
            inputs,
            buffers,
            scratch,
            rows: count,
        } = room;
        *count = rows.len();
        for (target, &row) in inputs.chunks_exact_mut(classes).zip(rows) {
            target.copy_from_slice(&self.inputs[row as usize * classes..][..classes]);
        }
        let outputs = self.shape.forward(params, inputs, rows.len(), buffers);
        let mut loss = 0.0;
        for (position, &row) in rows.iter().enumerate() {
            let row = row as usize;
            let z = &mut outputs[position * classes..][..classes];
            let weight = self.weight(row);
            let nll = match &self.head {
                Head::Sorted {
                    sorted,
                    unit,
                    label_ranks,
                    possible,
                } => {
                    let y = match sorted {
                        Some(sorted) => &sorted[row * classes..],
                        None => &inputs[position * classes..],
                    };
                    let y = &y[..possible[row] as usize];
                    let rank = label_ranks[row] as usize;
                    sorted_row(z, y, *unit, rank, weight, scratch)
                }
                Head::Free { scores, labels } => {
                    let scores = &scores[row * classes..][..classes];
                    free_row(z, scores, labels[row] as usize, weight)
                }
            };
            loss += weight * nll;
        }
        if backward {
            self.shape.backward(params, rows.len(), buffers);
        }
        loss
    }

    /// The gradient on a stretch of the parameters, from pieces that went backward.
    fn gradient(&self, stretch: &Stretch, lanes: &[Lane], gradient: &mut [f32]) {
        if self.is_narrow() {
            gradient.fill(0.0);
            for lane in lanes {
                let Room::Narrow(_, part) = &lane.room else {
                    unreachable!("all lanes are alike")
                };
                add(gradient, &part[stretch.params.clone()]);
            }
            return;
        }
        let passes = lanes.iter().map(|lane| {
            let Room::Wide(wide) = &lane.room else {
                unreachable!("all lanes are alike")
            };
            wide.pass()
        });
        self.shape.gradient(stretch, passes, gradient);
    }
}

/// The loss with its lanes.
struct Worker<'a> {
    loss: &'a NetworkLoss,
    lanes: Vec<Lane>,
    /// Rows per piece.
    piece: usize,
    /// Whether the pieces that are worked on at once are worth several threads.
    share: bool,
    /// The parameters, as threads share them.
    stretches: Vec<Stretch>,
    ends: Vec<usize>,
}

impl<'a> Worker<'a> {
    /// With room for so many pieces at once.
    fn new(loss: &'a NetworkLoss, pieces: usize) -> Self {
        let piece = loss.piece_rows();
        let rows = loss.rows().min(pieces * piece);
        let work = 3 * (loss.shape.flops() + 60 * loss.classes) * rows;
        let share = work >= WORTH_SHARING;
        let threads = if share {
            rayon::current_num_threads()
        } else {
            1
        };
        // Several for each thread, as they differ in size; what a gradient is does not depend on it.
        let about = loss.shape.params().div_ceil(2 * threads);
        let stretches = loss.shape.stretches(about.clamp(4096, 262_144));
        Self {
            loss,
            lanes: (0..pieces).map(|_| loss.lane()).collect(),
            piece,
            share,
            ends: stretches.iter().map(|s| s.params.end).collect(),
            stretches,
        }
    }

    /// For mini-batches of so many rows, each of which is worked on at once unless it is very large.
    fn for_batches(loss: &'a NetworkLoss, rows: usize) -> Self {
        let pieces = rows.div_ceil(loss.piece_rows());
        Self::new(loss, pieces.clamp(1, BATCH_PIECES))
    }

    /// For passes over so many rows, in rounds of a few pieces.
    fn for_passes(loss: &'a NetworkLoss, rows: usize) -> Self {
        Self::new(loss, rows.div_ceil(loss.piece_rows()).clamp(1, PIECES))
    }

    /// Hands out pieces, and returns the lanes that hold them, with the sum of their losses.
    fn work(&mut self, params: &[f32], rows: &[u32], backward: bool) -> (f64, &[Lane]) {
        let loss = self.loss;
        let run = |(lane, rows): (&mut Lane, &[u32])| loss.piece(params, rows, backward, lane);
        let piece = self.piece;
        if self.share && rows.len() > piece {
            self.lanes
                .par_iter_mut()
                .zip(rows.par_chunks(piece))
                .with_max_len(1)
                .for_each(run);
        } else {
            self.lanes.iter_mut().zip(rows.chunks(piece)).for_each(run);
        }
        let used = &self.lanes[..rows.len().div_ceil(piece)];
        (used.iter().map(|lane| lane.loss).sum(), used)
    }

    fn capacity(&self) -> usize {
        self.lanes.len() * self.piece
    }

    /// A step of Adam on the mean loss of a batch, which is returned.
    fn step(
        &mut self,
        params: &mut [f32],
        rows: &[u32],
        state: &mut AdamState,
        rule: &Rule<'_>,
    ) -> f64 {
        if rows.len() > self.capacity() {
            let mut all = vec![0.0; params.len()];
            let loss = self.all(params, rows, 1.0, &mut all);
            let stretches = &self.stretches;
            state.step(rule, params, &self.ends, self.share, |place, gradient| {
                narrow(&all[stretches[place].params.clone()], gradient);
            });
            return loss * rule.scale;
        }
        let (loss, lanes) = self.work(params, rows, true);
        // Borrowed anew, without the right to change them.
        let used = lanes.len();
        let (lanes, stretches, network) = (&self.lanes[..used], &self.stretches, self.loss);
        state.step(rule, params, &self.ends, self.share, |place, gradient| {
            network.gradient(&stretches[place], lanes, gradient);
        });
        loss * rule.scale
    }

    /// The weighted loss of many rows and, in `gradient`, its gradient, both times `scale` and added up in 64 bits
    /// from round to round.
    fn all(&mut self, params: &[f32], rows: &[u32], scale: f64, gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut part = vec![0.0; gradient.len()];
        let mut total = 0.0;
        for rows in rows.chunks(self.capacity()) {
            let (loss, lanes) = self.work(params, rows, true);
            let used = lanes.len();
            total += loss;
            let (lanes, network) = (&self.lanes[..used], self.loss);
            let targets = split(gradient, &self.ends).zip(split(&mut part, &self.ends));
            let all: Vec<_> = targets.zip(&self.stretches).collect();
            let work = |((sums, part), stretch): ((&mut [f64], &mut [f32]), &Stretch)| {
                network.gradient(stretch, lanes, part);
                for (sum, &value) in sums.iter_mut().zip(&*part) {
                    *sum += scale * f64::from(value);
                }
            };
            if self.share {
                all.into_par_iter().with_max_len(1).for_each(work);
            } else {
                all.into_iter().for_each(work);
            }
        }
        total * scale
    }

    /// The mean loss alone.
    fn value(&mut self, params: &[f32], rows: &[u32]) -> f64 {
        let rounds = rows.chunks(self.capacity());
        let sum: f64 = rounds.map(|rows| self.work(params, rows, false).0).sum();
        sum / self.loss.total_weight(rows)
    }
}

impl NetworkLoss {
    fn total_weight(&self, rows: &[u32]) -> f64 {
        let sum: f64 = rows.iter().map(|&row| self.weight(row as usize)).sum();
        sum.max(f64::MIN_POSITIVE)
    }
}

vectorized! {
    fn add(target: &mut [f32], values: &[f32]) {
        for (target, &value) in target.iter_mut().zip(values) {
            *target += value;
        }
    }
}

/// Keeps the best parameters by held-out loss.
struct Keeper {
    rows: Vec<u32>,
    patience: usize,
    best: Option<(f64, Vec<f32>)>,
    waited: usize,
}

impl Keeper {
    /// Takes a random share of `rows`; none where there are too few to share.
    fn hold_out(settings: &EarlyStopping, rng: &mut Rng, rows: &mut Vec<u32>) -> Option<Self> {
        let held_out = (settings.held_out * rows.len() as f64).round() as usize;
        if held_out == 0 || held_out == rows.len() {
            return None;
        }
        rng.shuffle(rows);
        Some(Self {
            rows: rows.split_off(rows.len() - held_out),
            patience: settings.patience,
            best: None,
            waited: 0,
        })
    }

    /// Looks at new parameters; true when patience has run out.
    fn look(&mut self, worker: &mut Worker<'_>, params: &[f32]) -> bool {
        let loss = worker.value(params, &self.rows);
        if self.best.as_ref().is_none_or(|(best, _)| loss < *best) {
            self.best = Some((loss, params.to_vec()));
            self.waited = 0;
        } else {
            self.waited += 1;
        }
        self.waited >= self.patience
    }
}

/// A network in training: everything both optimisers share.
struct Trainer<'a> {
    worker: Worker<'a>,
    rows: Vec<u32>,
    keeper: Option<Keeper>,
    lambda: f64,
    watch: &'a dyn Watch,
}

/// Iterations, passes over the data, and why it ended.
type Ending = (usize, usize, StopReason);

impl Trainer<'_> {
    fn adam(&mut self, adam: &Adam, rng: &mut Rng, params: &mut [f32]) -> Result<Ending> {
        let mut state = AdamState::new(params.len());
        let steps = adam.epochs * self.rows.len().div_ceil(adam.batch);
        let mut step = 0;
        for epoch in 1..=adam.epochs {
            rng.shuffle(&mut self.rows);
            let mut total = 0.0;
            for batch in self.rows.chunks(adam.batch) {
                let share = batch.len() as f64;
                let rule = Rule {
                    settings: adam,
                    rate: adam.rate(step as f64 / steps as f64),
                    lambda: self.lambda,
                    scale: 1.0 / share,
                };
                total += share * self.worker.step(params, batch, &mut state, &rule);
                step += 1;
            }
            report_progress(
                self.watch,
                epoch,
                adam.epochs,
                total / self.rows.len() as f64,
            )?;
            if let Some(keeper) = &mut self.keeper
                && keeper.look(&mut self.worker, params)
            {
                return Ok((epoch, epoch, StopReason::EarlyStopping));
            }
        }
        Ok((adam.epochs, adam.epochs, StopReason::IterationLimit))
    }

    fn lbfgs(&mut self, lbfgs: &Lbfgs, params: &mut [f32]) -> Result<Ending> {
        let Self {
            worker,
            rows,
            keeper,
            lambda,
            watch,
        } = self;
        let worker = RefCell::new(worker);
        let lambda = *lambda;
        let scale = 1.0 / worker.borrow().loss.total_weight(rows);
        let mut point: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
        let mut evaluate = |point: &[f64], gradient: &mut [f64]| {
            narrow(point, params);
            let value = worker.borrow_mut().all(params, rows, scale, gradient);
            let mut squares = 0.0;
            for (gradient, &param) in gradient.iter_mut().zip(point) {
                *gradient += lambda * param;
                squares += param * param;
            }
            value + 0.5 * lambda * squares
        };
        let mut seen = vec![0.0; point.len()];
        let mut on_step = |step: &Step<'_>| {
            report_progress(*watch, step.iteration, lbfgs.max_iterations, step.value)?;
            let Some(keeper) = keeper else {
                return Ok(None);
            };
            narrow(step.point, &mut seen);
            let enough = keeper.look(&mut worker.borrow_mut(), &seen);
            Ok(enough.then_some(StopReason::EarlyStopping))
        };
        let found = lbfgs.minimize(&mut point, NOISE, &mut evaluate, &mut on_step)?;
        narrow(&point, params);
        Ok((found.iterations, found.evaluations, found.stop))
    }
}

fn narrow(wide: &[f64], target: &mut [f32]) {
    for (target, &wide) in target.iter_mut().zip(wide) {
        *target = wide as f32;
    }
}

/// Minimises mean NLL + `lambda`/2 ‖θ‖² from the network's initial state.
pub(crate) fn train(
    loss: &NetworkLoss,
    optimizer: &Optimizer,
    lambda: f64,
    early_stopping: Option<&EarlyStopping>,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Trained> {
    let mut rng = Rng::new(seed);
    let mut params = loss.shape.initial(&mut rng);
    let everything: Vec<u32> = (0..loss.rows() as u32).collect();
    let mut rows = everything.clone();
    let keeper =
        early_stopping.and_then(|settings| Keeper::hold_out(settings, &mut rng, &mut rows));
    let worker = match optimizer {
        Optimizer::Adam(adam) => Worker::for_batches(loss, adam.batch.min(rows.len())),
        Optimizer::Lbfgs(_) => Worker::for_passes(loss, rows.len()),
    };
    let mut trainer = Trainer {
        worker,
        rows,
        keeper,
        lambda,
        watch,
    };
    let (iterations, evaluations, stop) = match optimizer {
        Optimizer::Adam(adam) => trainer.adam(adam, &mut rng, &mut params)?,
        Optimizer::Lbfgs(lbfgs) => trainer.lbfgs(lbfgs, &mut params)?,
    };
    if let Some((_, best)) = trainer.keeper.and_then(|keeper| keeper.best) {
        params = best;
    }
    let nll = Worker::for_passes(loss, loss.rows()).value(&params, &everything);
    let squares: f64 = params.iter().map(|&p| f64::from(p) * f64::from(p)).sum();
    Ok(Trained {
        loss: nll + 0.5 * lambda * squares,
        nll,
        params,
        iterations,
        evaluations,
        stop,
    })
}

#[cfg(test)]
mod tests;

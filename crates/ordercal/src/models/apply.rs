//! From a model's 64-bit logits to what the caller asked for, on all cores, with the order kept.

use ndarray::{Array2, ArrayViewMut2};
use rayon::prelude::*;

use super::form::{Form, RowBlock};
use crate::data::{Dataset, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::rank::elementwise::{self, TieDetector};
use crate::rank::{self, Elementwise, OutputBounds, Repair, Sorter};
use crate::real::Real;

/// Elements per block: the 64-bit logits, the order and the scores of a block stay in the second-level
/// cache.
const BLOCK_ELEMENTS: usize = 32 * 1024;

/// What one thread needs.
struct Workspace {
    sorter: Sorter,
    order: Vec<u32>,
    values: Vec<f64>,
    scratch: Vec<f64>,
    repair: Repair,
    ties: TieDetector,
}

impl Workspace {
    fn new(classes: usize) -> Self {
        Self {
            sorter: Sorter::new(classes),
            order: Vec::new(),
            values: Vec::new(),
            scratch: vec![0.0; classes],
            repair: Repair::default(),
            ties: TieDetector::new(classes),
        }
    }

    /// What the model makes of a block of rows: by [`Form::logits`] or [`Form::unnormalised`].
    fn values<M: Form>(
        &mut self,
        model: &M,
        scores: &[f32],
        make: impl FnOnce(&M, &RowBlock<'_>, &mut [f64]),
    ) {
        let classes = model.classes();
        self.order.clear();
        if model.reads_order() {
            for row in scores.chunks_exact(classes) {
                self.order.extend_from_slice(self.sorter.sort(row));
            }
        }
        let block = RowBlock {
            scores,
            order: &self.order,
            classes,
        };
        self.values.resize(scores.len(), 0.0);
        make(model, &block, &mut self.values);
    }

    /// What was asked for, in 64 bits.
    fn results<M: Form>(&mut self, model: &M, scores: &[f32], kind: ScoreKind) {
        let classes = model.classes();
        match kind {
            ScoreKind::Logits => self.values(model, scores, M::logits),
            ScoreKind::LogProbs => {
                self.values(model, scores, M::logits);
                for logits in self.values.chunks_exact_mut(classes) {
                    softmax::log_probabilities(logits, &mut self.scratch);
                }
            }
            ScoreKind::Probs => {
                self.values(model, scores, M::unnormalised);
                softmax::normalise_rows(&mut self.values, classes);
            }
        }
    }

    /// Transforms a block of rows into `output`.
    fn run<T: Real>(
        &mut self,
        model: &impl Form,
        scores: &[f32],
        kind: ScoreKind,
        output: &mut [T],
    ) {
        let Some(elementwise) = model.elementwise() else {
            self.results(model, scores, kind);
            self.round(model, scores, kind, output);
            return;
        };
        // Each row is on its own here, so the fewer at once, the nearer is the cache that holds them.
        let group = softmax::group(model.classes()) * model.classes();
        for (scores, output) in scores.chunks(group).zip(output.chunks_mut(group)) {
            self.results(model, scores, kind);
            self.round_elementwise(elementwise, scores, kind, output);
        }
    }

    /// Rounds rows along their sorted classes, if their order has to be kept.
    fn round<T: Real>(
        &mut self,
        model: &impl Form,
        scores: &[f32],
        kind: ScoreKind,
        output: &mut [T],
    ) {
        if !model.order_preserving() {
            for (output, &value) in output.iter_mut().zip(&self.values) {
                *output = T::from_f64(value);
            }
            return;
        }
        let classes = model.classes();
        for (row, output) in output.chunks_exact_mut(classes).enumerate() {
            self.round_in_order(kind, scores, row * classes, output);
        }
    }

    /// Rounds rows that are in order but for rounding.
    fn round_elementwise<T: Real>(
        &mut self,
        elementwise: Elementwise,
        scores: &[f32],
        kind: ScoreKind,
        output: &mut [T],
    ) {
        let bounds = output_bounds::<T>(kind);
        // Short rows pass together; if not, one by one.
        let all = elementwise.keeps_order(scores);
        if all {
            elementwise::round_all(&bounds, &self.values, output);
        }
        let classes = self.scratch.len();
        let rows = scores
            .chunks_exact(classes)
            .zip(output.chunks_exact_mut(classes));
        for (row, (input, output)) in rows.enumerate() {
            let at = row * classes;
            let rounded = all || {
                let alone = elementwise.keeps_order(input);
                if alone {
                    elementwise::round_all(&bounds, &self.values[at..at + classes], output);
                }
                alone
            };
            if !rounded || self.ties.has_new_tie(&bounds, input, output) {
                self.round_in_order(kind, scores, at, output);
            }
        }
    }

    /// Rounds one row, which begins at the given element, along its sorted classes.
    fn round_in_order<T: Real>(
        &mut self,
        kind: ScoreKind,
        scores: &[f32],
        at: usize,
        output: &mut [T],
    ) {
        let here = at..at + output.len();
        let (input, values) = (&scores[here.clone()], &self.values[here.clone()]);
        let order = match self.order.get(here) {
            Some(order) => order,
            // The model did not ask for it.
            None => self.sorter.sort(input),
        };
        let bounds = output_bounds::<T>(kind);
        rank::round_in_order(&bounds, input, order, values, &mut self.repair, output);
    }
}

/// What rounded results of a kind are bounded by.
fn output_bounds<T: Real>(kind: ScoreKind) -> OutputBounds {
    match kind {
        ScoreKind::Probs => OutputBounds::probs::<T>(),
        ScoreKind::Logits | ScoreKind::LogProbs => OutputBounds::logits::<T>(),
    }
}

/// Applies a model to every row, into `output`.
pub(crate) fn apply_into<T: Real>(
    model: &(impl Form + Sync),
    scores: &Scores<'_>,
    kind: ScoreKind,
    mut output: ArrayViewMut2<'_, T>,
) -> Result<()> {
    let classes = model.classes();
    if scores.classes() != classes {
        return Err(Error::WrongClasses {
            expected: classes,
            found: scores.classes(),
        });
    }
    let expected = (scores.rows(), classes);
    if output.dim() != expected {
        let found = output.dim();
        return Err(Error::WrongShape { expected, found });
    }
    let Some(target) = output.as_slice_mut() else {
        // Another memory layout: work in a plain one, then copy.
        let mut plain = Array2::<T>::default(expected);
        apply_into(model, scores, kind, plain.view_mut())?;
        output.assign(&plain);
        return Ok(());
    };
    let block = piece(classes) * classes;
    scores
        .as_slice()
        .par_chunks(block)
        .zip(target.par_chunks_mut(block))
        .for_each_init(
            || Workspace::new(classes),
            |workspace, (scores, output)| workspace.run(model, scores, kind, output),
        );
    Ok(())
}

/// The mean NLL of a model's 64-bit logits on data.
pub(crate) fn mean_nll(model: &(impl Form + Sync), data: &Dataset<'_>) -> f64 {
    mean(&row_nlls(model, data), data)
}

/// The mean of something per row, summed in pieces of fixed size.
pub(crate) fn mean(values: &[f64], data: &Dataset<'_>) -> f64 {
    let piece = piece(data.classes());
    let sums = values.chunks(piece).enumerate().map(|(place, values)| {
        let rows = values.iter().enumerate();
        rows.fold(0.0, |sum, (row, value)| {
            sum + data.weight(place * piece + row) * value
        })
    });
    sums.sum::<f64>() / data.total_weight()
}

/// The NLL of each row.
pub(crate) fn row_nlls(model: &(impl Form + Sync), data: &Dataset<'_>) -> Vec<f64> {
    let classes = data.classes();
    let piece = piece(classes);
    let mut nlls = vec![0.0; data.rows()];
    data.scores()
        .as_slice()
        .par_chunks(piece * classes)
        .zip(data.labels().par_chunks(piece))
        .zip(nlls.par_chunks_mut(piece))
        .for_each_init(
            || Workspace::new(classes),
            |workspace, ((scores, labels), nlls)| {
                workspace.values(model, scores, |model, block, logits| {
                    model.logits(block, logits);
                });
                let rows = workspace.values.chunks_exact_mut(classes).zip(labels);
                for ((logits, &label), nll) in rows.zip(nlls) {
                    let at_label = logits[label as usize];
                    let (top, total) = softmax::exponentials(logits);
                    *nll = total.ln() - (at_label - top);
                }
            },
        );
    nlls
}

/// Rows that are worked on at once.
fn piece(classes: usize) -> usize {
    BLOCK_ELEMENTS.div_ceil(classes).clamp(1, 256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{DiagModel, Model, TsModel, UncalibratedModel};
    use crate::nn::input::InputKind;
    use crate::rng::Rng;

    /// Ordinary rows, rows of neighbouring floats, ties, tiny, huge and masked scores.
    fn rows(rng: &mut Rng, count: usize, classes: usize) -> Array2<f32> {
        Array2::from_shape_fn((count, classes), |(row, class)| match row % 6 {
            0 | 1 => (rng.normal() * 4.0) as f32,
            2 => f32::from_bits(3_f32.to_bits() + rng.below(2 * classes) as u32),
            3 => [1.0, 2.0, -0.0, 0.0, f32::NEG_INFINITY, 5e-42, 1e30][rng.below(7)],
            4 => (rng.normal() * 1e-3) as f32 - 7.0,
            // As good as certain.
            _ if class == row % classes => 2.0 * rng.uniform() as f32,
            _ => -38.0 - rng.uniform() as f32,
        })
    }

    /// Every row along its sorted classes, whatever the model says of itself.
    fn in_order<T: Real>(model: &Model, scores: &[f32], kind: ScoreKind) -> Vec<T> {
        let classes = model.classes();
        let mut workspace = Workspace::new(classes);
        let mut output = vec![T::default(); scores.len()];
        workspace.results(model, scores, kind);
        for (row, output) in output.chunks_exact_mut(classes).enumerate() {
            workspace.round_in_order(kind, scores, row * classes, output);
        }
        output
    }

    #[test]
    fn rows_that_are_not_sorted_come_out_as_sorted_ones() {
        let mut rng = Rng::new(91);
        for classes in [2, 3, 10, 100, 300] {
            let slopes: Vec<f64> = (0..65).map(|_| 0.01 + rng.uniform()).collect();
            let diag = |kind| DiagModel::from_slopes(classes, kind, (-20.0, 3.0), slopes.clone());
            // With so many nodes the exponentials come from the table.
            let slopes = (0..4097).map(|_| 0.01 + rng.uniform()).collect();
            let fine = |kind, slopes| DiagModel::from_slopes(classes, kind, (-40.0, 3.0), slopes);
            let models = [
                Model::from(UncalibratedModel::new(classes).unwrap()),
                TsModel::new(classes, 0.37).unwrap().into(),
                TsModel::new(classes, 3e-3).unwrap().into(),
                fine(InputKind::LogSoftmax, slopes).unwrap().into(),
                fine(InputKind::Raw, vec![1.0; 4097]).unwrap().into(),
                diag(InputKind::LogSoftmax).unwrap().into(),
                diag(InputKind::Raw).unwrap().into(),
                diag(InputKind::Centred).unwrap().into(),
            ];
            let mut matrix = rows(&mut rng, 600, classes);
            for mut row in matrix.rows_mut() {
                if row.iter().all(|&v| v == f32::NEG_INFINITY) {
                    row[0] = 1.0;
                }
            }
            let scores = Scores::new(ScoreKind::Logits, matrix.view()).unwrap();
            for model in models {
                for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
                    let narrow = model.apply::<f32>(&scores, kind).unwrap();
                    let slow = in_order::<f32>(&model, scores.as_slice(), kind);
                    assert!(
                        narrow.as_slice().unwrap() == slow,
                        "{kind}, {classes} classes"
                    );
                    let wide = model.apply::<f64>(&scores, kind).unwrap();
                    assert!(kind != ScoreKind::Probs || wide.iter().all(|&p| p <= 1.0));
                    let slow = in_order::<f64>(&model, scores.as_slice(), kind);
                    assert!(
                        wide.as_slice().unwrap() == slow,
                        "{kind}, {classes} classes"
                    );
                }
            }
        }
    }
}

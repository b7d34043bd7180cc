//! Application of a model in parallel: from 64-bit logits to the kind and float type of the result, with the order kept.

use std::cell::Cell;

use ndarray::ArrayViewMut2;
use rayon::prelude::*;

use super::form::{Form, RowBlock};
use crate::data::{Dataset, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::math::tile::{self, Tile};
use crate::rank::elementwise::{self, TieDetector};
use crate::rank::{self, Elementwise, OutputBounds, Repair, Sorter};
use crate::real::{Real, zeros};

/// Elements per block, so that the 64-bit logits, the order and the scores of a block fit in the L2 cache.
const BLOCK_ELEMENTS: usize = 32 * 1024;

/// The largest number of classes for which buffers are kept.
const MOST_KEPT: usize = 100_000;

thread_local! {
    /// The number of classes and buffers for them.
    static KEPT: Cell<Option<(usize, Workspace)>> = const { Cell::new(None) };
}

/// The buffers of one thread.
struct Workspace {
    sorter: Sorter,
    order: Vec<u32>,
    values: Vec<f64>,
    scratch: Vec<f64>,
    repair: Repair,
    ties: TieDetector,
    tile: Tile,
}

impl Workspace {
    fn new(classes: usize) -> Self {
        Self {
            sorter: Sorter::new(classes),
            order: Vec::new(),
            values: Vec::new(),
            scratch: Vec::new(),
            repair: Repair::default(),
            ties: TieDetector::new(classes),
            tile: Tile::default(),
        }
    }

    /// Works with the buffers that the last call on this thread left behind, so that a row at a time costs no allocation.
    fn kept(classes: usize, work: impl FnOnce(&mut Self)) {
        let mut workspace = match KEPT.take() {
            Some((kept, workspace)) if kept == classes => workspace,
            _ => Self::new(classes),
        };
        work(&mut workspace);
        // Buffers for very many classes are not worth keeping.
        if classes <= MOST_KEPT {
            KEPT.set(Some((classes, workspace)));
        }
    }

    /// Fills `values` with the logits of some rows.
    fn logits(&mut self, model: &impl Form, scores: &[f32]) {
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
        model.logits(&block, &mut self.values);
    }

    /// Fills `values` with scores of the given kind.
    fn results(&mut self, model: &impl Form, scores: &[f32], kind: ScoreKind) {
        let classes = model.classes();
        self.logits(model, scores);
        match kind {
            ScoreKind::Logits => {}
            ScoreKind::LogProbs => {
                softmax::log_probabilities(&mut self.values, classes, &mut self.scratch);
            }
            ScoreKind::Probs => {
                softmax::unnormalised_rows(&mut self.values, classes);
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
        let done = match T::as_f32_mut(output) {
            Some(output) if kind == ScoreKind::Probs => {
                self.run_tiles(model, elementwise, scores, output)
            }
            _ => 0,
        };
        let (scores, output) = (&scores[done..], &mut output[done..]);
        self.run_rows(model, elementwise, scores, kind, output);
    }

    /// Probabilities of short rows, 64 at a time, by vectors across the rows. Returns the number of scores it has dealt with;
    /// what is left goes the usual way, with the same results.
    fn run_tiles(
        &mut self,
        model: &impl Form,
        elementwise: Elementwise,
        scores: &[f32],
        output: &mut [f32],
    ) -> usize {
        let classes = model.classes();
        if classes > tile::MOST_CLASSES {
            return 0;
        }
        let size = tile::LANES * classes;
        let tiles = scores.chunks_exact(size).zip(output.chunks_exact_mut(size));
        for (place, (scores, output)) in tiles.enumerate() {
            let tile = &mut self.tile;
            tile.resize(classes);
            tile::transpose(scores, &mut tile.scores);
            if !model.tile_logits(&tile.scores, &mut tile.logits) {
                return place * size;
            }
            if !elementwise.keeps_order(scores) {
                self.run_rows(model, elementwise, scores, ScoreKind::Probs, output);
                continue;
            }
            tile::probabilities(&mut tile.logits, &mut tile.probs);
            tile::transpose_back(&tile.probs, output);
            let ties = elementwise::new_ties(&tile.scores, &tile.probs);
            let rows = scores
                .chunks_exact(classes)
                .zip(output.chunks_exact_mut(classes));
            for ((scores, output), _) in rows.zip(ties).filter(|(_, tie)| *tie) {
                self.results(model, scores, ScoreKind::Probs);
                self.round_in_order(ScoreKind::Probs, scores, 0, output);
            }
        }
        scores.len() - scores.len() % size
    }

    /// The rows of a block of an elementwise model.
    fn run_rows<T: Real>(
        &mut self,
        model: &impl Form,
        elementwise: Elementwise,
        scores: &[f32],
        kind: ScoreKind,
        output: &mut [T],
    ) {
        // Such forms do not gain from large blocks; small groups of rows stay in the L1 cache.
        let group = softmax::group(model.classes()) * model.classes();
        for (scores, output) in scores.chunks(group).zip(output.chunks_mut(group)) {
            self.results(model, scores, kind);
            self.round_elementwise(model.classes(), elementwise, kind, scores, 0, output);
        }
    }

    /// Rounds rows; those of an order-preserving model along their sorted classes.
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

    /// Rounds the rows of an elementwise model that begin at the element `start`. Only rows whose order rounding may have
    /// changed are sorted.
    fn round_elementwise<T: Real>(
        &mut self,
        classes: usize,
        elementwise: Elementwise,
        kind: ScoreKind,
        scores: &[f32],
        start: usize,
        output: &mut [T],
    ) {
        let range = start..start + output.len();
        let bounds = output_bounds::<T>(kind);
        let in_order = elementwise.keeps_order(&scores[range.clone()]);
        if in_order {
            // Where the results are in the order of their scores, rounding can only create ties.
            T::round_all(&self.values[range], bounds.clamp(), output);
        }
        let several = output.len() > classes;
        for (row, output) in output.chunks_exact_mut(classes).enumerate() {
            let start = start + row * classes;
            if several && !in_order {
                self.round_elementwise(classes, elementwise, kind, scores, start, output);
            } else if !in_order || self.ties.has_tie(&bounds, output) {
                self.round_in_order(kind, scores, start, output);
            }
        }
    }

    /// Rounds along its sorted classes the row that begins at the element `start`.
    fn round_in_order<T: Real>(
        &mut self,
        kind: ScoreKind,
        scores: &[f32],
        start: usize,
        output: &mut [T],
    ) {
        let range = start..start + output.len();
        let (input, values) = (&scores[range.clone()], &self.values[range.clone()]);
        let order = match self.order.get(range) {
            Some(order) => order,
            // The model does not read the order, so the row is not sorted yet.
            None => self.sorter.sort(input),
        };
        let bounds = output_bounds::<T>(kind);
        rank::round_in_order(&bounds, input, order, values, &mut self.repair, output);
    }
}

/// The range of rounded results of a kind.
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
        // Not contiguous: write to a contiguous matrix, then copy.
        let mut contiguous = zeros::<T>(expected);
        apply_into(model, scores, kind, contiguous.view_mut())?;
        output.assign(&contiguous);
        return Ok(());
    };
    let block = block_rows(classes) * classes;
    let scores = scores.as_slice();
    if scores.len() <= block {
        // Another thread would take longer to wake up than the work takes.
        Workspace::kept(classes, |workspace| {
            workspace.run(model, scores, kind, target);
        });
        return Ok(());
    }
    scores
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

/// The weighted mean of one value per row, summed in blocks of fixed size.
pub(crate) fn mean(values: &[f64], data: &Dataset<'_>) -> f64 {
    let block = block_rows(data.classes());
    let sums = values.chunks(block).enumerate().map(|(index, values)| {
        let rows = values.iter().enumerate();
        rows.fold(0.0, |sum, (row, value)| {
            sum + data.weight(index * block + row) * value
        })
    });
    sums.sum::<f64>() / data.total_weight()
}

/// The NLL of each row.
pub(crate) fn row_nlls(model: &(impl Form + Sync), data: &Dataset<'_>) -> Vec<f64> {
    let classes = data.classes();
    let block = block_rows(classes);
    let mut nlls = vec![0.0; data.rows()];
    data.scores()
        .as_slice()
        .par_chunks(block * classes)
        .zip(data.labels().par_chunks(block))
        .zip(nlls.par_chunks_mut(block))
        .for_each_init(
            || Workspace::new(classes),
            |workspace, ((scores, labels), nlls)| {
                workspace.logits(model, scores);
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

/// The number of rows of a block.
fn block_rows(classes: usize) -> usize {
    BLOCK_ELEMENTS.div_ceil(classes).clamp(1, 256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{DiagModel, Model, TsModel, UncalibratedModel};
    use crate::nn::input::InputKind;
    use crate::rng::Rng;
    use ndarray::Array2;

    /// Ordinary rows, rows of neighbouring floats, ties, tiny, huge and masked scores: first in turns, then a hundred of
    /// each, because a row for which nothing is certain sends its whole tile the slow way.
    fn rows(rng: &mut Rng, count: usize, classes: usize) -> Array2<f32> {
        let kind = |row| if row < count / 2 { row } else { row / 100 };
        Array2::from_shape_fn((count, classes), |(row, class)| match kind(row) % 7 {
            0 | 1 => (rng.normal() * 4.0) as f32,
            2 => f32::from_bits(3_f32.to_bits() + rng.below(2 * classes) as u32),
            3 => [1.0, 2.0, -0.0, 0.0, f32::NEG_INFINITY, 5e-42, 1e30][rng.below(7)],
            4 => (rng.normal() * 1e-3) as f32 - 7.0,
            // Some vanish.
            5 => -200.0 * rng.uniform() as f32,
            // One class has a probability close to 1.
            _ if class == row % classes => 2.0 * rng.uniform() as f32,
            _ => -38.0 - rng.uniform() as f32,
        })
    }

    /// Rounds every row along its sorted classes, without the shortcut for elementwise models.
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
    fn rounding_without_a_sort_gives_the_same_results() {
        let mut rng = Rng::new(91);
        for classes in [2, 3, 10, 32, 100, 300] {
            let slopes: Vec<f64> = (0..65).map(|_| 0.01 + rng.uniform()).collect();
            let diag = |kind| DiagModel::from_slopes(classes, kind, (-20.0, 3.0), slopes.clone());
            // A grid as fine as that of a fit.
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
            let mut matrix = rows(&mut rng, 1400, classes);
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

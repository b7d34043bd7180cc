//! The projection of a method, or of any probabilities, onto the order of the scores.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::data::{Dataset, Scores};
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Fitted};
use crate::models::{OrderProjection, OrderedModel, apply};
use crate::rank::{Repair, Sorter, round_probs};
use crate::real::{Real, zeros};
use crate::watch::{Unwatched, Watch};

/// A method made order-preserving: its models' probabilities are projected onto the order of the scores.
///
/// Each row q of the inner model's probabilities is replaced by the distribution p that minimises KL(q‖p) among those that
/// rank the classes as the scores do ([`Projector`](crate::models::Projector)). Pooled classes would be tied, so the
/// distribution softmax(βx) is mixed in with a small weight s = [`SLIVER`](crate::models::SLIVER):
/// (1 − s)·p + s·softmax(βx) ranks classes with different scores strictly. β is fitted by temperature scaling.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepOrder<C>(pub C);

impl<C: Calibrator> Calibrator for KeepOrder<C> {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let Fitted { model, mut report } = self.0.fit(data, watch)?;
        let (beta, start) = fit_beta(data, &Unwatched)?;
        let model = OrderedModel::new(model, beta)?.into();
        report.nll_after = apply::mean_nll(&model, data);
        report.evaluations += start.evaluations + 1;
        Ok(Fitted { model, report })
    }

    fn validate(&self) -> Result<()> {
        self.0.validate()
    }
}

/// Projects probabilities of any origin onto the order of the scores.
///
/// `scores` and `probs` are N×K. β > 0 is the inverse temperature of the distribution that is mixed in (see [`KeepOrder`]):
/// that of a [`Ts`](crate::Ts) fit, or 1. Rows of `probs` are normalised; a row of zeros becomes uniform. The result ranks
/// the classes of every row exactly as the scores do, ties included, in the float type `T`.
///
/// # Errors
/// If the shapes differ, β is not positive, or a probability is negative or not finite.
///
/// ```
/// use ndarray::array;
/// use ordercal::{ScoreKind, Scores, keep_order};
///
/// let scores = Scores::new(ScoreKind::Logits, array![[3.0_f32, 2.0, 1.0]])?;
/// let probs = keep_order::<f64>(&scores, array![[0.2, 0.5, 0.3]].view(), 1.0)?;
/// assert!((probs[[0, 0]] - 0.35).abs() < 1e-5 && probs[[0, 0]] > probs[[0, 1]]);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub fn keep_order<T: Real>(
    scores: &Scores<'_>,
    probs: ArrayView2<'_, f64>,
    beta: f64,
) -> Result<Array2<T>> {
    let (expected, found) = ((scores.rows(), scores.classes()), probs.dim());
    if expected != found {
        return Err(Error::WrongShape { expected, found });
    }
    if !(beta > 0.0 && beta.is_finite()) {
        return Err(Error::invalid("beta", beta, "a positive number"));
    }
    for (row, probs) in probs.rows().into_iter().enumerate() {
        let bad = probs.iter().position(|p| !(*p >= 0.0 && p.is_finite()));
        if let Some(column) = bad {
            let value = probs[column];
            return Err(Error::InvalidProbability { row, column, value });
        }
    }
    let classes = scores.classes();
    let mut results = zeros::<T>(expected);
    let rows = results.as_slice_mut().expect("a new array is contiguous");
    rows.par_chunks_mut(classes)
        .zip(scores.as_slice().par_chunks(classes))
        .enumerate()
        .for_each_init(
            || {
                let projection = OrderProjection::new(classes, beta);
                (
                    projection,
                    Sorter::new(classes),
                    Repair::default(),
                    vec![0.0; classes],
                )
            },
            |(projection, sorter, repair, values), (row, (results, scores))| {
                for (value, &p) in values.iter_mut().zip(probs.row(row)) {
                    *value = p;
                }
                let sum: f64 = values.iter().sum();
                let uniform = 1.0 / classes as f64;
                let normalised = |p: f64| if sum > 0.0 { p / sum } else { uniform };
                values.iter_mut().for_each(|p| *p = normalised(*p));
                let order = sorter.sort(scores);
                projection.log_probabilities(scores, order, values);
                softmax::probabilities(values);
                round_probs(scores, order, values, repair, results);
            },
        );
    Ok(results)
}

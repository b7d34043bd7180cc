//! The uncalibrated scores: the baseline of every comparison.

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::likelihood::plain_nll;
use crate::methods::{Calibrator, Describe, FitReport, Fitted};
use crate::models::UncalibratedModel;
use crate::optim::StopReason;
use crate::watch::Watch;

/// No calibration: the probabilities are softmax(x). It is the baseline of every comparison. Order-preserving.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Uncalibrated};
///
/// let scores = Scores::new(ScoreKind::Logits, array![[0.0_f32, 0.0]])?;
/// let data = Dataset::new(scores, &[1])?;
/// let fitted = Method::from(Uncalibrated::default()).fit(&data)?;
/// let probs: Vec<f64> = fitted.model.apply_row(&[0.0, 0.0], ScoreKind::Probs)?;
/// assert_eq!(probs, [0.5, 0.5]);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Uncalibrated {}

impl Describe for Uncalibrated {
    const BRIEF: &'static str = "nothing: the scores as they are, to compare with";
    const PYTHON_CLASS: &'static str = "Uncalibrated";
}

impl Calibrator for Uncalibrated {
    fn fit(&self, data: &Dataset<'_>, _: &dyn Watch) -> Result<Fitted> {
        let nll = plain_nll(data);
        let report = FitReport {
            iterations: 0,
            evaluations: 1,
            loss: nll,
            nll_before: nll,
            nll_after: nll,
            stop: StopReason::Nothing,
            notes: Vec::new(),
            price_of_order: None,
        };
        let model = UncalibratedModel::new(data.classes())?.into();
        Ok(Fitted { model, report })
    }
}

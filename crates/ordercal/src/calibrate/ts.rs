//! Temperature scaling: f(x) = βx with one positive inverse temperature β = 1/T (Guo et al., 2017).

use serde::{Deserialize, Serialize};

mod likelihood;

use super::apply::Block;
use crate::data::Dataset;
use crate::error::Result;
use crate::math::simd::vectorized;
use crate::math::softmax;
use crate::optim::StopReason;
use crate::optim::scalar::{self, Curvature, Local};
use crate::rank::Elementwise;
use crate::traits::{Calibrator, FitReport, Transform, Unwatched, Watch, tell};
pub(crate) use likelihood::{Likelihood, plain_nll, row_nll, spread};

/// The bounds of β times the data's spread: the median, over the rows that are not flat, of the largest
/// score less the row's mean. β = 1 is always within the bounds, so a fit never does harm.
///
/// On separable data (every label is its row's top score) the likelihood grows for ever with β; the fit
/// stops at the upper bound and reports [`StopReason::UpperBound`]. There an ordinary row is as good as
/// certain, so nothing is lost by not going further. Likewise [`StopReason::LowerBound`] for scores that
/// say nothing about the labels, where the output is as good as uniform.
pub const SPREAD_BOUNDS: (f64, f64) = (1e-3, 1e2);

/// How closely ln β is determined.
const TOLERANCE: f64 = 1e-7;

/// Temperature scaling: minimises the NLL of softmax(βx) over β > 0.
///
/// The NLL has a single valley in β. Newton's method in ln β, kept in a bracket, finds it to 1e-7 in a
/// handful of passes, of which large data see only the last: the first are made on a sample of the rows.
/// β can never be negative. On data where the minimum lies at infinity or zero, see
/// [`SPREAD_BOUNDS`].
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Ts};
///
/// let logits = array![[9.0_f32, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]];
/// let scores = Scores::new(ScoreKind::Logits, logits.view())?;
/// let data = Dataset::new(scores.clone(), &[0, 0, 0, 1])?;
/// let fitted = Method::from(Ts::default()).fit(&data)?;
/// // The first class is right three times in four, and that is what it now says.
/// let probs = fitted.model.apply::<f64>(&scores, ScoreKind::Probs)?;
/// assert!((probs[[0, 0]] - 0.75).abs() < 1e-6);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ts {}

/// A fitted temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct TsModel {
    classes: usize,
    beta: f64,
}

impl TsModel {
    /// A model with a given inverse temperature β > 0.
    pub fn new(classes: usize, beta: f64) -> Self {
        assert!(
            beta > 0.0 && beta.is_finite(),
            "an inverse temperature is positive"
        );
        Self { classes, beta }
    }

    /// β, what logits are multiplied by.
    pub fn inverse_temperature(&self) -> f64 {
        self.beta
    }

    /// T = 1/β, what logits are divided by.
    pub fn temperature(&self) -> f64 {
        1.0 / self.beta
    }
}

impl Transform for TsModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn reads_order(&self) -> bool {
        false
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise {
            min_slope: self.beta,
            max_slope: self.beta,
            max_offset: 0.0,
        })
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        multiply(block.scores, self.beta, logits);
    }

    fn unnormalised(&self, block: &Block<'_>, unnormalised: &mut [f64]) {
        softmax::unnormalised_tempered(block.scores, block.classes, self.beta, unnormalised);
    }
}

vectorized! {
    fn multiply(scores: &[f32], beta: f64, logits: &mut [f64]) {
        for (logit, &score) in logits.iter_mut().zip(scores) {
            *logit = beta * f64::from(score);
        }
    }
}

impl Calibrator for Ts {
    type Model = TsModel;

    fn key(&self) -> &'static str {
        "ts"
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(TsModel, FitReport)> {
        let (beta, report) = fit_beta(data, watch)?;
        Ok((TsModel::new(data.classes(), beta), report))
    }
}

/// Finds β. Other families start from it.
pub(crate) fn fit_beta(data: &Dataset<'_>, watch: &dyn Watch) -> Result<(f64, FitReport)> {
    let spread = spread(data);
    let likelihood = Likelihood::new(data);
    let before = likelihood.at(1.0);
    if spread == 0.0 {
        // Every row is flat: all temperatures give the uniform distribution.
        let report = FitReport {
            iterations: 0,
            evaluations: 2,
            loss: before.value,
            nll_before: before.value,
            nll_after: before.value,
            stop: StopReason::Nothing,
            notes: Vec::new(),
        };
        return Ok((1.0, report));
    }
    let low = (SPREAD_BOUNDS.0 / spread)
        .max(f64::from(f32::MIN_POSITIVE))
        .ln();
    let high = (SPREAD_BOUNDS.1 / spread).min(f64::from(f32::MAX)).ln();
    let bounds = (low.min(0.0), high.max(0.0));
    let mut steps = 0;
    let start = sampled(data).unwrap_or(0.0);
    let minimum = scalar::minimize(bounds, start, TOLERANCE, Curvature::Exact, |log_beta| {
        let beta = log_beta.exp();
        // The starting point has been looked at already.
        let at = if log_beta == 0.0 {
            before
        } else {
            likelihood.at(beta)
        };
        tell(watch, steps, steps + 1, at.value)?;
        steps += 1;
        Ok(Local {
            value: at.value,
            slope: beta * at.slope,
            curvature: beta * beta * at.curvature + beta * at.slope,
        })
    })?;
    let report = FitReport {
        iterations: steps,
        evaluations: minimum.evaluations + 1,
        loss: minimum.value,
        nll_before: before.value,
        nll_after: minimum.value,
        stop: minimum.stop,
        notes: Vec::new(),
    };
    Ok((minimum.at.exp(), report))
}

/// Rows whose minimum is a start for all.
const SAMPLE: usize = 2048;

/// ln β on a sample of the rows, where there are many more of them.
fn sampled(data: &Dataset<'_>) -> Option<f64> {
    if data.rows() < 4 * SAMPLE || data.rows() * data.classes() < 1 << 20 {
        return None;
    }
    let stride = data.rows() / SAMPLE;
    let rows: Vec<usize> = (0..SAMPLE).map(|place| place * stride).collect();
    if rows.iter().all(|&row| data.weight(row) == 0.0) {
        return None;
    }
    let found = fit_beta(&data.select(&rows), &Unwatched);
    found.ok().map(|(beta, _)| beta.ln())
}

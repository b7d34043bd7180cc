//! Ensemble temperature scaling: a mixture of the tempered, the original and the uniform distribution.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::apply::Block;
use super::ts;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::softmax;
use crate::optim::StopReason;
use crate::optim::scalar::{self, Curvature, Local};
use crate::optim::simplex::mixture;
use crate::traits::{Calibrator, FitReport, Transform, Watch, tell};

/// Ensemble temperature scaling: w₁ softmax(βx) + w₂ softmax(x) + w₃/K, w ≥ 0 and Σw = 1. Order-preserving.
///
/// β and w maximise the likelihood together. Given β the weights are a convex problem, so the search is
/// over β alone, downhill from [`Ts`](crate::Ts)'s: the published two steps (ts, then the weights) leave the
/// tempered part too flat where a few surprising labels ask for a uniform part. Each of the three distributions keeps the order of a row,
/// and so does a mixture of them. In a row with masked classes the uniform distribution is that of the
/// possible ones.
///
/// J. Zhang, B. Kailkhura, T. Y.-J. Han: *Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
/// Calibration in Deep Learning*, ICML 2020.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Ets, Method, ScoreKind, Scores};
///
/// let logits = array![[9.0_f32, 0.0, -1.0], [8.0, 0.0, 1.0], [9.0, 0.0, 2.0], [7.0, 0.0, 0.5]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 0, 1, 0])?;
/// let fitted = Method::from(Ets::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// assert!(fitted.model.order_preserving());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ets {}

/// A fitted mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct EtsModel {
    parts: EtsParts,
}

/// Everything an [`EtsModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtsParts {
    /// K.
    pub classes: usize,
    /// β.
    pub beta: f64,
    /// The weights of the tempered, the original and the uniform distribution.
    pub weights: [f64; 3],
}

impl EtsModel {
    /// Takes a model apart.
    pub fn to_parts(&self) -> EtsParts {
        self.parts.clone()
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first part that is out of range.
    pub fn from_parts(parts: EtsParts) -> Result<Self> {
        let fail = |name, value: String, expected| {
            Err(Error::InvalidParameter {
                name,
                value,
                expected,
            })
        };
        if parts.classes < 2 {
            return fail("classes", parts.classes.to_string(), "at least 2");
        }
        if !(parts.beta > 0.0 && parts.beta.is_finite()) {
            return fail("beta", parts.beta.to_string(), "a positive number");
        }
        let sum: f64 = parts.weights.iter().sum();
        if !parts.weights.iter().all(|&w| w >= 0.0) || (sum - 1.0).abs() > 1e-6 {
            let value = format!("{:?}", parts.weights);
            return fail("weights", value, "three shares that sum to 1");
        }
        Ok(Self { parts })
    }

    /// The weights of the tempered, the original and the uniform distribution.
    pub fn weights(&self) -> [f64; 3] {
        self.parts.weights
    }

    /// β.
    pub fn inverse_temperature(&self) -> f64 {
        self.parts.beta
    }
}

impl Transform for EtsModel {
    fn classes(&self) -> usize {
        self.parts.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        let classes = block.classes;
        let logs = self.parts.weights.map(f64::ln);
        let mut tempered = vec![0.0; classes];
        let mut scratch = vec![0.0; classes];
        for (row, logits) in logits.chunks_exact_mut(classes).enumerate() {
            let scores = block.row(row);
            for ((logit, tempered), &score) in logits.iter_mut().zip(&mut tempered).zip(scores) {
                *logit = f64::from(score);
                *tempered = self.parts.beta * f64::from(score);
            }
            softmax::log_probabilities(&mut tempered, &mut scratch);
            softmax::log_probabilities(logits, &mut scratch);
            let possible = scores.iter().filter(|s| **s > f32::NEG_INFINITY).count();
            let uniform = logs[2] - (possible as f64).ln();
            // Logarithms all along: a probability that underflows still has its place in the order.
            for ((logit, &tempered), &score) in logits.iter_mut().zip(&tempered).zip(scores) {
                if score > f32::NEG_INFINITY {
                    let terms = [logs[0] + tempered, logs[1] + *logit, uniform];
                    *logit = log_sum(&terms);
                }
            }
        }
    }
}

/// ln Σ eᵗ.
pub(super) fn log_sum(terms: &[f64]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
}

impl Calibrator for Ets {
    type Model = EtsModel;

    fn key(&self) -> &'static str {
        "ets"
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(EtsModel, FitReport)> {
        let (beta, start) = ts::fit_beta(data, watch)?;
        // Where no temperature is best, the bound of ts stays what it is.
        let reach = if start.stop == StopReason::Converged {
            REACH
        } else {
            0.0
        };
        let middle = beta.ln();
        let mut profile = Profile::new(data);
        let mut steps = start.iterations;
        let bounds = (middle - reach, middle + reach);
        let minimum = scalar::minimize(bounds, middle, TOLERANCE, Curvature::Rough, |log_beta| {
            let at = profile.at(log_beta.exp());
            steps += 1;
            tell(watch, steps, steps + 1, at.value)?;
            Ok(at)
        })?;
        let parts = EtsParts {
            classes: data.classes(),
            beta: minimum.at.exp(),
            weights: profile.weights,
        };
        let report = FitReport {
            iterations: steps,
            evaluations: start.evaluations + minimum.evaluations + 1,
            loss: minimum.value,
            nll_before: start.nll_before,
            nll_after: minimum.value,
            stop: if reach > 0.0 {
                minimum.stop
            } else {
                start.stop
            },
            notes: Vec::new(),
        };
        Ok((EtsModel { parts }, report))
    }
}

/// How far ln β may go from ts's, and how closely it is determined.
const REACH: f64 = 2.0;
const TOLERANCE: f64 = 1e-4;

/// The NLL as a function of β alone: the weights are the best for it.
struct Profile<'a> {
    data: &'a Dataset<'a>,
    /// What the tempered, the original and the uniform distribution say of each row's label.
    likelihoods: Vec<f64>,
    weights: [f64; 3],
}

/// What a thread needs to look at a row.
fn scratch(data: &Dataset<'_>) -> impl Fn() -> (Vec<f32>, Vec<f32>) + Send + Sync {
    let classes = data.classes();
    move || (vec![0.0; classes], vec![0.0; classes])
}

impl<'a> Profile<'a> {
    fn new(data: &'a Dataset<'a>) -> Self {
        let mut likelihoods = vec![0.0; 3 * data.rows()];
        likelihoods.par_chunks_mut(3).enumerate().for_each_init(
            scratch(data),
            |(z, e), (row, likelihoods)| {
                let scores = data.scores().row(row);
                let [nll, ..] = ts::row_nll(scores, 1.0, data.labels()[row] as usize, z, e);
                let possible = scores.iter().filter(|s| **s > f32::NEG_INFINITY).count();
                likelihoods[1] = (-nll).exp();
                likelihoods[2] = 1.0 / possible as f64;
            },
        );
        Self {
            data,
            likelihoods,
            weights: [1.0 / 3.0; 3],
        }
    }

    /// Value, slope and curvature in ln β. Where the weights are the best, the slope is that of the NLL
    /// with the weights held; so is the curvature, nearly.
    fn at(&mut self, beta: f64) -> Local {
        let data = self.data;
        // Per row: the derivatives of ln p in β, first and second over p.
        let derivatives: Vec<[f64; 2]> = self
            .likelihoods
            .par_chunks_mut(3)
            .enumerate()
            .map_init(scratch(data), |(z, e), (row, likelihoods)| {
                let label = data.labels()[row] as usize;
                let [nll, slope, variance] =
                    ts::row_nll(data.scores().row(row), beta as f32, label, z, e);
                likelihoods[0] = (-nll).exp();
                [-slope, slope * slope - variance]
            })
            .collect();
        let found = mixture(&self.likelihoods, &self.weights, &|row| data.weight(row));
        self.weights = [found.weights[0], found.weights[1], found.weights[2]];
        let (mut slope, mut curvature) = (0.0, 0.0);
        for (row, likelihoods) in self.likelihoods.chunks_exact(3).enumerate() {
            let terms = likelihoods.iter().zip(&self.weights);
            let mixed: f64 = terms.map(|(l, w)| l * w).sum();
            let part = self.weights[0] * likelihoods[0];
            if part > 0.0 {
                let share = part / mixed;
                let [first, second] = derivatives[row];
                let weight = data.weight(row) / data.total_weight();
                slope -= weight * share * first;
                curvature += weight * ((share * first).powi(2) - share * second);
            }
        }
        Local {
            value: found.nll,
            slope: beta * slope,
            curvature: beta * beta * curvature + beta * slope,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixture_is_what_the_formula_says() {
        let parts = EtsParts {
            classes: 3,
            beta: 0.5,
            weights: [0.6, 0.3, 0.1],
        };
        let model = EtsModel::from_parts(parts.clone()).unwrap();
        assert_eq!(model.to_parts(), parts);
        let scores = [2.0_f32, f32::NEG_INFINITY, 0.0];
        let block = Block {
            scores: &scores,
            order: &[0, 2, 1],
            classes: 3,
        };
        let mut logits = [0.0; 3];
        model.logits(&block, &mut logits);
        let soft = |beta: f64| {
            let (a, b) = ((2.0 * beta).exp(), 1.0);
            [a / (a + b), b / (a + b)]
        };
        for (at, class) in [0, 2].into_iter().enumerate() {
            let expected = 0.6 * soft(0.5)[at] + 0.3 * soft(1.0)[at] + 0.1 / 2.0;
            assert!((logits[class].exp() - expected).abs() < 1e-12);
        }
        assert_eq!(logits[1], f64::NEG_INFINITY);
    }

    #[test]
    fn parts_are_checked() {
        let good = EtsParts {
            classes: 3,
            beta: 0.5,
            weights: [0.6, 0.3, 0.1],
        };
        let name = |change: &dyn Fn(&mut EtsParts)| {
            let mut parts = good.clone();
            change(&mut parts);
            match EtsModel::from_parts(parts) {
                Err(Error::InvalidParameter { name, .. }) => name,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(name(&|p| p.classes = 1), "classes");
        assert_eq!(name(&|p| p.beta = 0.0), "beta");
        assert_eq!(name(&|p| p.weights = [0.5, 0.6, -0.1]), "weights");
        assert_eq!(name(&|p| p.weights = [0.5, 0.6, 0.1]), "weights");
    }
}

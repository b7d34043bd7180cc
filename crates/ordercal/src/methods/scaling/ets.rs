//! Ensemble temperature scaling: a mixture of the tempered, the original and the uniform distribution.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::likelihood::row_nll;
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, FitReport, Fitted};
use crate::models::{EtsModel, EtsParts, count_unmasked};
use crate::optim::StopReason;
use crate::optim::scalar::{self, Curvature, Local};
use crate::optim::simplex::mixture;
use crate::watch::{Watch, report_progress};

/// Ensemble temperature scaling: w₁ softmax(βx) + w₂ softmax(x) + w₃/K, w ≥ 0 and Σw = 1. Order-preserving.
///
/// β and w maximise the likelihood jointly. For a given β, the weights are the solution of a convex problem, so the search
/// is over β alone, starting at that of [`Ts`](crate::Ts). (The original fits β first and then the weights, which leaves
/// the tempered distribution too flat if a uniform part is needed for a few unexpected labels.) Each of the three
/// distributions keeps the order of a row, hence also their mixture. The uniform distribution is over the unmasked classes.
///
/// J. Zhang, B. Kailkhura, T. Y.-J. Han: *Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
/// Calibration in Deep Learning*, ICML 2020.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ets {}

impl Describe for Ets {
    const BRIEF: &'static str =
        "a mixture of the tempered, the original and the uniform distribution";
    const PYTHON_CLASS: &'static str = "EnsembleTemperatureScaling";
}

impl Calibrator for Ets {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let (beta, start) = fit_beta(data, watch)?;
        // If ts ended at a bound, β stays there.
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
            report_progress(watch, steps, steps + 1, at.value)?;
            Ok(at)
        })?;
        let parts = EtsParts {
            classes: data.classes(),
            beta: minimum.at.exp(),
            weights: profile.weights,
        };
        let stop = if reach > 0.0 {
            minimum.stop
        } else {
            start.stop
        };
        let report = FitReport {
            iterations: steps,
            evaluations: start.evaluations + minimum.evaluations + 1,
            ..FitReport::new(start.nll_before, minimum.value, stop)
        };
        let model = EtsModel::from_parts(parts)?.into();
        Ok(Fitted { model, report })
    }
}

/// The largest distance of ln β from that of ts.
const REACH: f64 = 2.0;
/// The tolerance of ln β.
const TOLERANCE: f64 = 1e-4;

/// The profile likelihood: the mean NLL as a function of β, with the best weights for each β.
struct Profile<'a> {
    data: &'a Dataset<'a>,
    /// The probability of each row's label under the tempered, the original and the uniform distribution, N×3.
    likelihoods: Vec<f64>,
    weights: [f64; 3],
}

/// The buffers of one thread.
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
                let [nll, ..] = row_nll(scores, 1.0, data.labels()[row] as usize, z, e);
                likelihoods[1] = (-nll).exp();
                likelihoods[2] = 1.0 / count_unmasked(scores) as f64;
            },
        );
        Self {
            data,
            likelihoods,
            weights: [1.0 / 3.0; 3],
        }
    }

    /// Value, slope and curvature in ln β. By the envelope theorem, the slope is that for constant weights; the curvature
    /// for constant weights is an approximation.
    fn at(&mut self, beta: f64) -> Local {
        let data = self.data;
        // For each row, p′/p and p″/p, the derivatives of the label's tempered probability p in β.
        let derivatives: Vec<[f64; 2]> = self
            .likelihoods
            .par_chunks_mut(3)
            .enumerate()
            .map_init(scratch(data), |(z, e), (row, likelihoods)| {
                let label = data.labels()[row] as usize;
                let [nll, slope, variance] =
                    row_nll(data.scores().row(row), beta as f32, label, z, e);
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
                // The fraction of the mixture that is due to the tempered distribution.
                let fraction = part / mixed;
                let [first, second] = derivatives[row];
                let weight = data.weight(row) / data.total_weight();
                slope -= weight * fraction * first;
                curvature += weight * ((fraction * first).powi(2) - fraction * second);
            }
        }
        Local {
            value: found.nll,
            slope: beta * slope,
            curvature: beta * beta * curvature + beta * slope,
        }
    }
}

//! Reading the metrics off a state, with error bounds where the exact value would need the rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bins::{FineBins, FixedBinSum};
use super::fixed::{Fixed, float};
use super::{GRID, MetricState};
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::metrics::binning::{BinSum, Binning, Sorted, debiased_square, power_of_gaps, root};
use crate::metrics::classwise::mean;
use crate::metrics::cox::{self, CoxFit, Points, log_odds};
use crate::metrics::definition::FromState;
use crate::metrics::registry::spiegelhalter_z;
use crate::metrics::smooth::{self, ResidualGrid};

/// The value of a metric, and how far it can be from the one that all rows together would give.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Metric, MetricOptions, MetricState, Predictions};
///
/// let mut state = MetricState::new(2, MetricOptions::default())?;
/// state.update(&Predictions::from_probs(array![[0.7_f64, 0.3]].view(), &[0])?)?;
/// let nll = state.finalize()?[&Metric::Nll];
/// assert!((nll.value + 0.7_f64.ln()).abs() < 1e-9 && nll.error_bound == 0.0);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The exact value is within this distance; 0 for a metric that a state keeps exactly.
    pub error_bound: f64,
}

impl Estimate {
    /// √square, where the exact square is within `bound` of the given one.
    pub(crate) fn root(square: f64, bound: f64) -> Self {
        let value = square.sqrt();
        // |√a − √b| is at most √|a − b| and |a − b|/√b.
        let error_bound = if value > 0.0 {
            bound.sqrt().min(bound / value)
        } else {
            bound.sqrt()
        };
        Self { value, error_bound }
    }
}

impl MetricState {
    /// The metrics of all rows added. Class-wise ones need the [bins of every class](MetricState::has_class_bins);
    /// `marginal_ce`, and of two classes `cox_slope` and `cox_intercept`, are among
    /// them only if the state [keeps them](MetricState::with_marginal).
    ///
    /// Error bounds, with δ the share of the weight in fine bins that a cut between two bins divides:
    /// - `adaptive_ece`: 2δ for `norm` 1, and never more than twice the confidences and hits in those fine
    ///   bins; (2(2p−1) δ)^(1/p) for `norm` p.
    /// - `debiased_ece`, `marginal_ce`: 6δ + 5 bins/(2N) on the square.
    /// - `ks`: how far the cumulative difference can get within a fine bin beyond its values at the ends.
    /// - `auroc`, `ap`, `aurc`, `eaurc`, `accuracy_at_coverage`: how much the order of the rows within the fine bins can change.
    /// - `cox_slope`, `cox_intercept`: twice the effect, to first order, of moving every row within its fine bin.
    /// - `sm_ece`: 0 if the kernel is wider than 1/64; otherwise h/(41 σ) for the grid's step h = 1/8000
    ///   and the kernel's width σ, and 2⁻¹⁰ for the last bisection step of the width.
    ///
    /// # Errors
    /// If no row with a positive weight was added.
    pub fn finalize(&self) -> Result<BTreeMap<Metric, Estimate>> {
        if self.weight <= 0 {
            return Err(Error::NoRows);
        }
        let estimate = |metric: Metric| match metric.definition().from_state {
            FromState::Exact(value) => Some(Estimate {
                value: value(self),
                error_bound: 0.0,
            }),
            FromState::Estimated(estimate) => estimate(self),
        };
        let metrics = Metric::ALL.into_iter();
        let metrics = metrics.filter(|metric| self.has_class_bins() || !metric.is_class_wise());
        Ok(metrics
            .filter_map(|metric| Some((metric, estimate(metric)?)))
            .collect())
    }

    /// The mean confidence of all rows added; minus the accuracy it is positive for overconfident
    /// predictions.
    ///
    /// # Errors
    /// If no row with a positive weight was added.
    pub fn mean_confidence(&self) -> Result<f64> {
        if self.weight <= 0 {
            return Err(Error::NoRows);
        }
        Ok(self.mean(self.top.iter().map(|bin| bin.confidence).sum()))
    }

    fn mean(&self, sum: Fixed) -> f64 {
        float(sum) / float(self.weight)
    }

    pub(crate) fn accuracy(&self) -> f64 {
        self.mean(self.hits)
    }

    pub(crate) fn top_k_accuracy(&self) -> f64 {
        self.mean(self.top_k_hits)
    }

    pub(crate) fn nll(&self) -> f64 {
        if self.impossible > 0 {
            f64::INFINITY
        } else {
            self.mean(self.nll)
        }
    }

    pub(crate) fn brier(&self) -> f64 {
        self.brier_sum() / self.classes as f64
    }

    pub(crate) fn brier_sum(&self) -> f64 {
        self.mean(self.brier)
    }

    pub(crate) fn spiegelhalter_z(&self) -> f64 {
        spiegelhalter_z::ratio(float(self.excess), float(self.excess_variance))
    }

    /// `ece_positive`, if there are two classes.
    pub(crate) fn positive_error(&self) -> Option<Estimate> {
        (self.classes == 2).then(|| Estimate {
            value: root(self.class_errors(Binning::EqualWidth)[1], self.options.norm),
            error_bound: 0.0,
        })
    }

    /// Cox's recalibration from fine bins, with the error bounds of intercept and slope; nothing if the bins of the
    /// second of two classes are not kept, and no fit where the likelihood has no maximum.
    pub(crate) fn cox(&self) -> Option<(Option<CoxFit>, [f64; 2])> {
        let (rows, scale) = if self.classes == 2 {
            let bins = &self.marginal.as_ref()?[FineBins::CLASS.len()..];
            (FineRows::new(bins, self.integer_weights), FineBins::CLASS)
        } else {
            (self.fine_rows(), FineBins::TOP)
        };
        let points = Points {
            log_odds: rows.confidence.iter().map(|&p| log_odds(p)).collect(),
            share: rows.hit.clone(),
            weight: rows.weight.clone(),
        };
        let fit = cox::fit(&points);
        let bounds = fit.map(|fit| fit.error_bounds(&points, |x| scale.log_odds_width(x)));
        Some((fit, bounds.unwrap_or_default()))
    }

    /// The equal-width bins of the top label.
    pub(crate) fn top_bins(&self) -> Vec<BinSum> {
        self.top.iter().map(FixedBinSum::sum).collect()
    }

    /// Σ share · |gap|ᵖ of every class, over its equal-width or left-closed bins.
    pub(crate) fn class_errors(&self, binning: Binning) -> Vec<f64> {
        let bins = match binning {
            Binning::LeftClosed => &self.left_closed,
            _ => &self.classwise,
        };
        let of_class = |bins: &[FixedBinSum]| {
            let bins: Vec<BinSum> = bins.iter().map(FixedBinSum::sum).collect();
            power_of_gaps(&bins, self.options.norm)
        };
        bins.chunks(self.options.bins).map(of_class).collect()
    }

    /// The fine bins of the top label.
    pub(crate) fn fine_rows(&self) -> FineRows {
        FineRows::new(&self.fine, self.integer_weights)
    }

    /// `marginal_ce` from the fine bins of every class, if they are kept.
    pub(crate) fn marginal_error(&self) -> Option<Estimate> {
        let of_class = |bins: &[FixedBinSum]| {
            FineRows::new(bins, self.integer_weights).debiased_square(self.options.bins)
        };
        let bins = self.marginal.as_ref()?.chunks(FineBins::CLASS.len());
        let (squares, bounds): (Vec<f64>, Vec<f64>) = bins.map(of_class).unzip();
        Some(Estimate::root(mean(&squares), mean(&bounds)))
    }

    /// `sm_ece` from the grid of residuals.
    pub(crate) fn smooth_error(&self) -> Estimate {
        let step = 1.0 / GRID as f64;
        let (value, width) = smooth::fixed_point(|width| {
            let intervals = smooth::grid_intervals(width);
            let mut grid = ResidualGrid::new(intervals);
            // Dividing a node between the nodes of a coarser grid that contains it is exact.
            for (node, (&residual, &weight)) in self.residual.iter().zip(&self.density).enumerate()
            {
                grid.add(node as f64 * step, float(residual), float(weight));
            }
            smooth::error_at(&grid, width)
        });
        // With a result above 1/64 the bisection never tried a width below 1/100, so all grids were
        // relplot's coarsest one, of which this grid is a refinement.
        let error_bound = if width > 1.0 / 64.0 {
            0.0
        } else {
            step / width / 41.0 + 1.0 / 1024.0
        };
        Estimate { value, error_bound }
    }
}

/// Fine bins, each as a group of rows with equal confidences.
pub(crate) struct FineRows {
    pub(crate) confidence: Vec<f64>,
    pub(crate) hit: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    integer_weights: bool,
}

impl FineRows {
    fn new(bins: &[FixedBinSum], integer_weights: bool) -> Self {
        let mut rows = Self {
            confidence: Vec::new(),
            hit: Vec::new(),
            weight: Vec::new(),
            integer_weights,
        };
        for sum in bins.iter().map(FixedBinSum::sum) {
            if !sum.is_empty() {
                rows.confidence.push(sum.confidence / sum.weight);
                rows.hit.push(sum.hits / sum.weight);
                rows.weight.push(sum.weight);
            }
        }
        rows
    }

    pub(crate) fn sorted(&self) -> Sorted<'_> {
        Sorted {
            confidence: &self.confidence,
            hit: &self.hit,
            weight: Some(&self.weight),
            integer_weights: self.integer_weights,
        }
    }

    /// The share of the weight in fine bins that a cut between two equal-mass bins divides, and the mean of
    /// confidence + hit over all rows that those fine bins contribute.
    pub(crate) fn shares_at_cuts(&self, bins: usize) -> (f64, f64) {
        let total: f64 = self.weight.iter().sum();
        let cuts = self.sorted().equal_mass_cuts(bins);
        let (mut weight, mut terms) = (0.0, 0.0);
        let mut reached = 0.0;
        for ((&w, &c), &h) in self.weight.iter().zip(&self.confidence).zip(&self.hit) {
            let end = reached + w;
            if cuts.iter().any(|&cut| cut > reached && cut < end) {
                weight += w;
                terms += w * (c + h);
            }
            reached = end;
        }
        (weight / total, terms / total)
    }

    /// The square of the debiased error and its error bound.
    pub(crate) fn debiased_square(&self, bins: usize) -> (f64, f64) {
        let (weight, _) = self.shares_at_cuts(bins);
        let square = debiased_square(&self.sorted().bin_sums(Binning::EqualMass, bins));
        // If no cut divides a fine bin, the equal-mass bins are those of the rows.
        let bound = if weight > 0.0 {
            6.0 * weight + 2.5 * bins as f64 / self.weight.iter().sum::<f64>()
        } else {
            0.0
        };
        (square, bound)
    }
}

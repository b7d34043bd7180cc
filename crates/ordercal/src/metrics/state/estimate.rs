//! Reading the metrics off a state, with error bounds where the exact value would need the rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bins::{FineBins, FixedBinSum};
use super::fixed::{Fixed, float};
use super::{
    BRIER, CLASSWISE, EXCESS, EXCESS_VARIANCE, FINE, GRID, HITS, LEFT_CLOSED, MARGINAL,
    MetricState, NLL, TOP, TOP_K_HITS, WEIGHT,
};
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::metrics::binning::{BinSum, Binning, Sorted, debiased_square, power_of_gaps};
use crate::metrics::classwise::mean;
use crate::metrics::cox::{self, Points, log_odds};
use crate::metrics::definition::Compute;
use crate::metrics::ranking::{self, Tied, by_descending_confidence};
use crate::metrics::smooth::{self, ResidualGrid};
use crate::metrics::spiegelhalter;

/// The value of a metric, and how far it can be from the one that all rows together would give.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The exact value is within this distance; 0 for a metric that a state keeps exactly.
    pub error_bound: f64,
}

impl Estimate {
    fn exact(value: f64) -> Self {
        let error_bound = 0.0;
        Self { value, error_bound }
    }
}

/// How far the root of `value²` can be from that of a square within `bound` of it.
fn bound_of_root(value: f64, bound: f64) -> f64 {
    // |√a − √b| is at most √|a − b| and |a − b|/√b.
    if value > 0.0 {
        bound.sqrt().min(bound / value)
    } else {
        bound.sqrt()
    }
}

pub(super) fn sums(bins: &[FixedBinSum]) -> Vec<BinSum> {
    bins.iter().map(FixedBinSum::sum).collect()
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
        self.check_rows()?;
        let fine = FineRows::new(&self.tables[FINE], self.integer_weights);
        let metrics = Metric::for_classes(self.classes).into_iter();
        let metrics = metrics.filter(|metric| self.has_class_bins() || !metric.is_class_wise());
        Ok(metrics
            .filter_map(|metric| Some((metric, self.estimate(metric, &fine)?)))
            .collect())
    }

    fn estimate(&self, metric: Metric, fine: &FineRows) -> Option<Estimate> {
        let value = match (metric, &metric.definition().compute) {
            (Metric::Accuracy, _) => self.mean(self.sums[HITS]),
            (Metric::Top5, _) => self.mean(self.sums[TOP_K_HITS]),
            (Metric::Nll, _) if self.impossible > 0 => f64::INFINITY,
            (Metric::Nll, _) => self.mean(self.sums[NLL]),
            (Metric::Brier, _) => self.mean(self.sums[BRIER]) / self.classes as f64,
            (Metric::SpiegelhalterZ, _) => {
                spiegelhalter::ratio(float(self.sums[EXCESS]), float(self.sums[EXCESS_VARIANCE]))
            }
            (Metric::CoxSlope, _) => return Some(self.cox(fine)?[1]),
            (Metric::CoxIntercept, _) => return Some(self.cox(fine)?[0]),
            // The only other mean over rows is `brier_sum`.
            (_, Compute::Rows(_)) => self.mean(self.sums[BRIER]),
            (_, Compute::Bins(Binning::EqualMass, compute)) => {
                let sums = fine
                    .sorted()
                    .bin_sums(Binning::EqualMass, self.options.bins);
                let value = compute(&sums, &self.options);
                let error_bound = self.equal_mass_bound(metric, fine, value);
                return Some(Estimate { value, error_bound });
            }
            (_, Compute::Bins(_, compute)) => compute(&sums(&self.tables[TOP]), &self.options),
            (_, Compute::PerClass(Binning::EqualMass, _)) => return self.marginal_error(),
            (_, Compute::PerClass(binning, combine)) => {
                combine(&self.class_errors(*binning), &self.options)
            }
            (Metric::SmEce, _) => return Some(self.smooth_error()),
            (_, Compute::TopLabel(compute)) => {
                let value = compute(&fine.sorted(), &self.options);
                let groups = by_descending_confidence(&fine.sorted());
                let error_bound = match metric {
                    Metric::Ks => fine.furthest_gap() - value,
                    Metric::Auroc => ranking::area(&groups).1,
                    Metric::Ap => ranking::mean_risk(&groups, |group| group.right).1,
                    Metric::AccuracyAtCoverage => ranking::accuracy_at_coverage(&groups).1,
                    _ => ranking::mean_risk(&groups, Tied::weight).1,
                };
                // It is NaN where the metric is undefined.
                let error_bound = error_bound.max(0.0);
                return Some(Estimate { value, error_bound });
            }
        };
        Some(Estimate::exact(value))
    }

    /// How far a metric of bins of equal mass can be from that of the rows.
    fn equal_mass_bound(&self, metric: Metric, fine: &FineRows, value: f64) -> f64 {
        let (bins, norm) = (self.options.bins, self.options.norm);
        let (weight, terms) = fine.shares_at_cuts(bins);
        match metric {
            Metric::DebiasedEce => bound_of_root(value, fine.debiased_bound(bins)),
            _ if norm <= 1.0 => 2.0 * weight.min(terms),
            _ => (2.0 * (2.0 * norm - 1.0) * weight).powf(1.0 / norm),
        }
    }

    /// The mean confidence of all rows added; minus the accuracy it is positive for overconfident
    /// predictions.
    ///
    /// # Errors
    /// If no row with a positive weight was added.
    pub fn mean_confidence(&self) -> Result<f64> {
        self.check_rows()?;
        Ok(self.mean(self.tables[TOP].iter().map(|bin| bin.confidence).sum()))
    }

    pub(super) fn check_rows(&self) -> Result<()> {
        if self.sums[WEIGHT] > 0 {
            Ok(())
        } else {
            Err(Error::NoRows)
        }
    }

    fn mean(&self, sum: Fixed) -> f64 {
        float(sum) / float(self.sums[WEIGHT])
    }

    /// Cox's recalibration from fine bins: the intercept and the slope, NaN where the likelihood has no maximum; nothing
    /// if the bins of the second of two classes are not kept.
    fn cox(&self, fine: &FineRows) -> Option<[Estimate; 2]> {
        let second;
        let (rows, scale) = if self.classes == 2 {
            let bins = self.tables[MARGINAL].get(FineBins::CLASS.len()..)?;
            second = FineRows::new(bins, self.integer_weights);
            (&second, FineBins::CLASS)
        } else {
            (fine, FineBins::TOP)
        };
        let points = Points {
            log_odds: rows.confidence.iter().map(|&p| log_odds(p)).collect(),
            share: rows.hit.clone(),
            weight: rows.weight.clone(),
        };
        let Some(fit) = cox::fit(&points) else {
            return Some([Estimate::exact(f64::NAN); 2]);
        };
        let bounds = fit.error_bounds(&points, |x| scale.log_odds_width(x));
        let estimate = |value, error_bound| Estimate { value, error_bound };
        Some([
            estimate(fit.intercept, bounds[0]),
            estimate(fit.slope, bounds[1]),
        ])
    }

    /// Σ share · |gap|ᵖ of every class, over its equal-width or left-closed bins.
    fn class_errors(&self, binning: Binning) -> Vec<f64> {
        let bins = match binning {
            Binning::LeftClosed => &self.tables[LEFT_CLOSED],
            _ => &self.tables[CLASSWISE],
        };
        let of_class = |bins: &[FixedBinSum]| power_of_gaps(&sums(bins), self.options.norm);
        bins.chunks(self.options.bins).map(of_class).collect()
    }

    /// `marginal_ce` from the fine bins of every class, if they are kept.
    fn marginal_error(&self) -> Option<Estimate> {
        let bins = self.options.bins;
        let of_class = |class: &[FixedBinSum]| {
            let rows = FineRows::new(class, self.integer_weights);
            let sums = rows.sorted().bin_sums(Binning::EqualMass, bins);
            (debiased_square(&sums), rows.debiased_bound(bins))
        };
        let classes = self.tables[MARGINAL].chunks(FineBins::CLASS.len());
        let (squares, bounds): (Vec<f64>, Vec<f64>) = classes.map(of_class).unzip();
        let value = mean(&squares).sqrt();
        let error_bound = bound_of_root(value, mean(&bounds));
        self.has_marginal()
            .then_some(Estimate { value, error_bound })
    }

    /// `sm_ece` from the grid of residuals.
    fn smooth_error(&self) -> Estimate {
        let step = 1.0 / GRID as f64;
        let (value, width) = smooth::fixed_point(|width| {
            let mut grid = ResidualGrid::new(smooth::grid_intervals(width));
            // Dividing a node between the nodes of a coarser grid that contains it is exact.
            for (node, &[residual, weight]) in self.grid.iter().enumerate() {
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
struct FineRows {
    confidence: Vec<f64>,
    hit: Vec<f64>,
    weight: Vec<f64>,
    integer_weights: bool,
}

impl FineRows {
    fn new(bins: &[FixedBinSum], integer_weights: bool) -> Self {
        let mut sums = sums(bins);
        sums.retain(|sum| !sum.is_empty());
        Self {
            confidence: sums.iter().map(|sum| sum.confidence / sum.weight).collect(),
            hit: sums.iter().map(|sum| sum.hits / sum.weight).collect(),
            weight: sums.iter().map(|sum| sum.weight).collect(),
            integer_weights,
        }
    }

    fn sorted(&self) -> Sorted<'_> {
        Sorted {
            confidence: &self.confidence,
            hit: &self.hit,
            weight: Some(&self.weight),
            integer_weights: self.integer_weights,
        }
    }

    /// The weight, Σ weight · confidence and Σ weight · hit of each.
    fn terms(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let rows = self.weight.iter().zip(&self.confidence).zip(&self.hit);
        rows.map(|((&weight, confidence), hit)| (weight, weight * confidence, weight * hit))
    }

    /// The share of the weight in fine bins that a cut between two equal-mass bins divides, and the mean of
    /// confidence + hit over all rows that those fine bins contribute.
    fn shares_at_cuts(&self, bins: usize) -> (f64, f64) {
        let cuts = self.sorted().equal_mass_cuts(bins);
        let (mut weight, mut terms, mut reached) = (0.0, 0.0, 0.0);
        for (w, confidence, hits) in self.terms() {
            let end = reached + w;
            if cuts.iter().any(|&cut| cut > reached && cut < end) {
                weight += w;
                terms += confidence + hits;
            }
            reached = end;
        }
        (weight / reached, terms / reached)
    }

    /// How far the square of the debiased error can be off.
    fn debiased_bound(&self, bins: usize) -> f64 {
        let (weight, _) = self.shares_at_cuts(bins);
        // If no cut divides a fine bin, the equal-mass bins are those of the rows.
        if weight > 0.0 {
            6.0 * weight + 2.5 * bins as f64 / self.weight.iter().sum::<f64>()
        } else {
            0.0
        }
    }

    /// How far from 0 the cumulative difference can get: within a fine bin, some of its confidences and hits have been
    /// added and the others have not.
    fn furthest_gap(&self) -> f64 {
        let (mut furthest, mut total, mut before) = (0.0_f64, 0.0, 0.0);
        for (weight, confidence, hits) in self.terms() {
            let after = before + confidence - hits;
            let highest = f64::min(before + confidence, after + hits);
            let lowest = f64::max(before - hits, after - confidence);
            furthest = furthest.max(highest).max(-lowest);
            before = after;
            total += weight;
        }
        furthest / total
    }
}

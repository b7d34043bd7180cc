//! Reading the metrics off a state, with bounds where rows would be needed for the exact value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fixed::float;
use super::table::{Cell, Scale};
use super::{GRID, MetricState};
use crate::error::{Error, Result};
use crate::metrics::binning::{BinSum, Sorted, debiased_square, error_power, largest_gap, root};
use crate::metrics::classwise::combine;
use crate::metrics::metric::{Metric, MetricOptions};
use crate::metrics::smooth::{self, Grid};
use crate::metrics::top_label::error_of;

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
        Self {
            value,
            error_bound: 0.0,
        }
    }
}

impl MetricState {
    /// The metrics of all rows taken in; `marginal_ce` is among them if it was
    /// [asked for](MetricState::with_marginal).
    ///
    /// Bounds, with δ the share of the weight in fine cells that hold a cut between bins:
    /// - `adaptive_ece`: 2 Σδ for `norm` 1, and never more than the confidences and hits in those cells;
    ///   (2(2p−1) Σδ)^(1/p) for `norm` p.
    /// - `debiased_ece`, `marginal_ce`: 6 Σδ + 5 bins/(2N) on the square.
    /// - `ks`: how far the cumulative gap can get inside a cell beyond its value at the cell's ends.
    /// - `sm_ece`: none if the kernel is wider than 1/64; otherwise h/(41 σ) for the grid's step h = 1/8000
    ///   and the kernel's width σ, and 2⁻¹⁰ for the last step in the search of the width.
    ///
    /// # Errors
    /// If no row with a positive weight was taken in.
    pub fn finalize(&self) -> Result<BTreeMap<Metric, Estimate>> {
        if self.weight <= 0 {
            return Err(Error::NoRows);
        }
        let total = float(self.weight);
        let nll = if self.impossible > 0 {
            f64::INFINITY
        } else {
            float(self.nll) / total
        };
        let norm = self.options.norm;
        let top: Vec<BinSum> = self.top.iter().map(Cell::sum).collect();
        let fine = FineRows::new(&self.fine);
        let mut values = BTreeMap::from([
            (Metric::Accuracy, Estimate::exact(float(self.hits) / total)),
            (
                Metric::Top5,
                Estimate::exact(float(self.top_k_hits) / total),
            ),
            (Metric::Nll, Estimate::exact(nll)),
            (
                Metric::Brier,
                Estimate::exact(float(self.brier) / total / self.classes as f64),
            ),
            (
                Metric::Ece,
                Estimate::exact(root(error_power(&top, norm), norm)),
            ),
            (Metric::Mce, Estimate::exact(largest_gap(&top))),
            (
                Metric::AdaptiveEce,
                fine.adaptive(self.whole, &self.options),
            ),
            (
                Metric::DebiasedEce,
                fine.debiased(self.whole, &self.options),
            ),
            (Metric::Ks, fine.ks(self.whole, &self.options)),
            (Metric::SmEce, self.smooth()),
        ]);
        for (metric, table) in [
            (Metric::ClasswiseEce, &self.classwise),
            (Metric::ClasswiseEceSum, &self.left_closed),
        ] {
            let errors: Vec<f64> = table
                .chunks(self.options.bins)
                .map(|cells| error_power(&cells.iter().map(Cell::sum).collect::<Vec<_>>(), norm))
                .collect();
            values.insert(metric, Estimate::exact(combine(metric, &errors, norm)));
        }
        if let Some(cells) = &self.marginal {
            values.insert(Metric::MarginalCe, self.marginal(cells));
        }
        Ok(values)
    }

    /// The mean confidence of all rows taken in; minus the accuracy, it says which way the confidence errs.
    ///
    /// # Errors
    /// If no row with a positive weight was taken in.
    pub fn mean_confidence(&self) -> Result<f64> {
        if self.weight <= 0 {
            return Err(Error::NoRows);
        }
        let sum: super::Fixed = self.top.iter().map(|cell| cell.confidence).sum();
        Ok(float(sum) / float(self.weight))
    }

    fn marginal(&self, cells: &[Cell]) -> Estimate {
        let per_class: Vec<(f64, f64)> = cells
            .chunks(Scale::CLASS.len())
            .map(|cells| FineRows::new(cells).debiased_square(self.whole, &self.options))
            .collect();
        let squares: Vec<f64> = per_class.iter().map(|&(square, _)| square).collect();
        let bound = per_class.iter().map(|&(_, bound)| bound).sum::<f64>() / self.classes as f64;
        let value = combine(Metric::MarginalCe, &squares, self.options.norm);
        Estimate {
            value,
            error_bound: root_bound(value, bound),
        }
    }

    fn smooth(&self) -> Estimate {
        let step = 1.0 / GRID as f64;
        let (value, width) = smooth::fixed_point(|width| {
            let intervals = smooth::grid_intervals(width);
            let mut grid = Grid {
                residual: vec![0.0; intervals + 1],
                weight: vec![0.0; intervals + 1],
            };
            // Splitting a node between the nodes of a coarser grid that contains it is exact.
            for (node, (&residual, &weight)) in self.residual.iter().zip(&self.density).enumerate()
            {
                let at = node as f64 * step;
                let (target, fraction) = smooth::locate(at, intervals);
                grid.residual[target] += (1.0 - fraction) * float(residual);
                grid.residual[target + 1] += fraction * float(residual);
                grid.weight[target] += (1.0 - fraction) * float(weight);
                grid.weight[target + 1] += fraction * float(weight);
            }
            smooth::error_at(&grid, width)
        });
        // Wider kernels than this never made the search look at one below 1/100, where the grid is finer.
        let exact = width > 1.0 / 64.0;
        let error_bound = if exact {
            0.0
        } else {
            step / width / 41.0 + 1.0 / 1024.0
        };
        Estimate { value, error_bound }
    }
}

/// √(v² ± bound) is within this of v.
fn root_bound(value: f64, bound: f64) -> f64 {
    // |√a − √b| is at most √|a − b| and |a − b|/√b.
    if value > 0.0 {
        bound.sqrt().min(bound / value)
    } else {
        bound.sqrt()
    }
}

/// Fine cells as if each were a group of rows with equal confidences.
struct FineRows {
    confidence: Vec<f64>,
    hit: Vec<f64>,
    weight: Vec<f64>,
}

impl FineRows {
    fn new(cells: &[Cell]) -> Self {
        let sums = cells.iter().map(Cell::sum).filter(|sum| !sum.is_empty());
        let mut rows = Self {
            confidence: Vec::new(),
            hit: Vec::new(),
            weight: Vec::new(),
        };
        for sum in sums {
            rows.confidence.push(sum.confidence / sum.weight);
            rows.hit.push(sum.hits / sum.weight);
            rows.weight.push(sum.weight);
        }
        rows
    }

    fn sorted(&self, whole: bool) -> Sorted<'_> {
        Sorted {
            confidence: &self.confidence,
            hit: &self.hit,
            weight: Some(&self.weight),
            whole,
        }
    }

    fn total(&self) -> f64 {
        self.weight.iter().sum()
    }

    /// The shares of the weight, and of the confidences and hits, in cells that hold a cut.
    fn cut_shares(&self, whole: bool, bins: usize) -> (f64, f64) {
        let total = self.total();
        let cuts = self.sorted(whole).equal_mass_cuts(bins);
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

    fn adaptive(&self, whole: bool, options: &MetricOptions) -> Estimate {
        let (weight, terms) = self.cut_shares(whole, options.bins);
        let norm = options.norm;
        let error_bound = if norm <= 1.0 {
            2.0 * weight.min(terms)
        } else {
            (2.0 * (2.0 * norm - 1.0) * weight).powf(1.0 / norm)
        };
        Estimate {
            value: error_of(Metric::AdaptiveEce, &self.sorted(whole), options),
            error_bound,
        }
    }

    /// The square of the debiased error and its bound.
    fn debiased_square(&self, whole: bool, options: &MetricOptions) -> (f64, f64) {
        use crate::metrics::binning::Binning::EqualMass;
        let (weight, _) = self.cut_shares(whole, options.bins);
        let square = debiased_square(&self.sorted(whole).bin_sums(EqualMass, options.bins));
        // Without a cut inside a cell the bins are the same, and so is everything else.
        let bound = if weight > 0.0 {
            6.0 * weight + 2.5 * options.bins as f64 / self.total()
        } else {
            0.0
        };
        (square, bound)
    }

    fn debiased(&self, whole: bool, options: &MetricOptions) -> Estimate {
        let (square, bound) = self.debiased_square(whole, options);
        let value = square.sqrt();
        Estimate {
            value,
            error_bound: root_bound(value, bound),
        }
    }

    fn ks(&self, whole: bool, options: &MetricOptions) -> Estimate {
        let value = error_of(Metric::Ks, &self.sorted(whole), options);
        let mut furthest: f64 = 0.0;
        let mut before = 0.0;
        for ((&w, &c), &h) in self.weight.iter().zip(&self.confidence).zip(&self.hit) {
            let (confidence, hits) = (w * c, w * h);
            let after = before + confidence - hits;
            // Inside, some of the cell's confidences and hits have been added and the others have not.
            let highest = f64::min(before + confidence, after + hits);
            let lowest = f64::max(before - hits, after - confidence);
            furthest = furthest.max(highest).max(-lowest);
            before = after;
        }
        Estimate {
            value,
            error_bound: (furthest / self.total() - value).max(0.0),
        }
    }
}

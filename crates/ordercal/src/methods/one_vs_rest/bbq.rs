//! Bayesian binning into quantiles, one class against the rest (Naeini et al., 2015).

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use super::histogram::{cumulative, quantile_ends};
use crate::data::Dataset;
use crate::error::Result;
use crate::math::gamma::ln_gamma;
use crate::methods::binary::fit_curves;
use crate::methods::points::{Point, midpoint, points};
use crate::methods::{Calibrator, Describe, Fitted, check_positive};
use crate::models::{Curve, CurveKind};
use crate::watch::Watch;

/// Bayesian binning into quantiles: for each class, an average of equal-mass histograms with different numbers of bins,
/// weighted by their marginal likelihood; then rows are normalised. Predictions may change.
///
/// For n cases, the number of bins B goes from n^⅓/10 to 10·n^⅓. Each bin has the prior Beta(α·c, α·(1 − c)) with
/// α = `prior`/B and c the middle of the bin; its value is the posterior mean. Histograms whose marginal likelihood is less
/// than a thousandth of the largest are left out. The learned average is a step function per class, or a single one for two
/// classes. The normalised row is mixed with the uniform distribution of weight `smoothing`/(n + 1).
///
/// M. P. Naeini, G. F. Cooper, M. Hauskrecht: *Obtaining Well Calibrated Probabilities Using Bayesian
/// Binning*, AAAI 2015.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Bbq {
    /// The weight of the prior of a histogram, in cases; it is divided evenly among the bins. Positive.
    pub prior: f64,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
    pub smoothing: f64,
}

impl Default for Bbq {
    fn default() -> Self {
        Self {
            prior: 2.0,
            smoothing: 1.0,
        }
    }
}

impl Describe for Bbq {
    const BRIEF: &'static str = "an average of binnings per class";
    const PYTHON_CLASS: &'static str = "BBQ";
}

impl Calibrator for Bbq {
    fn validate(&self) -> Result<()> {
        check_positive("prior", self.prior)?;
        check_positive("smoothing", self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        fit_curves(data, self.smoothing, CurveKind::Steps, watch, |cases| {
            average(&points(cases), self.prior)
        })
    }
}

/// Histograms with a smaller marginal likelihood relative to the largest are left out (Occam's window).
const OCCAM: f64 = 1e-3;
/// The number of bins goes from n^⅓ divided by this to n^⅓ times this.
const RANGE: f64 = 10.0;

/// A histogram of posterior means.
struct Candidate {
    curve: Curve,
    /// The log marginal likelihood of the labels.
    evidence: f64,
}

/// Cumulative sums over the points, from which the sums of any bin are found in constant time.
struct Sums {
    weight: Vec<f64>,
    positives: Vec<f64>,
}

fn average(points: &[Point], prior: f64) -> Curve {
    if points.is_empty() {
        return Curve {
            x: vec![0.0],
            y: vec![0.5],
        };
    }
    let sums = Sums {
        weight: cumulative(points, |point| point.weight),
        positives: cumulative(points, |point| point.positives),
    };
    let root = sums.weight[points.len()].cbrt();
    let fewest = ((root / RANGE) as usize).max(1);
    let most = ((root * RANGE) as usize).clamp(fewest, 100_000);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut last = 0;
    for bins in fewest..=most {
        let ends = quantile_ends(&sums.weight, bins);
        // With at least as many bins as points, the histogram no longer changes.
        if ends.len() == points.len() && last == points.len() {
            break;
        }
        last = ends.len();
        candidates.push(candidate(points, &sums, &ends, prior));
    }
    let best = candidates
        .iter()
        .fold(f64::NEG_INFINITY, |m, c| m.max(c.evidence));
    candidates.retain(|c| c.evidence >= best + OCCAM.ln());
    let weights: Vec<f64> = candidates
        .iter()
        .map(|c| (c.evidence - best).exp())
        .collect();
    let total: f64 = weights.iter().sum();
    let mut edges: Vec<f64> = candidates.iter().flat_map(|c| c.curve.x.clone()).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let mut values = vec![0.0; edges.len()];
    for (candidate, weight) in candidates.iter().zip(&weights) {
        let curve = &candidate.curve;
        // The step at the upper end of each bin; both lists of edges ascend.
        let mut step = 0;
        for (bin, value) in values.iter_mut().enumerate() {
            let inside = edges.get(bin + 1).copied().unwrap_or(1.0);
            while step + 1 < curve.x.len() && curve.x[step + 1] < inside {
                step += 1;
            }
            *value += weight * curve.y[step];
        }
    }
    for value in &mut values {
        *value = (*value / total).clamp(0.0, 1.0);
    }
    Curve {
        x: edges,
        y: values,
    }
}

fn candidate(points: &[Point], sums: &Sums, ends: &[usize], prior: f64) -> Candidate {
    let bin_prior = prior / ends.len() as f64;
    let own = ln_gamma(bin_prior);
    let mut curve = Curve::default();
    let mut evidence = 0.0;
    let mut first = 0;
    let mut low = 0.0;
    for &end in ends {
        let high = if end == points.len() {
            1.0
        } else {
            midpoint(points[end - 1].x, points[end].x)
        };
        let weight = sums.weight[end] - sums.weight[first];
        let positives = sums.positives[end] - sums.positives[first];
        // At 0 or 1 the prior would exclude positive or negative cases.
        let middle = (0.5 * (low + high)).clamp(1e-6, 1.0 - 1e-6);
        let (alpha, beta) = (bin_prior * middle, bin_prior * (1.0 - middle));
        evidence += own - ln_gamma(weight + bin_prior) + ln_gamma(positives + alpha)
            - ln_gamma(alpha)
            + ln_gamma(weight - positives + beta)
            - ln_gamma(beta);
        curve.x.push(low);
        curve.y.push((positives + alpha) / (weight + bin_prior));
        first = end;
        low = high;
    }
    Candidate { curve, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let mut rng = crate::rng::Rng::new(96);
        let mut x = 0.0;
        (0..60)
            .map(|_| {
                x += 0.016 * rng.uniform();
                let positives = f64::from(u8::from(rng.uniform() < x * x));
                Point {
                    x,
                    weight: 1.0,
                    positives,
                }
            })
            .collect()
    }

    /// The average as in the paper, without Occam's window.
    fn direct(points: &[Point], at: f64) -> f64 {
        let root = (points.len() as f64).cbrt();
        let (mut sum, mut total) = (0.0, 0.0);
        for bins in ((root / 10.0) as usize).max(1)..=(root * 10.0) as usize {
            let ends = quantile_ends(&cumulative(points, |point| point.weight), bins);
            let bin_prior = 2.0 / ends.len() as f64;
            let (mut likelihood, mut value) = (1.0, 0.0);
            let mut first = 0;
            for &end in &ends {
                let edge = |i: usize| match i {
                    0 => 0.0,
                    i if i == points.len() => 1.0,
                    i => 0.5 * (points[i - 1].x + points[i].x),
                };
                let (low, high) = (edge(first), edge(end));
                let (alpha, beta) = (
                    bin_prior * 0.5 * (low + high),
                    bin_prior * (1.0 - 0.5 * (low + high)),
                );
                let (mut a, mut b) = (alpha, beta);
                // The marginal likelihood as a product over the cases.
                for point in &points[first..end] {
                    likelihood *= if point.positives > 0.0 { a } else { b } / (a + b);
                    if point.positives > 0.0 {
                        a += 1.0;
                    } else {
                        b += 1.0;
                    }
                }
                if low < at && at <= high {
                    value = a / (a + b);
                }
                first = end;
            }
            sum += likelihood * value;
            total += likelihood;
        }
        sum / total
    }

    #[test]
    fn the_average_agrees_with_the_formula_of_the_paper() {
        let points = points();
        let curve = average(&points, 2.0);
        for i in 1..100 {
            let at = f64::from(i) / 100.0;
            let ours = curve.at(CurveKind::Steps, at);
            let exact = direct(&points, at);
            // The histograms outside the window have little weight.
            assert!((ours - exact).abs() < 5e-3, "{at}: {ours} {exact}");
        }
    }

    #[test]
    fn an_average_is_never_zero_or_one() {
        let curve = average(&points(), 2.0);
        assert!(curve.y.iter().all(|&y| y > 0.0 && y < 1.0));
        assert_eq!(average(&[], 2.0).y, [0.5]);
    }
}

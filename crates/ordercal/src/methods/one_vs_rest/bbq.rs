//! Bayesian binning into quantiles, one class against the rest (Naeini et al., 2015).

use serde::{Deserialize, Serialize};

use super::histogram::quantile_ends;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::math::gamma::ln_gamma;
use crate::methods::binary::{check_smoothing, fit_maps, fitted, share};
use crate::methods::likelihood::plain_nll;
use crate::methods::points::{Point, between, points};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::{Curve, CurveKind, CurvesModel};
use crate::watch::Watch;

/// Bayesian binning into quantiles: an average over equal-mass histograms of many sizes, weighted by how
/// likely each makes the labels; then rows are normalised. Predictions may change.
///
/// With n cases the sizes go from n^⅓/10 to 10·n^⅓. In a histogram of B bins, bin b has the prior
/// Beta(2/B · c, 2/B · (1 − c)) with c its middle, and says the posterior mean. A histogram's weight is its
/// marginal likelihood; those less than a thousandth as likely as the best are left out. The average is one
/// step function per class; a binary problem has a single one. No bin says 0, but a row's probabilities can
/// be tiny: the normalised row keeps a share `smoothing`/(n + 1) of the uniform distribution.
///
/// M. P. Naeini, G. F. Cooper, M. Hauskrecht: *Obtaining Well Calibrated Probabilities Using Bayesian
/// Binning*, AAAI 2015.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Bbq, Dataset, Method, ScoreKind, Scores};
///
/// let probs = array![[0.99_f64, 0.01], [0.98, 0.02], [0.02, 0.98], [0.01, 0.99]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 0, 1])?;
/// let fitted = Method::from(Bbq::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Bbq {
    /// The weight of a histogram's prior, in cases, shared by its bins.
    pub prior: f64,
    /// How much of the uniform distribution is mixed in: a share `smoothing`/(n + 1).
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

impl Bbq {
    /// Sets the weight of a histogram's prior, in cases.
    #[must_use]
    pub fn with_prior(mut self, prior: f64) -> Self {
        self.prior = prior;
        self
    }

    /// Sets how much of the uniform distribution is mixed in.
    #[must_use]
    pub fn with_smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }
}

impl Describe for Bbq {
    const BRIEF: &'static str = "an average of binnings per class";
    const PYTHON_CLASS: &'static str = "BBQ";
}

impl Calibrator for Bbq {
    fn validate(&self) -> Result<()> {
        if !(self.prior > 0.0 && self.prior.is_finite()) {
            return Err(Error::invalid("prior", self.prior, "a positive number"));
        }
        check_smoothing(self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let before = plain_nll(data);
        let curves = fit_maps(data, before, watch, |cases| {
            average(&points(cases), self.prior)
        })?;
        let share = share(self.smoothing, data);
        let model = CurvesModel::new(data.classes(), share, CurveKind::Steps, curves);
        Ok(fitted(model, data, before))
    }
}

/// Histograms less likely than this share of the best are left out.
const OCCAM: f64 = 1e-3;
/// The sizes go from n^⅓ divided by this to n^⅓ times this.
const RANGE: f64 = 10.0;

/// A histogram with its posterior means, and how likely it makes the labels.
struct Candidate {
    curve: Curve,
    evidence: f64,
}

/// Running sums, so that a bin costs the same whatever it holds.
struct Sums {
    weight: Vec<f64>,
    hits: Vec<f64>,
}

fn average(points: &[Point], prior: f64) -> Curve {
    if points.is_empty() {
        return Curve {
            x: vec![0.0],
            y: vec![0.5],
        };
    }
    let mut sums = Sums {
        weight: vec![0.0],
        hits: vec![0.0],
    };
    for (index, point) in points.iter().enumerate() {
        sums.weight.push(sums.weight[index] + point.weight);
        sums.hits.push(sums.hits[index] + point.hits);
    }
    let root = sums.weight[points.len()].cbrt();
    let fewest = ((root / RANGE) as usize).max(1);
    let most = ((root * RANGE) as usize).clamp(fewest, 100_000);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut last = 0;
    for bins in fewest..=most {
        let ends = quantile_ends(points, bins);
        // More bins than points give the same histogram again.
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
    let value = |bin: usize| {
        let inside = match edges.get(bin + 1) {
            Some(&next) => next,
            None => 1.0,
        };
        let sum: f64 = candidates
            .iter()
            .zip(&weights)
            .map(|(c, w)| w * c.curve.at(CurveKind::Steps, inside))
            .sum();
        (sum / total).clamp(0.0, 1.0)
    };
    Curve {
        y: (0..edges.len()).map(value).collect(),
        x: edges,
    }
}

fn candidate(points: &[Point], sums: &Sums, ends: &[usize], prior: f64) -> Candidate {
    let share = prior / ends.len() as f64;
    let mut curve = Curve::default();
    let mut evidence = 0.0;
    let mut first = 0;
    let mut low = 0.0;
    for &end in ends {
        let high = if end == points.len() {
            1.0
        } else {
            between(points[end - 1].x, points[end].x)
        };
        let weight = sums.weight[end] - sums.weight[first];
        let hits = sums.hits[end] - sums.hits[first];
        // At the very ends of the range the prior would rule out a hit, or a miss.
        let middle = (0.5 * (low + high)).clamp(1e-6, 1.0 - 1e-6);
        let (alpha, beta) = (share * middle, share * (1.0 - middle));
        evidence += ln_gamma(share) - ln_gamma(weight + share) + ln_gamma(hits + alpha)
            - ln_gamma(alpha)
            + ln_gamma(weight - hits + beta)
            - ln_gamma(beta);
        curve.x.push(low);
        curve.y.push((hits + alpha) / (weight + share));
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
                let hits = f64::from(u8::from(rng.uniform() < x * x));
                Point {
                    x,
                    weight: 1.0,
                    hits,
                }
            })
            .collect()
    }

    /// The average as the paper writes it down, without a window: products instead of running sums.
    fn slow(points: &[Point], at: f64) -> f64 {
        let root = (points.len() as f64).cbrt();
        let (mut sum, mut total) = (0.0, 0.0);
        for bins in ((root / 10.0) as usize).max(1)..=(root * 10.0) as usize {
            let ends = quantile_ends(points, bins);
            let share = 2.0 / ends.len() as f64;
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
                    share * 0.5 * (low + high),
                    share * (1.0 - 0.5 * (low + high)),
                );
                let (mut a, mut b) = (alpha, beta);
                // The marginal likelihood one case after the other.
                for point in &points[first..end] {
                    likelihood *= if point.hits > 0.0 { a } else { b } / (a + b);
                    if point.hits > 0.0 {
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
    fn agrees_with_the_paper_written_down() {
        let points = points();
        let curve = average(&points, 2.0);
        for i in 1..100 {
            let at = f64::from(i) / 100.0;
            let ours = curve.at(CurveKind::Steps, at);
            let exact = slow(&points, at);
            // What the window leaves out weighs little.
            assert!((ours - exact).abs() < 5e-3, "{at}: {ours} {exact}");
        }
    }

    #[test]
    fn an_average_never_says_zero_or_one() {
        let curve = average(&points(), 2.0);
        assert!(curve.y.iter().all(|&y| y > 0.0 && y < 1.0));
        assert_eq!(average(&[], 2.0).y, [0.5]);
    }
}

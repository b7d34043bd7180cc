//! Cox's recalibration: a logistic regression of the outcome on the log-odds of its probability.

use super::row_stats::WeightedRows;
use crate::math::exp::{exp_f64, ln_f64};
use crate::math::simd::vectorized;

/// Probabilities count as at least this far from 0 and 1, so that log-odds are finite.
const TINY: f64 = f64::EPSILON / 2.0;
const MAX_STEPS: usize = 60;

/// Rows, or groups of rows with the same probability, column by column.
#[derive(Debug, Default)]
pub(crate) struct Points {
    pub(crate) log_odds: Vec<f64>,
    /// The share of them in which it happened.
    pub(crate) share: Vec<f64>,
    pub(crate) weight: Vec<f64>,
}

/// The intercept and the slope, and the inverse of the information matrix (the negative Hessian).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CoxFit {
    pub(crate) intercept: f64,
    pub(crate) slope: f64,
    inverse: [[f64; 2]; 2],
}

/// ln(p / (1 − p)), at most 36.7 in absolute value.
pub(crate) fn log_odds(p: f64) -> f64 {
    p.max(TINY).ln() - (1.0 - p).max(TINY).ln()
}

vectorized! {
    /// [`log_odds`] of many, in place.
    fn all_log_odds(probs: &mut [f64]) {
        for p in probs {
            let happens = if *p > TINY { *p } else { TINY };
            let rest = if 1.0 - *p > TINY { 1.0 - *p } else { TINY };
            *p = ln_f64(happens) - ln_f64(rest);
        }
    }
}

/// Of more than two classes the predicted one, of two the second.
pub(crate) fn points(rows: &WeightedRows<'_>) -> Points {
    let binary = rows.classes == 2;
    let mut points = Points::default();
    for (row, stat) in rows.stats.iter().enumerate() {
        let weight = rows.weights.map_or(1.0, |w| w[row]);
        if weight <= 0.0 {
            continue;
        }
        // Two classes: p₂ is the confidence or 1 minus it, and the label is the predicted class or the other.
        let (p, happened) = match (binary, stat.predicted) {
            (true, 0) => (1.0 - stat.confidence, !stat.hit()),
            _ => (stat.confidence, stat.hit()),
        };
        points.log_odds.push(p);
        points.share.push(f64::from(u8::from(happened)));
        points.weight.push(weight);
    }
    all_log_odds(&mut points.log_odds);
    points
}

/// The maximum of the likelihood by Newton's method; `None` if there is none, because all outcomes are the same, all
/// probabilities are the same, or some log-odds separates the outcomes.
pub(crate) fn fit(points: &Points) -> Option<CoxFit> {
    let sums = |[intercept, slope]: [f64; 2]| {
        let Points {
            log_odds,
            share,
            weight,
        } = points;
        sums(log_odds, share, weight, intercept, slope)
    };
    let mut at = [0.0; 2];
    let mut current = sums(at);
    for _ in 0..MAX_STEPS {
        let [likelihood, ga, gb, ..] = current;
        let step = inverse(&current)?.map(|row| row[0] * ga + row[1] * gb);
        let moved = |length: f64| [at[0] + length * step[0], at[1] + length * step[1]];
        let mut length = 1.0;
        let mut next = sums(moved(length));
        while next[0] < likelihood - 1e-12 * likelihood.abs() && length > 1e-6 {
            length /= 2.0;
            next = sums(moved(length));
        }
        (at, current) = (moved(length), next);
        // Where outcomes are separated, the steps never become small.
        let size = step[0].abs().max(step[1].abs());
        if size <= 1e-10 * (1.0 + at[0].abs() + at[1].abs()) {
            let [intercept, slope] = at;
            let inverse = inverse(&current)?;
            return Some(CoxFit {
                intercept,
                slope,
                inverse,
            });
        }
    }
    None
}

/// The inverse of the information matrix.
fn inverse(&[_, _, _, a, b, beside]: &[f64; 6]) -> Option<[[f64; 2]; 2]> {
    let determinant = a * b - beside * beside;
    let row = |x: f64, y: f64| [x / determinant, y / determinant];
    (determinant > 1e-13 * a * b).then(|| [row(b, -beside), row(-beside, a)])
}

impl CoxFit {
    /// How far the intercept and the slope can be off if every log-odds is off by up to `off(log-odds)`: twice the
    /// effect to first order.
    pub(crate) fn error_bounds(&self, points: &Points, off: impl Fn(f64) -> f64) -> [f64; 2] {
        let mut reach = [0.0; 2];
        let outcomes = points.share.iter().zip(&points.weight);
        for (&x, (&share, &weight)) in points.log_odds.iter().zip(outcomes) {
            let p = sigmoid(self.intercept + self.slope * x);
            let moved = weight * off(x);
            let curve = p * (1.0 - p) * self.slope.abs();
            let residual = share * (1.0 - p) + (1.0 - share) * p;
            reach[0] += moved * curve;
            reach[1] += moved * (residual + x.abs() * curve);
        }
        let bound = |row: [f64; 2]| 2.0 * (row[0].abs() * reach[0] + row[1].abs() * reach[1]);
        self.inverse.map(bound)
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

vectorized! {
    /// The log-likelihood, its gradient, and the negative Hessian: its diagonal, and the element beside.
    fn sums(log_odds: &[f64], share: &[f64], weight: &[f64], intercept: f64, slope: f64) -> [f64; 6] {
        const LANES: usize = 8;
        let mut lanes = [[0.0; LANES]; 6];
        let mut add = |lane: usize, x: f64, share: f64, weight: f64| {
            let eta = intercept + slope * x;
            let small = exp_f64(-eta.abs());
            let smaller = small / (1.0 + small);
            let p = if eta < 0.0 { smaller } else { 1.0 - smaller };
            let happens = if eta < 0.0 { eta } else { 0.0 };
            let rest = if eta > 0.0 { -eta } else { 0.0 };
            let likelihood = share * happens + (1.0 - share) * rest - ln_f64(1.0 + small);
            let residual = weight * (share - p);
            let curve = weight * smaller * (1.0 - smaller);
            let terms = [weight * likelihood, residual, residual * x, curve, curve * x * x, curve * x];
            for (lanes, term) in lanes.iter_mut().zip(terms) {
                lanes[lane] += term;
            }
        };
        let whole = log_odds.len() / LANES * LANES;
        for start in (0..whole).step_by(LANES) {
            let (x, s, w) = (&log_odds[start..][..LANES], &share[start..][..LANES], &weight[start..][..LANES]);
            for lane in 0..LANES {
                add(lane, x[lane], s[lane], w[lane]);
            }
        }
        for place in whole..log_odds.len() {
            add(place - whole, log_odds[place], share[place], weight[place]);
        }
        lanes.map(|lanes| lanes.iter().sum())
    }
}

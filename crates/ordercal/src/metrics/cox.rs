//! Cox's recalibration: a logistic regression of the outcome on the log-odds of its probability.

use super::row_stats::WeightedRows;

/// Probabilities count as at least this far from 0 and 1, so that log-odds are finite.
const TINY: f64 = f64::EPSILON / 2.0;
const MAX_STEPS: usize = 60;

/// Rows with the same log-odds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) log_odds: f64,
    /// The share of them in which it happened.
    pub(crate) share: f64,
    pub(crate) weight: f64,
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

/// Of more than two classes the predicted one, of two the second.
pub(crate) fn points(rows: &WeightedRows<'_>) -> Vec<Point> {
    let binary = rows.classes == 2;
    let rows = rows.stats.iter().enumerate().filter_map(|(row, stat)| {
        let weight = rows.weights.map_or(1.0, |w| w[row]);
        let x = log_odds(stat.confidence);
        // Two classes: p₂ is the confidence or 1 minus it, and the label is the predicted class or the other.
        let (log_odds, happened) = match (binary, stat.predicted) {
            (true, 0) => (-x, !stat.hit()),
            _ => (x, stat.hit()),
        };
        (weight > 0.0).then_some(Point {
            log_odds,
            share: f64::from(u8::from(happened)),
            weight,
        })
    });
    rows.collect()
}

/// The maximum of the likelihood by Newton's method; `None` if there is none, because all outcomes are the same, all
/// probabilities are the same, or some log-odds separates the outcomes.
pub(crate) fn fit(points: &[Point]) -> Option<CoxFit> {
    let (mut intercept, mut slope) = (0.0, 0.0);
    let mut current = Likelihood::at(points, intercept, slope);
    for _ in 0..MAX_STEPS {
        let inverse = current.inverse()?;
        let [ga, gb] = current.gradient;
        let step = [
            inverse[0][0] * ga + inverse[0][1] * gb,
            inverse[1][0] * ga + inverse[1][1] * gb,
        ];
        let mut length = 1.0;
        let mut next = Likelihood::at(points, intercept + step[0], slope + step[1]);
        while next.value < current.value - 1e-12 * current.value.abs() && length > 1e-6 {
            length /= 2.0;
            let at = (intercept + length * step[0], slope + length * step[1]);
            next = Likelihood::at(points, at.0, at.1);
        }
        intercept += length * step[0];
        slope += length * step[1];
        current = next;
        // Where outcomes are separated, the steps never become small.
        let size = step[0].abs().max(step[1].abs());
        if size <= 1e-10 * (1.0 + intercept.abs() + slope.abs()) {
            return Some(CoxFit {
                intercept,
                slope,
                inverse: current.inverse()?,
            });
        }
    }
    None
}

impl CoxFit {
    /// How far the intercept and the slope can be off if every log-odds is off by up to `off(log-odds)`: twice the
    /// effect to first order.
    pub(crate) fn error_bounds(&self, points: &[Point], off: impl Fn(f64) -> f64) -> [f64; 2] {
        let mut reach = [0.0; 2];
        for point in points {
            let x = point.log_odds;
            let p = sigmoid(self.intercept + self.slope * x);
            let moved = point.weight * off(x);
            let curve = p * (1.0 - p) * self.slope.abs();
            let residual = point.share * (1.0 - p) + (1.0 - point.share) * p;
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

/// The log-likelihood with its derivatives.
struct Likelihood {
    value: f64,
    gradient: [f64; 2],
    /// The negative Hessian: its diagonal, and the element beside.
    information: [f64; 3],
}

impl Likelihood {
    fn at(points: &[Point], intercept: f64, slope: f64) -> Self {
        let mut found = Self {
            value: 0.0,
            gradient: [0.0; 2],
            information: [0.0; 3],
        };
        for point in points {
            let x = point.log_odds;
            let eta = intercept + slope * x;
            let small = (-eta.abs()).exp();
            let smaller = small / (1.0 + small);
            let p = if eta < 0.0 { smaller } else { 1.0 - smaller };
            found.value += point.weight
                * (point.share * eta.min(0.0) + (1.0 - point.share) * (-eta).min(0.0)
                    - small.ln_1p());
            let residual = point.weight * (point.share - p);
            let curve = point.weight * smaller * (1.0 - smaller);
            found.gradient[0] += residual;
            found.gradient[1] += residual * x;
            found.information[0] += curve;
            found.information[1] += curve * x * x;
            found.information[2] += curve * x;
        }
        found
    }

    fn inverse(&self) -> Option<[[f64; 2]; 2]> {
        let [a, b, beside] = self.information;
        let determinant = a * b - beside * beside;
        (determinant > 1e-13 * a * b).then(|| {
            [
                [b / determinant, -beside / determinant],
                [-beside / determinant, a / determinant],
            ]
        })
    }
}

//! Curves read off a table, one per class: what `isotonic`, `histogram` and `bbq` learn.

use serde::{Deserialize, Serialize};

use super::apply::Block;
use super::one_vs_rest::{Case, ClassMap, check_share, logistic, maps, write_logits};
use crate::error::{Error, Result};
use crate::traits::Transform;

/// What a curve does between its knots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveKind {
    /// Straight lines between knots (x, y); constant outside them.
    Lines,
    /// y from just above its x up to and including the next x; the first x is not looked at.
    Steps,
}

/// A curve: knots with ascending x in [0, 1], at least one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Curve {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
}

impl Curve {
    /// The curve's value at a probability.
    pub(super) fn at(&self, kind: CurveKind, p: f64) -> f64 {
        // The first knot at or above p.
        let above = self.x.partition_point(|&x| x < p);
        match kind {
            CurveKind::Steps => self.y[above.saturating_sub(1)],
            CurveKind::Lines => {
                if above == 0 {
                    return self.y[0];
                }
                if above == self.x.len() {
                    return self.y[above - 1];
                }
                let (x0, x1) = (self.x[above - 1], self.x[above]);
                let (y0, y1) = (self.y[above - 1], self.y[above]);
                y0 + (y1 - y0) * ((p - x0) / (x1 - x0))
            }
        }
    }
}

/// Fitted curves from each class's probability to its calibrated one, then normalised and smoothed.
///
/// Two classes have a single curve, the second's.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvesModel {
    classes: usize,
    share: f64,
    kind: CurveKind,
    curves: Vec<Curve>,
}

/// Everything a [`CurvesModel`] is made of, to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvesParts {
    /// K.
    pub classes: usize,
    /// The share of the uniform distribution that is mixed in.
    pub share: f64,
    /// What a curve does between its knots.
    pub kind: CurveKind,
    /// How many knots each curve has; one curve for two classes, K for more.
    #[serde(skip)]
    pub knots: Vec<u32>,
    /// The knots' x, curve after curve.
    #[serde(skip)]
    pub x: Vec<f64>,
    /// The knots' y, curve after curve.
    #[serde(skip)]
    pub y: Vec<f64>,
}

impl CurvesModel {
    pub(super) fn new(classes: usize, share: f64, kind: CurveKind, curves: Vec<Curve>) -> Self {
        Self {
            classes,
            share,
            kind,
            curves,
        }
    }

    /// Takes a model apart.
    pub fn to_parts(&self) -> CurvesParts {
        CurvesParts {
            classes: self.classes,
            share: self.share,
            kind: self.kind,
            knots: self.curves.iter().map(|c| c.x.len() as u32).collect(),
            x: self.curves.iter().flat_map(|c| c.x.clone()).collect(),
            y: self.curves.iter().flat_map(|c| c.y.clone()).collect(),
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first part that does not fit the others.
    pub fn from_parts(parts: CurvesParts) -> Result<Self> {
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
        check_share(parts.share)?;
        let found = parts.knots.len();
        if found != maps(parts.classes) || parts.knots.contains(&0) {
            return fail(
                "knots",
                found.to_string(),
                "one count above 0 per curve: one curve for two classes, else one per class",
            );
        }
        let total: u64 = parts.knots.iter().map(|&k| u64::from(k)).sum();
        for (name, values) in [("x", &parts.x), ("y", &parts.y)] {
            if values.len() as u64 != total {
                let found = values.len().to_string();
                return fail(name, found, "as many numbers as there are knots");
            }
            if !values.iter().all(|v| (0.0..=1.0).contains(v)) {
                let found = "a number outside".to_owned();
                return fail(name, found, "numbers between 0 and 1");
            }
        }
        let mut curves = Vec::with_capacity(found);
        let mut first = 0;
        for &knots in &parts.knots {
            let cells = first..first + knots as usize;
            first = cells.end;
            let (x, y) = (parts.x[cells.clone()].to_vec(), parts.y[cells].to_vec());
            if !x.is_sorted_by(|a, b| a < b) {
                let found = "a step back".to_owned();
                return fail("x", found, "ascending numbers within each curve");
            }
            curves.push(Curve { x, y });
        }
        Ok(Self::new(parts.classes, parts.share, parts.kind, curves))
    }

    /// The calibrated probability that a class's own curve gives, before rows are normalised; for two
    /// classes the only curve is the second's.
    ///
    /// # Panics
    /// If there is no such curve.
    pub fn curve(&self, curve: usize, probability: f64) -> f64 {
        self.curves[curve].at(self.kind, probability)
    }
}

impl ClassMap for CurvesModel {
    fn probability(&self, map: usize, log_odds: f64) -> f64 {
        self.curve(map, logistic(log_odds))
    }
}

impl Transform for CurvesModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        write_logits(self, self.share, block, logits);
    }
}

/// All cases with one probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub weight: f64,
    /// The weight of the hits among them.
    pub hits: f64,
}

/// A class's cases by ascending probability, equal ones together: all that counting methods look at, and
/// it is the same whether a row counts twice or is there twice.
pub(super) fn points(cases: &[Case]) -> Vec<Point> {
    let mut sorted: Vec<Point> = cases
        .iter()
        .map(|case| Point {
            x: logistic(case.log_odds),
            weight: case.weight,
            hits: if case.hit { case.weight } else { 0.0 },
        })
        .collect();
    // By hits as well: the order of the rows must not show in the last digits of a sum.
    sorted.sort_by(|a, b| {
        let by_weight = a
            .hits
            .total_cmp(&b.hits)
            .then(a.weight.total_cmp(&b.weight));
        a.x.total_cmp(&b.x).then(by_weight)
    });
    sorted.dedup_by(|next, kept| {
        let same = next.x <= kept.x;
        if same {
            kept.weight += next.weight;
            kept.hits += next.hits;
        }
        same
    });
    sorted
}

/// The midpoint between two probabilities, never the upper one.
pub(super) fn between(low: f64, high: f64) -> f64 {
    let middle = 0.5 * (low + high);
    if middle < high { middle } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> CurvesParts {
        CurvesParts {
            classes: 3,
            share: 0.01,
            kind: CurveKind::Lines,
            knots: vec![2, 1, 3],
            x: vec![0.1, 0.6, 0.5, 0.0, 0.2, 1.0],
            y: vec![0.0, 1.0, 0.3, 0.1, 0.1, 0.9],
        }
    }

    #[test]
    fn lines_and_steps_are_read_off() {
        let model = CurvesModel::from_parts(parts()).unwrap();
        assert_eq!(model.to_parts(), parts());
        assert_eq!(model.curve(0, 0.05), 0.0);
        assert!((model.curve(0, 0.35) - 0.5).abs() < 1e-12);
        assert_eq!(model.curve(0, 0.99), 1.0);
        assert_eq!(model.curve(1, 0.7), 0.3);
        let steps = CurvesParts {
            kind: CurveKind::Steps,
            ..parts()
        };
        let model = CurvesModel::from_parts(steps).unwrap();
        // Bins are open below and closed above.
        assert_eq!(model.curve(0, 0.6), 0.0);
        assert_eq!(model.curve(0, 0.600_001), 1.0);
        assert_eq!(model.curve(0, 0.0), 0.0);
        assert_eq!(model.curve(2, 1.0), 0.1);
    }

    #[test]
    fn parts_are_checked() {
        let name = |change: &dyn Fn(&mut CurvesParts)| {
            let mut parts = parts();
            change(&mut parts);
            match CurvesModel::from_parts(parts) {
                Err(Error::InvalidParameter { name, .. }) => name,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(name(&|p| p.classes = 1), "classes");
        assert_eq!(name(&|p| p.classes = 2), "knots");
        assert_eq!(name(&|p| p.knots[1] = 0), "knots");
        assert_eq!(name(&|p| p.knots[1] = 2), "x");
        assert_eq!(name(&|p| p.share = 0.0), "share");
        assert_eq!(name(&|p| p.x[1] = 0.1), "x");
        assert_eq!(name(&|p| p.y[1] = f64::NAN), "y");
    }

    #[test]
    fn equal_probabilities_are_one_point() {
        let case = |log_odds, weight, hit| Case {
            log_odds,
            weight,
            hit,
        };
        let cases = [
            case(0.0, 2.0, true),
            case(-1.0, 1.0, false),
            case(0.0, 1.0, false),
        ];
        let points = points(&cases);
        assert_eq!(points.len(), 2);
        let (x, weight, hits) = (0.5, 3.0, 2.0);
        assert_eq!(points[1], Point { x, weight, hits });
    }
}

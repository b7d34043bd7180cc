//! Piecewise linear or constant functions, one per class: the models of `isotonic`, `histogram` and `bbq`.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::one_vs_rest::{ClassMap, check_share, logistic, map_count, write_logits};
use super::parts::stored_as_parts;
use super::{check, check_classes};
use crate::error::Result;

/// The interpolation between the knots of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveKind {
    /// Linear between the knots (x, y), constant outside.
    Lines,
    /// Constant: y_i on (x_i, x_{i+1}]. The first value extends to −∞, the last to +∞.
    Steps,
}

/// A curve: knots with ascending x in [0, 1], at least one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Curve {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
}

impl Curve {
    /// The curve's value at a probability.
    pub(crate) fn at(&self, kind: CurveKind, p: f64) -> f64 {
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

/// Fitted functions g_k of each class's probability p_k, piecewise linear or constant; rows are then normalised and
/// smoothed: (1 − s)·g_k(p_k)/Σ_j g_j(p_j) + s/K, with a weight s of the uniform distribution.
///
/// For two classes there is one curve, that of the second class.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvesModel {
    parts: CurvesParts,
    curves: Vec<Curve>,
}

/// All data of a [`CurvesModel`], to be stored or built by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvesParts {
    /// K.
    pub classes: usize,
    /// The weight s of the uniform distribution in the result.
    pub share: f64,
    /// The interpolation between knots.
    pub kind: CurveKind,
    /// The number of knots of each curve. There is one curve for two classes, otherwise K.
    #[serde(skip)]
    pub knots: Vec<u32>,
    /// The x of the knots, ascending within each curve, curve after curve.
    #[serde(skip)]
    pub x: Vec<f64>,
    /// The y of the knots, curve after curve.
    #[serde(skip)]
    pub y: Vec<f64>,
}

impl CurvesModel {
    pub(crate) fn new(classes: usize, share: f64, kind: CurveKind, curves: Vec<Curve>) -> Self {
        let parts = CurvesParts {
            classes,
            share,
            kind,
            knots: curves.iter().map(|c| c.x.len() as u32).collect(),
            x: curves.iter().flat_map(|c| c.x.clone()).collect(),
            y: curves.iter().flat_map(|c| c.y.clone()).collect(),
        };
        Self { parts, curves }
    }

    /// The data of the model.
    pub fn to_parts(&self) -> CurvesParts {
        self.parts.clone()
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) names the first part that is invalid.
    pub fn from_parts(parts: CurvesParts) -> Result<Self> {
        check_classes(parts.classes)?;
        check_share(parts.share)?;
        let found = parts.knots.len();
        let good = found == map_count(parts.classes) && !parts.knots.contains(&0);
        let expected = "one count above 0 per curve: one curve for two classes, else one per class";
        check(good, "knots", found, expected)?;
        let total: u64 = parts.knots.iter().map(|&k| u64::from(k)).sum();
        for (name, values) in [("x", &parts.x), ("y", &parts.y)] {
            let good = values.len() as u64 == total;
            check(
                good,
                name,
                values.len(),
                "as many numbers as there are knots",
            )?;
            let good = values.iter().all(|v| (0.0..=1.0).contains(v));
            check(
                good,
                name,
                "a number out of range",
                "numbers between 0 and 1",
            )?;
        }
        let mut curves = Vec::with_capacity(found);
        let mut first = 0;
        for &knots in &parts.knots {
            let cells = first..first + knots as usize;
            first = cells.end;
            let (x, y) = (parts.x[cells.clone()].to_vec(), parts.y[cells].to_vec());
            let good = x.is_sorted_by(|a, b| a < b);
            check(
                good,
                "x",
                "a decreasing sequence",
                "ascending numbers within each curve",
            )?;
            curves.push(Curve { x, y });
        }
        Ok(Self { parts, curves })
    }

    /// The value of a curve at a probability, before rows are normalised. For two classes, curve 0 is that of the second
    /// class.
    ///
    /// # Panics
    /// If there is no such curve.
    pub fn curve(&self, curve: usize, probability: f64) -> f64 {
        self.curves[curve].at(self.parts.kind, probability)
    }
}

impl ClassMap for CurvesModel {
    fn probability(&self, map: usize, log_odds: f64) -> f64 {
        self.curve(map, logistic(log_odds))
    }
}

impl Form for CurvesModel {
    fn classes(&self) -> usize {
        self.parts.classes
    }

    fn order_preserving(&self) -> bool {
        false
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        write_logits(self, self.parts.share, block, logits);
    }
}

stored_as_parts!(CurvesModel, CurvesParts, knots, x, y);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

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
    fn lines_and_steps_are_evaluated() {
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
                Err(Error::InvalidPart { part, .. }) => part,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(&*name(&|p| p.classes = 1), "classes");
        assert_eq!(&*name(&|p| p.classes = 2), "knots");
        assert_eq!(&*name(&|p| p.knots[1] = 0), "knots");
        assert_eq!(&*name(&|p| p.knots[1] = 2), "x");
        assert_eq!(&*name(&|p| p.share = 0.0), "share");
        assert_eq!(&*name(&|p| p.x[1] = 0.1), "x");
        assert_eq!(&*name(&|p| p.y[1] = f64::NAN), "y");
    }
}

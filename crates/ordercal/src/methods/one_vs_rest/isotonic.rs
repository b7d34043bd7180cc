//! Isotonic regression, one class against the rest (Zadrozny and Elkan, 2002).

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::binary::fit_curves;
use crate::methods::points::{Point, points};
use crate::methods::{Calibrator, Describe, Fitted, check_positive};
use crate::models::{Curve, CurveKind};
use crate::watch::Watch;

/// Isotonic regression: for each class, the increasing function of its probability that minimises the squared error to the
/// labels; then rows are normalised. Predictions may change.
///
/// The pool-adjacent-violators algorithm gives blocks of cases with a common value. Between blocks the learned curve is
/// linear: from the last case of a block to the first of the next, as in scikit-learn's `IsotonicRegression`, or from centre
/// to centre. For two classes there is a single curve. Values can be 0, so the normalised row is mixed with the uniform
/// distribution of weight `smoothing`/(n + 1) for n rows. A row in which all values are 0 becomes uniform.
///
/// B. Zadrozny, C. Elkan: *Transforming Classifier Scores into Accurate Multiclass Probability Estimates*,
/// KDD 2002.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Isotonic {
    /// The end points of the lines between blocks.
    pub lines: BlockLines,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
    pub smoothing: f64,
}

/// The end points of the lines between the blocks of an isotonic regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BlockLines {
    /// The first and last case of each block, as in scikit-learn.
    #[default]
    Ends,
    /// The mean probability of each block, so that the curve is strictly increasing within the range of the data.
    Centres,
}

impl Default for Isotonic {
    fn default() -> Self {
        Self {
            lines: BlockLines::default(),
            smoothing: 1.0,
        }
    }
}

impl Describe for Isotonic {
    const BRIEF: &'static str = "an increasing curve per class";
    const PYTHON_CLASS: &'static str = "Isotonic";
}

impl Calibrator for Isotonic {
    fn validate(&self) -> Result<()> {
        check_positive("smoothing", self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        fit_curves(data, self.smoothing, CurveKind::Lines, watch, |cases| {
            pool_adjacent_violators(&points(cases), self.lines)
        })
    }
}

/// Neighbouring points with a common value.
struct Block {
    weight: f64,
    positives: f64,
    first: f64,
    last: f64,
    /// Σ weight · x.
    centre: f64,
}

/// The pool-adjacent-violators algorithm.
fn pool_adjacent_violators(points: &[Point], lines: BlockLines) -> Curve {
    let mut blocks: Vec<Block> = Vec::new();
    for point in points {
        let mut block = Block {
            weight: point.weight,
            positives: point.positives,
            first: point.x,
            last: point.x,
            centre: point.weight * point.x,
        };
        while let Some(below) = blocks.last() {
            if below.positives * block.weight < block.positives * below.weight {
                break;
            }
            block.weight += below.weight;
            block.positives += below.positives;
            block.centre += below.centre;
            block.first = below.first;
            blocks.pop();
        }
        blocks.push(block);
    }
    if blocks.is_empty() {
        // There are no cases: the identity.
        return Curve {
            x: vec![0.0, 1.0],
            y: vec![0.0, 1.0],
        };
    }
    let mut curve = Curve::default();
    let mut add = |x: f64, y: f64| {
        // Knots must be strictly ascending, and the means of neighbouring floats may coincide.
        if curve.x.last().is_none_or(|&last| x > last) {
            curve.x.push(x);
            curve.y.push(y);
        }
    };
    for block in &blocks {
        let value = (block.positives / block.weight).min(1.0);
        match lines {
            BlockLines::Ends => {
                add(block.first, value);
                add(block.last, value);
            }
            BlockLines::Centres => {
                let centre = block.centre / block.weight;
                add(centre.clamp(block.first, block.last), value);
            }
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The max-min formula: the maximum over starts of the minimum over ends of the mean in between.
    fn max_min(points: &[Point], at: usize) -> f64 {
        let mean = |part: &[Point]| {
            let weight: f64 = part.iter().map(|p| p.weight).sum();
            part.iter().map(|p| p.positives).sum::<f64>() / weight
        };
        (0..=at)
            .map(|first| {
                (at..points.len())
                    .map(|last| mean(&points[first..=last]))
                    .fold(f64::INFINITY, f64::min)
            })
            .fold(f64::NEG_INFINITY, f64::max)
    }

    #[test]
    fn agrees_with_the_max_min_formula() {
        let mut rng = Rng::new(95);
        for n in [1, 2, 7, 40] {
            let mut x = 0.0;
            let points: Vec<Point> = (0..n)
                .map(|_| {
                    x += 0.02 * rng.uniform() + 1e-9;
                    let weight = 1.0 + rng.below(3) as f64;
                    let positives = rng.below(weight as usize + 1) as f64;
                    Point {
                        x,
                        weight,
                        positives,
                    }
                })
                .collect();
            let curve = pool_adjacent_violators(&points, BlockLines::Ends);
            assert!(curve.y.is_sorted());
            for (at, point) in points.iter().enumerate() {
                let value = curve.at(CurveKind::Lines, point.x);
                assert!((value - max_min(&points, at)).abs() < 1e-12, "{n} {at}");
            }
            let centres = pool_adjacent_violators(&points, BlockLines::Centres);
            assert!(centres.y.is_sorted_by(|a, b| a < b));
        }
    }
}

//! Isotonic regression, one class against the rest (Zadrozny and Elkan, 2002).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::binary::{check_smoothing, fit_maps, fitted, share};
use crate::methods::likelihood::plain_nll;
use crate::methods::points::{Point, points};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::{Curve, CurveKind, CurvesModel};
use crate::watch::Watch;

/// Isotonic regression: of each class's probability, the increasing function nearest to the labels in
/// least squares; then rows are normalised. Predictions may change.
///
/// Pooling adjacent violators gives blocks of cases that share one value. Between blocks the curve is a
/// straight line: from the last case of one to the first of the next as in scikit-learn's
/// `IsotonicRegression`, or from centre to centre. A binary problem has a single curve. Blocks of 0 are
/// common, so the normalised row keeps a share `smoothing`/(n + 1) of the uniform distribution; a row whose
/// curves all say 0 becomes uniform.
///
/// B. Zadrozny, C. Elkan: *Transforming Classifier Scores into Accurate Multiclass Probability Estimates*,
/// KDD 2002.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Isotonic, Method, Model, ScoreKind, Scores};
///
/// let probs = array![[0.9_f64, 0.1], [0.7, 0.3], [0.5, 0.5], [0.2, 0.8]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 0, 1])?;
/// let fitted = Method::from(Isotonic::default()).fit(&data)?;
/// let Model::Curves(model) = fitted.model else { unreachable!() };
/// // The second and third row stand the wrong way round: both get their mean.
/// assert_eq!(model.curve(0, 0.4), 0.5);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Isotonic {
    /// Where the straight lines between blocks begin and end.
    pub lines: BlockLines,
    /// How much of the uniform distribution is mixed in: a share `smoothing`/(n + 1).
    pub smoothing: f64,
}

/// Where the straight lines between blocks begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BlockLines {
    /// At the blocks' first and last cases, as in scikit-learn.
    #[default]
    Ends,
    /// At the blocks' mean probabilities: no flat parts inside the data's range.
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

impl Isotonic {
    /// Sets where the straight lines between blocks begin and end.
    #[must_use]
    pub fn with_lines(mut self, lines: BlockLines) -> Self {
        self.lines = lines;
        self
    }

    /// Sets how much of the uniform distribution is mixed in.
    #[must_use]
    pub fn with_smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }
}

impl Describe for Isotonic {
    const BRIEF: &'static str = "an increasing curve per class";
    const PYTHON_CLASS: &'static str = "Isotonic";
}

impl Calibrator for Isotonic {
    fn validate(&self) -> Result<()> {
        check_smoothing(self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let before = plain_nll(data);
        let curves = fit_maps(data, before, watch, |cases| {
            increasing(&points(cases), self.lines)
        })?;
        let share = share(self.smoothing, data);
        let model = CurvesModel::new(data.classes(), share, CurveKind::Lines, curves);
        Ok(fitted(model, data, before))
    }
}

/// Neighbouring points that share one value.
struct Block {
    weight: f64,
    hits: f64,
    first: f64,
    last: f64,
    /// Σ weight · x.
    centre: f64,
}

/// Pools adjacent violators.
fn increasing(points: &[Point], lines: BlockLines) -> Curve {
    let mut blocks: Vec<Block> = Vec::new();
    for point in points {
        let mut block = Block {
            weight: point.weight,
            hits: point.hits,
            first: point.x,
            last: point.x,
            centre: point.weight * point.x,
        };
        while let Some(below) = blocks.last() {
            if below.hits * block.weight < block.hits * below.weight {
                break;
            }
            block.weight += below.weight;
            block.hits += below.hits;
            block.centre += below.centre;
            block.first = below.first;
            blocks.pop();
        }
        blocks.push(block);
    }
    if blocks.is_empty() {
        // The class was never one of several possible ones: nothing is known.
        return Curve {
            x: vec![0.0, 1.0],
            y: vec![0.0, 1.0],
        };
    }
    let mut curve = Curve::default();
    let mut add = |x: f64, y: f64| {
        // Means of neighbouring floats may coincide.
        if curve.x.last().is_none_or(|&last| x > last) {
            curve.x.push(x);
            curve.y.push(y);
        }
    };
    for block in &blocks {
        let value = (block.hits / block.weight).min(1.0);
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

    /// The textbook's formula: max over starts of the min over ends of the mean in between.
    fn slow(points: &[Point], at: usize) -> f64 {
        let mean = |part: &[Point]| {
            let weight: f64 = part.iter().map(|p| p.weight).sum();
            part.iter().map(|p| p.hits).sum::<f64>() / weight
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
                    let hits = rng.below(weight as usize + 1) as f64;
                    Point { x, weight, hits }
                })
                .collect();
            let curve = increasing(&points, BlockLines::Ends);
            assert!(curve.y.is_sorted());
            for (at, point) in points.iter().enumerate() {
                let value = curve.at(CurveKind::Lines, point.x);
                assert!((value - slow(&points, at)).abs() < 1e-12, "{n} {at}");
            }
            let centres = increasing(&points, BlockLines::Centres);
            assert!(centres.y.is_sorted_by(|a, b| a < b));
        }
    }
}

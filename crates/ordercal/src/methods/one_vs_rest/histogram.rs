//! Histogram binning, one class against the rest (Zadrozny and Elkan, 2001).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::methods::binary::{check_smoothing, fit_maps, fitted, share};
use crate::methods::likelihood::plain_nll;
use crate::methods::points::{Point, between, points};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::{Curve, CurveKind, CurvesModel};
use crate::watch::Watch;

/// Histogram binning: a class's probability becomes the share of hits in its bin; then rows are
/// normalised. Predictions may change.
///
/// Bins are open below and closed above. A bin without a case says its middle. A binary problem has a single
/// histogram. Bins without a hit say 0, so the normalised row keeps a share `smoothing`/(n + 1) of the
/// uniform distribution; a row whose bins all say 0 becomes uniform.
///
/// B. Zadrozny, C. Elkan: *Obtaining calibrated probability estimates from decision trees and naive Bayesian
/// classifiers*, ICML 2001.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Histogram, Method, Model, ScoreKind, Scores};
///
/// let probs = array![[0.9_f64, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 0, 1])?;
/// let fitted = Method::from(Histogram::default().with_bins(2)).fit(&data)?;
/// let Model::Curves(model) = fitted.model else { unreachable!() };
/// assert_eq!(model.curve(0, 0.15), 0.5);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Histogram {
    /// How many bins.
    pub bins: usize,
    /// How the bins are laid out.
    pub layout: BinLayout,
    /// How much of the uniform distribution is mixed in: a share `smoothing`/(n + 1).
    pub smoothing: f64,
}

/// How bins are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BinLayout {
    /// The same weight of cases in every bin, as far as equal probabilities allow.
    #[default]
    EqualMass,
    /// The same width.
    EqualWidth,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            bins: 15,
            layout: BinLayout::default(),
            smoothing: 1.0,
        }
    }
}

/// More bins than 32 bits can count would be of no use.
const MAX_BINS: usize = 100_000;

impl Histogram {
    /// Sets how many bins there are.
    #[must_use]
    pub fn with_bins(mut self, bins: usize) -> Self {
        self.bins = bins;
        self
    }

    /// Sets how the bins are laid out.
    #[must_use]
    pub fn with_layout(mut self, layout: BinLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets how much of the uniform distribution is mixed in.
    #[must_use]
    pub fn with_smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }
}

impl Describe for Histogram {
    const BRIEF: &'static str = "bins per class";
    const PYTHON_CLASS: &'static str = "Histogram";
}

impl Calibrator for Histogram {
    fn validate(&self) -> Result<()> {
        if !(1..=MAX_BINS).contains(&self.bins) {
            return Err(Error::invalid("bins", self.bins, "1 to 100000"));
        }
        check_smoothing(self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let before = plain_nll(data);
        let curves = fit_maps(data, before, watch, |cases| {
            let points = points(cases);
            match self.layout {
                BinLayout::EqualMass => equal_mass(&points, self.bins),
                BinLayout::EqualWidth => equal_width(&points, self.bins),
            }
        })?;
        let share = share(self.smoothing, data);
        let model = CurvesModel::new(data.classes(), share, CurveKind::Steps, curves);
        Ok(fitted(model, data, before))
    }
}

/// Where equal-mass bins end: for each of at most `bins` bins the number of points up to its end.
///
/// Bin j ends with the point at which the weight first reaches j/bins of the whole; points are never
/// split, so fewer bins may come out.
pub(super) fn quantile_ends(points: &[Point], bins: usize) -> Vec<usize> {
    let total: f64 = points.iter().map(|p| p.weight).sum();
    let mut ends = Vec::with_capacity(bins.min(points.len()));
    let mut sum = 0.0;
    let mut bin = 1;
    for (index, point) in points.iter().enumerate() {
        sum += point.weight;
        let reached = sum * bins as f64 >= total * bin as f64;
        if reached && index + 1 < points.len() {
            ends.push(index + 1);
            // A heavy point may fill several bins at once.
            bin = (sum * bins as f64 / total) as usize + 1;
        }
    }
    if !points.is_empty() {
        ends.push(points.len());
    }
    ends
}

fn equal_mass(points: &[Point], bins: usize) -> Curve {
    let mut curve = Curve::default();
    let mut first = 0;
    for end in quantile_ends(points, bins) {
        let edge = if first == 0 {
            0.0
        } else {
            between(points[first - 1].x, points[first].x)
        };
        let part = &points[first..end];
        let weight: f64 = part.iter().map(|p| p.weight).sum();
        let hits: f64 = part.iter().map(|p| p.hits).sum();
        curve.x.push(edge);
        curve.y.push((hits / weight).min(1.0));
        first = end;
    }
    if curve.x.is_empty() {
        return equal_width(points, bins);
    }
    curve
}

fn equal_width(points: &[Point], bins: usize) -> Curve {
    let mut sums = vec![(0.0, 0.0); bins];
    for point in points {
        let bin = ((point.x * bins as f64).ceil() as usize).clamp(1, bins) - 1;
        sums[bin].0 += point.weight;
        sums[bin].1 += point.hits;
    }
    let edge = |bin: usize| bin as f64 / bins as f64;
    let value = |(bin, &(weight, hits)): (usize, &(f64, f64))| {
        if weight > 0.0 {
            f64::min(hits / weight, 1.0)
        } else {
            0.5 * (edge(bin) + edge(bin + 1))
        }
    };
    Curve {
        x: (0..bins).map(edge).collect(),
        y: sums.iter().enumerate().map(value).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(f64, f64, f64)]) -> Vec<Point> {
        let point = |&(x, weight, hits): &(f64, f64, f64)| Point { x, weight, hits };
        values.iter().map(point).collect()
    }

    #[test]
    fn equal_mass_bins_share_the_weight() {
        let points = points(&[
            (0.1, 1.0, 0.0),
            (0.2, 1.0, 1.0),
            (0.3, 1.0, 0.0),
            (0.6, 1.0, 1.0),
        ]);
        assert_eq!(quantile_ends(&points, 2), [2, 4]);
        let curve = equal_mass(&points, 2);
        assert_eq!(curve.x, [0.0, 0.25]);
        assert_eq!(curve.y, [0.5, 0.5]);
        assert_eq!(quantile_ends(&points, 3), [2, 3, 4]);
        assert_eq!(quantile_ends(&points, 100), [1, 2, 3, 4]);
    }

    #[test]
    fn a_heavy_point_fills_several_bins() {
        let points = points(&[(0.1, 8.0, 2.0), (0.2, 1.0, 1.0), (0.3, 1.0, 0.0)]);
        assert_eq!(quantile_ends(&points, 5), [1, 3]);
        assert_eq!(equal_mass(&points, 5).y, [0.25, 0.5]);
    }

    #[test]
    fn an_empty_bin_says_its_middle() {
        let curve = equal_width(&points(&[(0.1, 2.0, 1.0), (0.25, 1.0, 1.0)]), 4);
        assert_eq!(curve.x, [0.0, 0.25, 0.5, 0.75]);
        // 0.25 belongs to the first bin, which is closed above.
        assert_eq!(curve.y, [2.0 / 3.0, 0.375, 0.625, 0.875]);
        assert_eq!(equal_mass(&[], 2).y, [0.25, 0.75]);
    }
}

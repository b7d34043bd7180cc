//! Histogram binning, one class against the rest (Zadrozny and Elkan, 2001).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::methods::binary::{check_smoothing, fit_maps, fitted, uniform_weight};
use crate::methods::likelihood::plain_nll;
use crate::methods::points::{Point, midpoint, points};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::{Curve, CurveKind, CurvesModel};
use crate::watch::Watch;

/// Histogram binning: the probability of a class is replaced by the fraction of positive cases in its bin; then rows are
/// normalised. Predictions may change.
///
/// One histogram is learned per class, or a single one for two classes. Bins are open below and closed above; the value of
/// an empty bin is its middle. Values can be 0, so the normalised row is mixed with the uniform distribution of weight
/// `smoothing`/(n + 1) for n rows. A row in which all values are 0 becomes uniform.
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
    /// The number of bins of each histogram, 1 to 100000.
    pub bins: usize,
    /// The placement of the bins.
    pub layout: BinLayout,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
    pub smoothing: f64,
}

/// The placement of the bins of a histogram.
///
/// ```
/// use ordercal::Histogram;
/// use ordercal::methods::BinLayout;
///
/// let method = Histogram::default().with_layout(BinLayout::EqualWidth);
/// assert_eq!(method.layout, BinLayout::EqualWidth);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BinLayout {
    /// Bins with equal weights of cases, as far as ties allow.
    #[default]
    EqualMass,
    /// Bins of equal width.
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

/// A limit far above any useful number.
const MAX_BINS: usize = 100_000;

impl Histogram {
    /// Sets the number of bins.
    #[must_use]
    pub fn with_bins(mut self, bins: usize) -> Self {
        self.bins = bins;
        self
    }

    /// Sets the placement of the bins.
    #[must_use]
    pub fn with_layout(mut self, layout: BinLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the smoothing.
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
        let weight = uniform_weight(self.smoothing, data);
        let model = CurvesModel::new(data.classes(), weight, CurveKind::Steps, curves);
        Ok(fitted(model, data, before))
    }
}

/// The ends of at most `bins` equal-mass bins, as numbers of points.
///
/// Bin j ends with the point at which the cumulative weight first reaches j/`bins` of the total. Points are not split, so
/// there may be fewer bins.
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
            // A point of large weight may fill several bins.
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
            midpoint(points[first - 1].x, points[first].x)
        };
        let part = &points[first..end];
        let weight: f64 = part.iter().map(|p| p.weight).sum();
        let positives: f64 = part.iter().map(|p| p.positives).sum();
        curve.x.push(edge);
        curve.y.push((positives / weight).min(1.0));
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
        sums[bin].1 += point.positives;
    }
    let edge = |bin: usize| bin as f64 / bins as f64;
    let value = |(bin, &(weight, positives)): (usize, &(f64, f64))| {
        if weight > 0.0 {
            f64::min(positives / weight, 1.0)
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
        let point = |&(x, weight, positives): &(f64, f64, f64)| Point {
            x,
            weight,
            positives,
        };
        values.iter().map(point).collect()
    }

    #[test]
    fn equal_mass_bins_have_equal_weights() {
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
    fn the_value_of_an_empty_bin_is_its_middle() {
        let curve = equal_width(&points(&[(0.1, 2.0, 1.0), (0.25, 1.0, 1.0)]), 4);
        assert_eq!(curve.x, [0.0, 0.25, 0.5, 0.75]);
        // 0.25 belongs to the first bin, which is closed above.
        assert_eq!(curve.y, [2.0 / 3.0, 0.375, 0.625, 0.875]);
        assert_eq!(equal_mass(&[], 2).y, [0.25, 0.75]);
    }
}

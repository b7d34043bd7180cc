//! Histogram binning, one class against the rest (Zadrozny and Elkan, 2001).

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::methods::binary::fit_curves;
use crate::methods::points::{Point, midpoint, points};
use crate::methods::{Calibrator, Describe, Fitted, check_positive};
use crate::models::{Curve, CurveKind};
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Histogram {
    /// The number of bins of each histogram, 1 to 100000.
    pub bins: usize,
    /// The placement of the bins.
    pub layout: BinLayout,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
    pub smoothing: f64,
}

/// The placement of the bins of a histogram.
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

impl Describe for Histogram {
    const BRIEF: &'static str = "bins per class";
    const PYTHON_CLASS: &'static str = "Histogram";
}

impl Calibrator for Histogram {
    fn validate(&self) -> Result<()> {
        if !(1..=MAX_BINS).contains(&self.bins) {
            return Err(Error::invalid("bins", self.bins, "1 to 100000"));
        }
        check_positive("smoothing", self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        fit_curves(data, self.smoothing, CurveKind::Steps, watch, |cases| {
            let points = points(cases);
            match self.layout {
                BinLayout::EqualMass => equal_mass(&points, self.bins),
                BinLayout::EqualWidth => equal_width(&points, self.bins),
            }
        })
    }
}

/// Sums over the first points: none, one, and so on.
pub(super) fn cumulative(points: &[Point], value: impl Fn(&Point) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0];
    for (index, point) in points.iter().enumerate() {
        sums.push(sums[index] + value(point));
    }
    sums
}

/// The ends of at most `bins` equal-mass bins, as numbers of points, from the cumulative weights of at least one point.
///
/// Bin j ends with the point at which the cumulative weight first reaches j/`bins` of the total. Points are not split, so
/// there may be fewer bins.
pub(super) fn quantile_ends(cumulative: &[f64], bins: usize) -> Vec<usize> {
    let points = cumulative.len() - 1;
    let (total, bins) = (cumulative[points], bins as f64);
    let mut ends = Vec::new();
    let mut bin = 1.0;
    let mut first = 0;
    loop {
        let later = &cumulative[first + 1..];
        let end = first + 1 + later.partition_point(|&sum| sum * bins < total * bin);
        if end >= points {
            ends.push(points);
            return ends;
        }
        ends.push(end);
        // A point of large weight may fill several bins.
        bin = (cumulative[end] * bins / total).floor() + 1.0;
        first = end;
    }
}

fn equal_mass(points: &[Point], bins: usize) -> Curve {
    if points.is_empty() {
        return equal_width(points, bins);
    }
    let mut curve = Curve::default();
    let mut first = 0;
    for end in quantile_ends(&cumulative(points, |point| point.weight), bins) {
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

    /// The ends, by looking at every point.
    fn ends(points: &[Point], bins: usize) -> Vec<usize> {
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

    #[test]
    fn ends_are_those_of_counting_points() {
        let mut rng = crate::rng::Rng::new(97);
        for count in [1, 2, 5, 60, 300] {
            let points: Vec<Point> = (0..count)
                .map(|index| Point {
                    x: index as f64,
                    weight: if rng.below(9) == 0 {
                        30.0
                    } else {
                        rng.uniform()
                    },
                    positives: 0.0,
                })
                .collect();
            let cumulative = cumulative(&points, |point| point.weight);
            for bins in 1..100 {
                let exact = ends(&points, bins);
                assert_eq!(quantile_ends(&cumulative, bins), exact, "{count} {bins}");
            }
        }
    }

    #[test]
    fn equal_mass_bins_have_equal_weights() {
        let points = points(&[
            (0.1, 1.0, 0.0),
            (0.2, 1.0, 1.0),
            (0.3, 1.0, 0.0),
            (0.6, 1.0, 1.0),
        ]);
        assert_eq!(ends(&points, 2), [2, 4]);
        let curve = equal_mass(&points, 2);
        assert_eq!(curve.x, [0.0, 0.25]);
        assert_eq!(curve.y, [0.5, 0.5]);
        assert_eq!(ends(&points, 3), [2, 3, 4]);
        assert_eq!(ends(&points, 100), [1, 2, 3, 4]);
    }

    #[test]
    fn a_heavy_point_fills_several_bins() {
        let points = points(&[(0.1, 8.0, 2.0), (0.2, 1.0, 1.0), (0.3, 1.0, 0.0)]);
        assert_eq!(ends(&points, 5), [1, 3]);
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

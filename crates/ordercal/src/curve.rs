//! Curves: how metrics on test rows depend on the number of calibration rows, or on a penalty.
//!
//! ```
//! use ndarray::Array2;
//! use ordercal::curve::{CurveAxis, plan};
//! use ordercal::metrics::Metric;
//! use ordercal::{Dataset, Method, ScoreKind, Scores, Unwatched};
//!
//! let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
//! let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
//! let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
//! let (rows, others): (Vec<usize>, Vec<usize>) = ((0..40).collect(), (40..60).collect());
//! let (calib, test) = (data.select(&rows), data.select(&others));
//!
//! let fits = plan(CurveAxis::CalibSize, &[Method::from_key("ts")?], calib.rows(), &[1357])?;
//! assert_eq!(fits.len(), 10);
//! let point = fits[0].run(&calib, &test, &[Metric::Nll], &Unwatched)?;
//! assert_eq!((point.rows, point.x), (4, 0.1));
//! # Ok::<(), ordercal::Error>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::compare::{Measures, measure};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::metrics::{Metric, MetricOptions};
use crate::registry::Method;
use crate::rng::Rng;
use crate::watch::Watch;

/// The shares of the calibration rows, in tenths.
const TENTHS: std::ops::RangeInclusive<usize> = 1..=10;
/// The penalties; beyond them the fitted model no longer changes.
const LAMBDAS: [f64; 13] = [
    1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8,
];

/// What varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CurveAxis {
    /// The share of the calibration rows: 10%, 20%, …, 100%.
    CalibSize,
    /// The off-diagonal penalty λ of the ODIR methods: 1e-4, 1e-3, …, 1e8.
    OdirLambda,
}

impl CurveAxis {
    /// Every axis.
    pub const ALL: [Self; 2] = [Self::CalibSize, Self::OdirLambda];

    /// The key.
    pub fn key(self) -> &'static str {
        match self {
            Self::CalibSize => "calib-size",
            Self::OdirLambda => "odir-lambda",
        }
    }

    /// The keys of the methods in the paper's figure of this axis.
    pub fn default_methods(self) -> &'static [&'static str] {
        match self {
            Self::CalibSize => &["ts", "diag", "oi", "op", "ms-odir", "dir-odir"],
            Self::OdirLambda => &["ms-odir", "dir-odir"],
        }
    }
}

impl fmt::Display for CurveAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

impl FromStr for CurveAxis {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|axis| axis.key() == key);
        found.ok_or_else(|| Error::invalid("over", key, "calib-size or odir-lambda"))
    }
}

/// One fit of a curve.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CurveFit {
    /// The method, with the penalty of this point.
    pub method: Method,
    /// The position along the axis: the share of the rows, or the penalty.
    pub x: f64,
    /// The number of calibration rows.
    pub rows: usize,
    /// The seed that draws them; `None` if all rows are used in order.
    pub seed: Option<u64>,
}

/// A measured fit of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePoint {
    /// The method's key.
    pub method: String,
    /// The position along the axis: the share of the rows, or the penalty.
    pub x: f64,
    /// The number of calibration rows.
    pub rows: usize,
    /// The seed that drew them, if they were drawn.
    pub seed: Option<u64>,
    /// The metrics on the test rows.
    pub metrics: BTreeMap<Metric, f64>,
}

/// The fits of a curve: those of a method are consecutive and in order of `x`.
///
/// Along [`CurveAxis::CalibSize`] every size is drawn once per seed. The rows drawn with one seed are
/// nested: a larger part contains the smaller ones, so that a curve shows the effect of more rows and not of
/// other rows. Along [`CurveAxis::OdirLambda`] seeds are not used.
///
/// # Errors
/// If a method has no off-diagonal penalty and that is the axis; `uncalibrated` is allowed, as a constant
/// line for comparison.
pub fn plan(
    axis: CurveAxis,
    methods: &[Method],
    rows: usize,
    seeds: &[u64],
) -> Result<Vec<CurveFit>> {
    let mut fits = Vec::new();
    for method in methods {
        match axis {
            CurveAxis::CalibSize => {
                let sizes = TENTHS.flat_map(|tenth| seeds.iter().map(move |&seed| (tenth, seed)));
                fits.extend(sizes.map(|(tenth, seed)| CurveFit {
                    method: method.clone(),
                    x: tenth as f64 / 10.0,
                    rows: (rows * tenth).div_ceil(10),
                    seed: Some(seed),
                }));
            }
            CurveAxis::OdirLambda => {
                for lambda in LAMBDAS {
                    fits.push(CurveFit {
                        method: with_lambda(method, lambda)?,
                        x: lambda,
                        rows,
                        seed: None,
                    });
                }
            }
        }
    }
    Ok(fits)
}

fn with_lambda(method: &Method, lambda: f64) -> Result<Method> {
    match method {
        Method::MsOdir(given) => Ok(given.clone().with_lambda(lambda).into()),
        Method::DirOdir(given) => Ok(given.clone().with_lambda(lambda).into()),
        Method::Uncalibrated(_) => Ok(method.clone()),
        other => Err(Error::invalid(
            "methods",
            other.key(),
            "ms-odir or dir-odir, which have an off-diagonal penalty",
        )),
    }
}

impl CurveFit {
    /// Fits the method on its part of the calibration rows and measures it on the test rows.
    ///
    /// # Errors
    /// If the two sets have different numbers of classes, the fit fails, or `watch` asked to stop.
    pub fn run(
        &self,
        calib: &Dataset<'_>,
        test: &Dataset<'_>,
        metrics: &[Metric],
        watch: &dyn Watch,
    ) -> Result<CurvePoint> {
        if calib.has_soft_labels() || test.has_soft_labels() {
            return Err(Error::SoftLabels { what: "a curve" });
        }
        let fitted = match self.seed {
            Some(seed) => {
                let mut order: Vec<usize> = (0..calib.rows()).collect();
                Rng::new(seed).shuffle(&mut order);
                let part = calib.select(&order[..self.rows]);
                self.method.fit_watched(&part, watch)?
            }
            None => self.method.fit_watched(calib, watch)?,
        };
        let measures = Measures {
            metrics: metrics.to_vec(),
            options: MetricOptions::default(),
            bootstrap: None,
            intervals: false,
            keep_resamples: false,
        };
        Ok(CurvePoint {
            method: self.method.key().to_owned(),
            x: self.x,
            rows: self.rows,
            seed: self.seed,
            metrics: measure(&fitted.model, test, &measures)?.metrics,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_for_every_seed_and_penalties_once() {
        let methods = ["ts", "vs"].map(|key| Method::from_key(key).unwrap());
        let sizes = plan(CurveAxis::CalibSize, &methods, 25, &[7, 8]).unwrap();
        assert_eq!(sizes.len(), 2 * 10 * 2);
        let first = &sizes[1];
        assert_eq!((first.rows, first.seed), (3, Some(8)));
        assert_eq!(sizes[19].rows, 25);
        let refused = plan(CurveAxis::OdirLambda, &methods, 25, &[]).unwrap_err();
        assert!(
            matches!(&refused, Error::InvalidParameter { name: "methods", value, .. } if value == "ts"),
            "{refused:?}"
        );
        for key in CurveAxis::OdirLambda.default_methods() {
            let method = Method::from_key(key).unwrap();
            let fits = plan(CurveAxis::OdirLambda, &[method], 25, &[]).unwrap();
            assert_eq!(fits.len(), LAMBDAS.len());
            assert_ne!(fits[0].method, fits[1].method);
        }
    }

    #[test]
    fn keys_come_back() {
        for axis in CurveAxis::ALL {
            assert_eq!(axis.key().parse(), Ok(axis));
        }
        assert!("rows".parse::<CurveAxis>().is_err());
    }
}

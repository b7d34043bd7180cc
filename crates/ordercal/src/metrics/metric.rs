//! The names of the metrics and the numbers they depend on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A metric by its key, as in configuration files, command lines and reports.
///
/// ```
/// use ordercal::metrics::Metric;
///
/// let metric: Metric = "adaptive_ece".parse()?;
/// assert_eq!(metric, Metric::AdaptiveEce);
/// assert_eq!(metric.to_string(), "adaptive_ece");
/// assert!("ecce".parse::<Metric>().is_err());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Share of rows whose most probable class is the label: [`accuracy`](super::accuracy).
    Accuracy,
    /// Share of rows whose label is among the k most probable classes: [`top_k_accuracy`](super::top_k_accuracy).
    Top5,
    /// Mean negative log-likelihood: [`nll`](super::nll).
    Nll,
    /// Squared error, mean over all cells: [`brier`](super::brier).
    Brier,
    /// Expected calibration error of the top label: [`ece`](super::ece).
    Ece,
    /// Largest gap among the bins of `ece`: [`mce`](super::mce).
    Mce,
    /// `ece` with equal-mass bins: [`adaptive_ece`](super::adaptive_ece).
    AdaptiveEce,
    /// Mean of the classes' binary errors: [`classwise_ece`](super::classwise_ece).
    ClasswiseEce,
    /// Kull et al.'s sum over the classes: [`classwise_ece_sum`](super::classwise_ece_sum).
    ClasswiseEceSum,
    /// Debiased root-mean-square error of the top label: [`debiased_ece`](super::debiased_ece).
    DebiasedEce,
    /// Debiased root-mean-square error over the classes: [`marginal_ce`](super::marginal_ce).
    MarginalCe,
    /// Largest cumulative gap: [`ks`](super::ks).
    Ks,
    /// Smooth calibration error: [`sm_ece`](super::sm_ece).
    SmEce,
}

impl Metric {
    /// Every metric, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Accuracy,
        Self::Top5,
        Self::Nll,
        Self::Brier,
        Self::Ece,
        Self::Mce,
        Self::AdaptiveEce,
        Self::ClasswiseEce,
        Self::ClasswiseEceSum,
        Self::DebiasedEce,
        Self::MarginalCe,
        Self::Ks,
        Self::SmEce,
    ];

    /// The key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Top5 => "top5",
            Self::Nll => "nll",
            Self::Brier => "brier",
            Self::Ece => "ece",
            Self::Mce => "mce",
            Self::AdaptiveEce => "adaptive_ece",
            Self::ClasswiseEce => "classwise_ece",
            Self::ClasswiseEceSum => "classwise_ece_sum",
            Self::DebiasedEce => "debiased_ece",
            Self::MarginalCe => "marginal_ce",
            Self::Ks => "ks",
            Self::SmEce => "sm_ece",
        }
    }

    /// Whether a larger value is a better one; all other metrics are errors or losses.
    pub fn higher_is_better(self) -> bool {
        matches!(self, Self::Accuracy | Self::Top5)
    }

    /// Whether the metric looks only at the confidence of the predicted class and at whether it is right.
    pub fn is_top_label(self) -> bool {
        matches!(
            self,
            Self::Ece | Self::Mce | Self::AdaptiveEce | Self::DebiasedEce | Self::Ks | Self::SmEce
        )
    }

    /// Whether the metric looks at every class by itself, so that it needs the whole matrix.
    pub fn is_per_class(self) -> bool {
        matches!(
            self,
            Self::ClasswiseEce | Self::ClasswiseEceSum | Self::MarginalCe
        )
    }

    /// Whether a [`MetricState`](super::MetricState) gives the same value as the rows themselves.
    /// For the others it gives an estimate with an error bound.
    pub fn is_exactly_mergeable(self) -> bool {
        !matches!(
            self,
            Self::AdaptiveEce | Self::DebiasedEce | Self::MarginalCe | Self::Ks | Self::SmEce
        )
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|metric| metric.key() == key)
            .ok_or_else(|| Error::UnknownMetric {
                key: key.to_owned(),
                known: Self::ALL.map(Self::key).join(", "),
            })
    }
}

/// The numbers that metrics depend on; the defaults are the documented ones.
///
/// ```
/// use ordercal::metrics::MetricOptions;
///
/// let options = MetricOptions::default().with_bins(10).with_norm(2.0);
/// assert!(options.validate().is_ok());
/// assert!(options.with_bins(0).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MetricOptions {
    /// How many bins every binned metric has; 15. `classwise_ece_sum` has one fewer, as in its origin.
    pub bins: usize,
    /// The p of (Σ share · |gap|ᵖ)^(1/p) in `ece`, `adaptive_ece`, `classwise_ece` and
    /// `classwise_ece_sum`; 1. At least 1.
    pub norm: f64,
    /// The k of `top5`; 5.
    pub top_k: usize,
    /// The smallest probability of the label that `nll` counts; 0, so that a label with probability 0
    /// makes it infinite.
    pub clip: f64,
}

impl Default for MetricOptions {
    fn default() -> Self {
        Self {
            bins: 15,
            norm: 1.0,
            top_k: 5,
            clip: 0.0,
        }
    }
}

impl MetricOptions {
    /// The largest number of bins there may be.
    pub const MAX_BINS: usize = 4096;

    /// Sets [`bins`](Self::bins).
    pub fn with_bins(mut self, bins: usize) -> Self {
        self.bins = bins;
        self
    }

    /// Sets [`norm`](Self::norm).
    pub fn with_norm(mut self, norm: f64) -> Self {
        self.norm = norm;
        self
    }

    /// Sets [`top_k`](Self::top_k).
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets [`clip`](Self::clip).
    pub fn with_clip(mut self, clip: f64) -> Self {
        self.clip = clip;
        self
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first option that is out of range.
    pub fn validate(&self) -> Result<()> {
        let refuse = |name, value: String, expected| {
            Err(Error::InvalidParameter {
                name,
                value,
                expected,
            })
        };
        if !(1..=Self::MAX_BINS).contains(&self.bins) {
            return refuse("bins", self.bins.to_string(), "1 to 4096");
        }
        if !(self.norm >= 1.0 && self.norm.is_finite()) {
            return refuse(
                "norm",
                self.norm.to_string(),
                "a finite number of at least 1",
            );
        }
        if self.top_k == 0 || u32::try_from(self.top_k).is_err() {
            return refuse("top_k", self.top_k.to_string(), "1 or more, in 32 bits");
        }
        if !(0.0..1.0).contains(&self.clip) {
            return refuse("clip", self.clip.to_string(), "at least 0 and below 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_documented_ones_in_every_form() {
        let documented = "accuracy top5 nll brier ece mce adaptive_ece classwise_ece classwise_ece_sum \
                          debiased_ece marginal_ce ks sm_ece";
        let keys: Vec<&str> = documented.split_whitespace().collect();
        assert_eq!(Metric::ALL.map(Metric::key).to_vec(), keys);
        for metric in Metric::ALL {
            assert_eq!(metric.key().parse(), Ok(metric));
            let json = serde_json::to_string(&metric).unwrap();
            assert_eq!(json, format!("\"{metric}\""));
            assert_eq!(serde_json::from_str::<Metric>(&json).unwrap(), metric);
        }
        let error = "ECE".parse::<Metric>().unwrap_err();
        assert!(
            matches!(error, Error::UnknownMetric { ref key, .. } if key == "ECE"),
            "{error}"
        );
    }

    #[test]
    fn options_out_of_range_are_named() {
        let bad = [
            (MetricOptions::default().with_bins(0), "bins"),
            (MetricOptions::default().with_bins(4097), "bins"),
            (MetricOptions::default().with_norm(0.5), "norm"),
            (MetricOptions::default().with_norm(f64::NAN), "norm"),
            (MetricOptions::default().with_norm(f64::INFINITY), "norm"),
            (MetricOptions::default().with_top_k(0), "top_k"),
            (MetricOptions::default().with_clip(1.0), "clip"),
            (MetricOptions::default().with_clip(-0.1), "clip"),
        ];
        for (options, expected) in bad {
            match options.validate() {
                Err(Error::InvalidParameter { name, .. }) => assert_eq!(name, expected),
                other => panic!("{options:?} gave {other:?}"),
            }
        }
        let partial: MetricOptions = serde_json::from_str(r#"{"bins": 10}"#).unwrap();
        assert_eq!(partial, MetricOptions::default().with_bins(10));
        assert!(serde_json::from_str::<MetricOptions>(r#"{"bin": 10}"#).is_err());
    }
}

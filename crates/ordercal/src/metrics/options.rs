//! The parameters of the metrics.

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The parameters of the metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct MetricOptions {
    /// The number of bins of every binned metric; default 15. `classwise_ece_sum` has one fewer, as in the
    /// code of Kull et al.
    pub bins: usize,
    /// The p of (Σ share · |gap|ᵖ)^(1/p) in `ece`, `adaptive_ece`, `classwise_ece` and
    /// `classwise_ece_sum`; at least 1, default 1.
    pub norm: f64,
    /// The k of `top5`; default 5.
    pub top_k: usize,
    /// `nll` raises smaller probabilities of the label to this value; default 0, so that a label with
    /// probability 0 makes it infinite.
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
    /// The largest allowed number of bins.
    pub const MAX_BINS: usize = 4096;

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first option that is out of range.
    pub fn validate(&self) -> Result<()> {
        let refuse = |name, value: &dyn ToString, expected| {
            Err(Error::invalid(name, value.to_string(), expected))
        };
        if !(1..=Self::MAX_BINS).contains(&self.bins) {
            return refuse("bins", &self.bins, "1 to 4096");
        }
        if !(self.norm >= 1.0 && self.norm.is_finite()) {
            return refuse("norm", &self.norm, "a finite number of at least 1");
        }
        if self.top_k == 0 || u32::try_from(self.top_k).is_err() {
            return refuse("top_k", &self.top_k, "1 or more, in 32 bits");
        }
        if !(0.0..1.0).contains(&self.clip) {
            return refuse("clip", &self.clip, "at least 0 and below 1");
        }
        Ok(())
    }

    /// The largest contribution of a row to `nll`: −log of [`clip`](Self::clip).
    pub(crate) fn largest_nll(&self) -> f64 {
        if self.clip > 0.0 {
            -self.clip.ln()
        } else {
            f64::INFINITY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

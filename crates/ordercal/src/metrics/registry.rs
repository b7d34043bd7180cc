//! The metrics: their keys, texts and properties. `table.rs` lists them.

use std::fmt;
use std::str::FromStr;

use super::binning::Binning;
use super::definition::{Best, Compute};
use crate::data::Dataset;
use crate::error::{Error, Result};

/// Makes the enum, its definitions and a function for each metric.
macro_rules! metrics {
    ($($(#[doc = $more:literal])* $variant:ident = $key:literal => $function:ident {
        name: $name:literal,
        brief: $brief:literal,
        formula: $formula:literal,
        range: $range:literal,
        caveat: $caveat:literal,
        equals: $equals:literal,
        best: $best:expr,
        compute: $compute:expr,
    })*) => {
        /// A metric by its key, as in configuration files, command lines and reports.
        ///
        /// ```
        /// use ordercal::metrics::Metric;
        ///
        /// let metric: Metric = "adaptive_ece".parse()?;
        /// assert_eq!((metric.key(), metric.name()), ("adaptive_ece", "Adaptive ECE"));
        /// assert!(Metric::for_classes(2).contains(&Metric::EcePositive));
        /// assert!(Metric::EcePositive.check_classes(10).is_err());
        /// # Ok::<(), ordercal::Error>(())
        /// ```
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Metric {
            $(
                #[doc = concat!("See [`", stringify!($function), "`](crate::metrics::", stringify!($function), "()).")]
                $variant,
            )*
        }

        impl Metric {
            /// Every metric, in the order of the documentation.
            pub const ALL: [Self; [$($key),*].len()] = [$(Self::$variant),*];

            #[cfg(test)]
            pub(super) const FUNCTIONS: [Function; Self::ALL.len()] = [$($function),*];

            pub(crate) fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$variant => &Definition {
                        key: $key,
                        name: $name,
                        brief: $brief,
                        formula: $formula,
                        range: $range,
                        caveat: $caveat,
                        equals: $equals,
                        best: $best,
                        compute: $compute,
                    },)*
                }
            }
        }

        $(
            #[doc = concat!("Computes `", $key, "`: `", $formula, "`.\n\n", $brief, "\n")]
            $(#[doc = $more])*
            #[doc = concat!("\n", $caveat, "\n\nEqual to ", $equals, ".")]
            #[doc = "\n# Errors\nIf an option is out of range, or the metric is [not defined](Metric::for_classes) for this many classes."]
            pub fn $function(predictions: &Predictions<'_>, options: &MetricOptions) -> Result<f64> {
                Metric::$variant.compute(predictions, options)
            }
        )*
    };
}

mod table;

pub use table::*;

#[cfg(test)]
type Function = fn(&super::Predictions<'_>, &super::MetricOptions) -> Result<f64>;

impl Metric {
    /// The key, as in `adaptive_ece`.
    pub fn key(self) -> &'static str {
        self.definition().key
    }

    /// The name in headings of tables and figures, as in `Adaptive ECE`.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// What the metric asks, with the formula in words: one sentence.
    pub fn brief(self) -> &'static str {
        self.definition().brief
    }

    /// The formula, with the default options.
    pub fn formula(self) -> &'static str {
        self.definition().formula
    }

    /// The smallest and the largest value.
    pub fn range(self) -> &'static str {
        self.definition().range
    }

    /// When the metric misleads.
    pub fn caveat(self) -> &'static str {
        self.definition().caveat
    }

    /// The public package, or the paper, whose values it equals.
    pub fn equals(self) -> &'static str {
        self.definition().equals
    }

    /// Which value is the best.
    pub fn best(self) -> Best {
        self.definition().best
    }

    /// Whether a larger value is a better one.
    pub fn higher_is_better(self) -> bool {
        self.best() == Best::Highest
    }

    /// What to compare methods by: the distance from the best value if values on both sides of it are worse,
    /// otherwise the value itself.
    pub fn error(self, value: f64) -> f64 {
        match self.best() {
            Best::Value(best) => (value - best).abs(),
            Best::Lowest | Best::Highest => value,
        }
    }

    /// The metrics that are defined for this many classes: all, but for `ece_positive`, which is for two.
    pub fn for_classes(classes: usize) -> Vec<Self> {
        let defined = |metric: &Self| metric.check_classes(classes).is_ok();
        Self::ALL.into_iter().filter(defined).collect()
    }

    /// Checks that the metric is defined for this many classes.
    ///
    /// # Errors
    /// [`Error::MetricNotSupported`] if it is not.
    pub fn check_classes(self, classes: usize) -> Result<()> {
        if self == Self::EcePositive && classes != 2 {
            return Err(Error::MetricNotSupported {
                metric: self.key(),
                reason: format!(
                    "it is for two classes and there are {classes}; use ece or classwise_ece"
                ),
            });
        }
        Ok(())
    }

    /// Whether a [`MetricState`](super::MetricState) gives the metric only if it keeps the bins of every class.
    pub(crate) fn is_class_wise(self) -> bool {
        matches!(
            self,
            Self::ClasswiseEce | Self::ClasswiseEceSum | Self::EcePositive
        )
    }

    /// Whether the metric is defined for soft labels: proper scores are, as their expectation over the labels.
    pub fn takes_soft_labels(self) -> bool {
        matches!(self, Self::Nll | Self::Brier | Self::BrierSum)
    }

    /// Checks that metrics are defined for the labels of a dataset.
    ///
    /// # Errors
    /// [`Error::MetricNotSupported`] if there are soft labels and one is not defined for them.
    pub fn check_labels(metrics: &[Self], data: &Dataset<'_>) -> Result<()> {
        let undefined = metrics.iter().find(|metric| !metric.takes_soft_labels());
        match undefined.filter(|_| data.has_soft_labels()) {
            Some(metric) => Err(Error::MetricNotSupported {
                metric: metric.key(),
                reason:
                    "labels are distributions, for which only nll, brier and brier_sum are defined"
                        .to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Whether a [`MetricState`](super::MetricState) gives the metric only if it [keeps](super::MetricState::with_marginal)
    /// the bins of every class.
    pub fn reads_class_bins(self, classes: usize) -> bool {
        match self {
            Self::MarginalCe => true,
            // Of two classes, Cox's regression reads the same bins.
            Self::CoxSlope | Self::CoxIntercept => classes == 2,
            _ => false,
        }
    }

    /// Whether the metric depends only on the confidence of the predicted class and on whether it is right.
    pub fn is_top_label(self) -> bool {
        let compute = &self.definition().compute;
        matches!(compute, Compute::Bins(..) | Compute::TopLabel(_))
    }

    /// Whether a [`MetricState`](super::MetricState) gives the same value as the rows themselves.
    /// For the others it gives an estimate with an error bound.
    pub fn is_exactly_mergeable(self) -> bool {
        match self.definition().compute {
            Compute::Rows(_) => !matches!(self, Self::CoxSlope | Self::CoxIntercept),
            Compute::Bins(binning, _) => binning != Binning::EqualMass,
            Compute::PerClass(binning, _) => binning != Binning::EqualMass,
            Compute::TopLabel(_) => false,
        }
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
        let found = Self::ALL.into_iter().find(|metric| metric.key() == key);
        found.ok_or_else(|| Error::UnknownMetric {
            key: key.to_owned(),
            known: Self::ALL.map(Self::key).join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_documented_ones_in_every_form() {
        let documented = "accuracy top5 nll brier ece mce adaptive_ece classwise_ece classwise_ece_sum \
                          debiased_ece marginal_ce ks sm_ece brier_sum ece_positive auroc ap aurc eaurc \
                          spiegelhalter_z cox_slope cox_intercept accuracy_at_coverage";
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
    fn every_function_gives_the_value_of_its_key() {
        use crate::metrics::{MetricOptions, Predictions, evaluate};
        let mut rng = crate::rng::Rng::new(8);
        let options = MetricOptions::default().with_bins(11).with_norm(2.0);
        let options = options.with_top_k(2);
        for classes in [2, 6] {
            let mut probs = ndarray::Array2::from_shape_fn((300, classes), |_| rng.uniform());
            for mut row in probs.rows_mut() {
                row /= row.sum();
            }
            let labels: Vec<u32> = (0..300).map(|_| rng.below(classes) as u32).collect();
            let predictions = Predictions::from_probs(probs.view(), &labels).unwrap();
            let values = evaluate(&predictions, &Metric::for_classes(classes), &options).unwrap();
            assert_eq!(values.len(), Metric::ALL.len() - usize::from(classes > 2));
            for (metric, function) in Metric::ALL.into_iter().zip(Metric::FUNCTIONS) {
                match function(&predictions, &options) {
                    Ok(value) => assert_eq!(value.to_bits(), values[&metric].to_bits(), "{metric}"),
                    Err(error) => assert!(
                        matches!(
                            error,
                            Error::MetricNotSupported {
                                metric: "ece_positive",
                                ..
                            }
                        ),
                        "{error}"
                    ),
                }
            }
        }
    }

    #[test]
    fn every_metric_is_named_and_explained_in_one_sentence() {
        for metric in Metric::ALL {
            assert_ne!(metric.name(), metric.key());
            assert!(metric.brief().ends_with('.'), "{metric}");
            assert!(!metric.brief().contains(". "), "{metric}");
            assert!(metric.caveat().ends_with('.'), "{metric}");
            for text in [metric.formula(), metric.range(), metric.equals()] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{metric}: {text}");
            }
        }
    }
}

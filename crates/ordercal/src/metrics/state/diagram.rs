//! Reliability diagrams and intervals from a state.

use std::collections::BTreeMap;

use super::bins::FixedBinSum;
use super::fixed::float;
use super::{Fixed, MetricState};
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::metrics::binning::{BinSum, Binning};
use crate::metrics::bootstrap::{BootstrapOptions, Interval};
use crate::metrics::interval::of_bin_sums;
use crate::metrics::reliability::{Reliability, Target, equal_width_bins, wilson_interval};

impl MetricState {
    /// The reliability diagram of all rows taken in, in bins of equal width.
    ///
    /// # Errors
    /// If no row with a positive weight was taken in, or the class is not one of the state's.
    pub fn reliability(&self, target: Target) -> Result<Reliability> {
        if self.weight <= 0 {
            return Err(Error::NoRows);
        }
        let bins = self.options.bins;
        let cells = match target {
            Target::TopLabel => &self.top[..],
            Target::Class(_) if !self.has_class_bins() => {
                return Err(Error::InvalidState {
                    reason: "it was made without the bins of every class",
                });
            }
            Target::Class(class) if class < self.classes => {
                &self.classwise[class * bins..(class + 1) * bins]
            }
            Target::Class(class) => {
                return Err(Error::InvalidParameter {
                    name: "class",
                    value: class.to_string(),
                    expected: "a class of the predictions",
                });
            }
        };
        let sums: Vec<BinSum> = cells.iter().map(FixedBinSum::sum).collect();
        Ok(Reliability {
            target,
            binning: Binning::EqualWidth,
            bins: equal_width_bins(&sums),
        })
    }

    /// Intervals of the metrics whose chance can be told from the sums that a state keeps: `accuracy` and `top5`
    /// (Wilson's), `ece`, `mce`, `classwise_ece`, `classwise_ece_sum` and `ece_positive` (as [`bootstrap`](crate::metrics::bootstrap())
    /// makes them, with normal noise in every bin). Weights are counts.
    ///
    /// # Errors
    /// If no row with a positive weight was taken in, or an option is out of range.
    pub fn intervals(&self, how: &BootstrapOptions) -> Result<BTreeMap<Metric, Interval>> {
        how.validate()?;
        let values = self.finalize()?;
        let total = float(self.weight);
        let share = |hits: Fixed| {
            let (lower, upper) = wilson_interval(float(hits), total);
            let value = float(hits) / total;
            Interval {
                value,
                lower: lower.min(value),
                upper: upper.max(value),
            }
        };
        let mut found = BTreeMap::from([
            (Metric::Accuracy, share(self.hits)),
            (Metric::Top5, share(self.top_k_hits)),
        ]);
        let bins = self.options.bins;
        let mut binned = vec![(Metric::Ece, &self.top[..]), (Metric::Mce, &self.top)];
        if self.has_class_bins() {
            binned.push((Metric::ClasswiseEce, &self.classwise));
            binned.push((Metric::ClasswiseEceSum, &self.left_closed));
        }
        if self.classes == 2 && self.has_class_bins() {
            binned.push((Metric::EcePositive, &self.classwise[bins..]));
        }
        for (metric, cells) in binned {
            let sums = |cells: &[FixedBinSum]| cells.iter().map(FixedBinSum::sum).collect();
            let tables: Vec<Vec<BinSum>> = cells.chunks(bins).map(sums).collect();
            let value = values[&metric].value;
            found.insert(
                metric,
                of_bin_sums(metric, &tables, &self.options, value, how),
            );
        }
        Ok(found)
    }
}

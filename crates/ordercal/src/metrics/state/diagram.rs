//! Reliability diagrams and intervals from a state.

use std::collections::BTreeMap;

use super::estimate::sums;
use super::fixed::float;
use super::{CLASSWISE, Fixed, HITS, LEFT_CLOSED, MetricState, TOP, TOP_K_HITS, WEIGHT};
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::metrics::binning::Binning;
use crate::metrics::bootstrap::{BootstrapOptions, Interval};
use crate::metrics::interval::of_bins;
use crate::metrics::reliability::{Reliability, Target, equal_width_bins, wilson_interval};

impl MetricState {
    /// The reliability diagram of all rows taken in, in bins of equal width.
    ///
    /// # Errors
    /// If no row with a positive weight was taken in, or the class is not one of the state's.
    pub fn reliability(&self, target: Target) -> Result<Reliability> {
        self.check_rows()?;
        let bins = self.options.bins;
        let cells = match target {
            Target::TopLabel => &self.tables[TOP][..],
            Target::Class(_) if !self.has_class_bins() => {
                return Err(Error::InvalidState {
                    reason: "it was made without the bins of every class",
                });
            }
            Target::Class(class) if class < self.classes => {
                &self.tables[CLASSWISE][class * bins..(class + 1) * bins]
            }
            Target::Class(class) => {
                let expected = "a class of the predictions";
                return Err(Error::invalid("class", class, expected));
            }
        };
        Ok(Reliability {
            target,
            binning: Binning::EqualWidth,
            bins: equal_width_bins(&sums(cells)),
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
        let total = float(self.sums[WEIGHT]);
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
            (Metric::Accuracy, share(self.sums[HITS])),
            (Metric::Top5, share(self.sums[TOP_K_HITS])),
        ]);
        let bins = self.options.bins;
        let mut binned = vec![
            (Metric::Ece, &self.tables[TOP][..]),
            (Metric::Mce, &self.tables[TOP]),
        ];
        if self.has_class_bins() {
            binned.push((Metric::ClasswiseEce, &self.tables[CLASSWISE]));
            binned.push((Metric::ClasswiseEceSum, &self.tables[LEFT_CLOSED]));
        }
        if self.classes == 2 && self.has_class_bins() {
            binned.push((Metric::EcePositive, &self.tables[CLASSWISE][bins..]));
        }
        for (metric, cells) in binned {
            let tables = cells.chunks(bins).map(sums).collect();
            let value = values[&metric].value;
            let interval = of_bins(metric, tables, &self.options, value, 1.0, how);
            found.insert(metric, interval);
        }
        Ok(found)
    }
}

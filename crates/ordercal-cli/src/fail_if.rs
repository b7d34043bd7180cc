//! Thresholds on metrics, as in `ece>0.02`.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use ordercal::metrics::Metric;

use ordercal_io::nearest;

/// A condition under which a run counts as failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailIf {
    pub metric: Metric,
    above: bool,
    inclusive: bool,
    limit: f64,
}

impl FailIf {
    /// Reads `METRIC>X`, `METRIC>=X`, `METRIC<X` or `METRIC<=X`.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || anyhow!("--fail-if `{text}`: write METRIC>X or METRIC<X, as in ece>0.02");
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let above = text.as_bytes()[at] == b'>';
        let rest = &text[at + 1..];
        let limit = rest.strip_prefix('=').unwrap_or(rest);
        let number: f64 = limit.trim().parse().map_err(|_| wrong())?;
        if !number.is_finite() {
            return Err(wrong());
        }
        Ok(Self {
            metric: metric(text[..at].trim()).map_err(|e| anyhow!("--fail-if `{text}`: {e}"))?,
            above,
            inclusive: limit.len() < rest.len(),
            limit: number,
        })
    }

    /// Whether the condition holds; NaN and missing values count as failures.
    pub fn fails(&self, values: &BTreeMap<Metric, f64>) -> bool {
        let Some(value) = values.get(&self.metric) else {
            return true;
        };
        match (self.above, self.inclusive) {
            _ if value.is_nan() => true,
            (true, false) => *value > self.limit,
            (true, true) => *value >= self.limit,
            (false, false) => *value < self.limit,
            (false, true) => *value <= self.limit,
        }
    }
}

/// A metric by its key; the error suggests the nearest one.
pub fn metric(key: &str) -> Result<Metric> {
    key.parse().map_err(
        |error| match nearest(key, Metric::ALL.iter().map(|m| m.key())) {
            Some(near) => anyhow!("there is no metric `{key}`; did you mean `{near}`?"),
            None => anyhow!("{error}"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_and_compared() {
        let values = BTreeMap::from([(Metric::Ece, 0.02), (Metric::Accuracy, 0.9)]);
        let fails = |text: &str| FailIf::parse(text).unwrap().fails(&values);
        assert!(fails("ece>0.01") && !fails("ece > 0.02") && fails("ece>=0.02"));
        assert!(fails("accuracy<0.95") && !fails("accuracy<0.9") && fails("accuracy<=0.9"));
        assert!(fails("nll>1"), "a missing value fails");
        for bad in [
            "", "ece", "ece>", "ece>x", "ecce>0.1", ">0.1", "ece=0.1", "ece>nan",
        ] {
            assert!(FailIf::parse(bad).is_err(), "{bad}");
        }
    }
}

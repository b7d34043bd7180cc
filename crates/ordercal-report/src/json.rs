//! A comparison as one JSON object.

use std::collections::BTreeMap;

use ordercal::metrics::Metric;
use serde::Serialize;
use serde_json::{Value, json};

use crate::comparison::Comparison;

/// `{"datasets": […], "average_relative_error": {KEY: {METHOD: v}}, "ranks": {KEY: {…}}}`.
///
/// `ranks` holds, by metric, the ranks on every dataset and, under `average_relative_error`, those of the
/// averages. A value that is not finite is `null`.
pub fn to_json(comparison: &Comparison) -> Value {
    let by_metric = |value: &dyn Fn(Metric) -> Value| -> BTreeMap<&str, Value> {
        let metrics = comparison.metrics().iter();
        metrics
            .map(|&metric| (metric.key(), value(metric)))
            .collect()
    };
    let ranks = |metric| {
        let datasets = comparison.datasets().iter().enumerate();
        let mut ranks: BTreeMap<&str, Value> = datasets
            .map(|(place, d)| {
                (
                    &*d.name,
                    by_method(comparison, comparison.ranks(metric, place)),
                )
            })
            .collect();
        let average = by_method(comparison, comparison.average_ranks(metric));
        ranks.insert("average_relative_error", average);
        json!(ranks)
    };
    json!({
        "datasets": comparison.datasets(),
        "average_relative_error": by_metric(&|metric| {
            by_method(comparison, comparison.average_relative_errors(metric))
        }),
        "ranks": by_metric(&ranks),
    })
}

fn by_method<T: Serialize>(comparison: &Comparison, values: Vec<T>) -> Value {
    let methods = comparison.methods().into_iter().map(|(key, _)| key);
    json!(methods.zip(values).collect::<BTreeMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;
    use std::collections::BTreeSet;

    fn keys(value: &Value) -> BTreeSet<&str> {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    #[test]
    fn the_shape_is_the_promised_one() {
        let value = to_json(&small());
        assert_eq!(
            keys(&value),
            BTreeSet::from(["datasets", "average_relative_error", "ranks"])
        );
        let dataset = &value["datasets"][0];
        assert_eq!(
            keys(dataset),
            BTreeSet::from(["name", "n_calib", "n_test", "classes", "methods"])
        );
        let promised = [
            "method",
            "metrics",
            "order_preserving",
            "changed_predictions",
            "fit_seconds",
            "chosen",
        ];
        assert_eq!(keys(&dataset["methods"][1]), BTreeSet::from(promised));
        assert_eq!(dataset["methods"][1]["metrics"]["ece"], 0.05);
        assert_eq!(value["ranks"]["ece"]["first_set"]["vs"], 1);
        assert_eq!(value["ranks"]["ece"]["average_relative_error"]["ts"], 1);
        assert_eq!(
            keys(&value["average_relative_error"]["ece"]),
            BTreeSet::from(["uncalibrated", "ts", "vs"])
        );
    }
}

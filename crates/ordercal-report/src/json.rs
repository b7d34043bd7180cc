//! A comparison as one JSON object.

use serde_json::{Map, Value, json};

use crate::comparison::Comparison;
use crate::result::{DatasetResult, MethodResult};

/// `{"datasets": […], "average_relative_error": {KEY: {METHOD: v}}, "ranks": {KEY: {…}}}`.
///
/// `ranks` holds, by metric, the ranks on every dataset and, under `average_relative_error`, those of the
/// averages. A value that is not finite is `null`.
pub fn to_json(comparison: &Comparison) -> Value {
    let by_metric = |value: &dyn Fn(ordercal::metrics::Metric) -> Value| -> Map<String, Value> {
        let metrics = comparison.metrics().iter();
        metrics.map(|&m| (m.key().to_owned(), value(m))).collect()
    };
    let by_method = |values: Vec<Value>| -> Value {
        let methods = comparison.methods().into_iter();
        let entries = methods.zip(values);
        Value::Object(entries.map(|((key, _), v)| (key.to_owned(), v)).collect())
    };
    let ranked = |ranks: Vec<usize>| by_method(ranks.into_iter().map(Value::from).collect());
    json!({
        "datasets": comparison.datasets().iter().map(dataset).collect::<Vec<_>>(),
        "average_relative_error": by_metric(&|metric| {
            let averages = comparison.average_relative_errors(metric);
            by_method(averages.into_iter().map(Value::from).collect())
        }),
        "ranks": by_metric(&|metric| {
            let datasets = comparison.datasets().iter().enumerate();
            let mut ranks: Map<String, Value> = datasets
                .map(|(place, d)| (d.name.clone(), ranked(comparison.ranks(metric, place))))
                .collect();
            let average = ranked(comparison.average_ranks(metric));
            ranks.insert("average_relative_error".to_owned(), average);
            Value::Object(ranks)
        }),
    })
}

fn dataset(dataset: &DatasetResult) -> Value {
    json!({
        "name": dataset.name,
        "n_calib": dataset.n_calib,
        "n_test": dataset.n_test,
        "classes": dataset.classes,
        "methods": dataset.methods.iter().map(method).collect::<Vec<_>>(),
    })
}

fn method(result: &MethodResult) -> Value {
    let metrics: Map<String, Value> = result
        .metrics
        .iter()
        .map(|(metric, value)| (metric.key().to_owned(), json!(value)))
        .collect();
    let mut value = json!({
        "method": result.method,
        "metrics": metrics,
        "order_preserving": result.order_preserving,
        "changed_predictions": result.changed_predictions,
        "chosen": result.chosen,
    });
    // Seconds differ from run to run; they are left out where equal runs must give equal bytes.
    if let Some(seconds) = result.fit_seconds {
        value["fit_seconds"] = json!(seconds);
    }
    value
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

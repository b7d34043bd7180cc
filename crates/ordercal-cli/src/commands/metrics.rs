//! `ordercal metrics`: explains the metrics.

use anyhow::Result;
use ordercal::metrics::{Best, Metric};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::fail_if::metric;
use crate::printer::Printer;

pub fn run(keys: &[String], printer: Printer) -> Result<Exit> {
    let shown = if keys.is_empty() {
        Metric::ALL.to_vec()
    } else {
        keys.iter().map(|key| metric(key)).collect::<Result<_>>()?
    };
    let rows: Vec<Value> = shown.iter().map(|&metric| to_json(metric)).collect();
    printer.json(&json!({ "metrics": rows }));
    for metric in shown {
        printer.result(format_args!("{metric} ({})", metric.name()));
        for (what, text) in [
            ("asks", metric.brief()),
            ("formula", metric.formula()),
            ("range", &range(metric)),
            ("caveat", metric.caveat()),
            ("equals", metric.equals()),
        ] {
            printer.result(ordercal_report::wrap(&format!("  {what:<9}{text}"), 11));
        }
        printer.result("");
    }
    Ok(Exit::Done)
}

/// The range with the best value.
fn range(metric: Metric) -> String {
    let best = match metric.best() {
        Best::Lowest => "lower is better".to_owned(),
        Best::Highest => "higher is better".to_owned(),
        Best::Value(best) => format!("the best is {best}"),
    };
    format!("{}; {best}", metric.range())
}

fn to_json(metric: Metric) -> Value {
    json!({
        "key": metric.key(),
        "name": metric.name(),
        "asks": metric.brief(),
        "formula": metric.formula(),
        "range": metric.range(),
        "caveat": metric.caveat(),
        "equals": metric.equals(),
        "best": match metric.best() {
            Best::Lowest => json!("lowest"),
            Best::Highest => json!("highest"),
            Best::Value(best) => json!(best),
        },
    })
}

//! From the printed values of the paper's tables come its printed ranks and averages.

use std::collections::BTreeMap;

use ordercal::metrics::Metric;
use ordercal_report::{Comparison, DatasetResult, MethodResult, Table, to_latex};
use serde_json::Value;

fn paper() -> Value {
    serde_json::from_str(include_str!(
        "../../../../tests/data/metrics/paper_tables.json"
    ))
    .unwrap()
}

fn strings(value: &Value) -> Vec<String> {
    let texts = value.as_array().unwrap().iter();
    texts.map(|v| v.as_str().unwrap().to_owned()).collect()
}

fn comparison(table: &Value, metric: Metric) -> Comparison {
    let methods = strings(&table["methods"]);
    let datasets = table["rows"].as_array().unwrap().iter().map(|row| {
        let values = strings(&row["values"]);
        let results = methods
            .iter()
            .zip(&values)
            .map(|(method, value)| MethodResult {
                method: method.clone(),
                metrics: BTreeMap::from([(metric, value.parse().unwrap())]),
                resampled: BTreeMap::new(),
                order_preserving: !["dir-odir", "ms-odir", "unconstrained"]
                    .contains(&method.as_str()),
                changed_predictions: 0,
                fit_seconds: None,
                chosen: Value::Null,
            });
        DatasetResult {
            name: row["name"].as_str().unwrap().to_owned(),
            n_calib: 1,
            n_test: 1,
            classes: 2,
            methods: results.collect(),
        }
    });
    Comparison::new(vec![metric], datasets.collect()).unwrap()
}

#[test]
fn the_nll_table_comes_out_as_printed() {
    let paper = paper();
    let table = Table::of_metric(&comparison(&paper["nll"], Metric::Nll), Metric::Nll);
    let printed = paper["nll"]["rows"].as_array().unwrap();
    assert!(printed.len() >= 14);
    for (row, printed) in table.rows.iter().zip(printed) {
        let ranks: Vec<u64> = row.cells.iter().map(|c| c.rank as u64).collect();
        let expected: Vec<u64> = printed["ranks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r.as_u64().unwrap())
            .collect();
        assert_eq!(ranks, expected, "{}", row.name);
    }
    // The last row of the paper's table of NLL.
    let averages: Vec<String> = table
        .average
        .as_ref()
        .unwrap()
        .cells
        .iter()
        .map(|c| c.number(3))
        .collect();
    assert_eq!(
        averages,
        [
            "1.000", "0.766", "0.772", "0.768", "0.749", "0.751", "0.765"
        ]
    );
    let latex = to_latex(&table);
    assert!(latex.contains("$\\mathbf{0.749}_{1}$"), "{latex}");
}

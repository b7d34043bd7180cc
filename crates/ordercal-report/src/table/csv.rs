//! Tables as CSV in long form: one line for each number.

use ordercal::words::printable;

use crate::comparison::Comparison;

/// Every number of a comparison, in full precision. The average relative errors come last, under the
/// dataset name `average_relative_error`.
pub fn to_csv(comparison: &Comparison) -> String {
    let mut text = String::from(
        "dataset,n_calib,n_test,classes,method,order_preserving,changed_predictions,metric,value,rank,\
         close_to_best\n",
    );
    let datasets = comparison.datasets();
    let methods = comparison.methods();
    for (place, dataset) in datasets.iter().enumerate() {
        let (name, rows) = (quoted(&dataset.name), &dataset.methods);
        let about = format!(
            "{name},{},{},{}",
            dataset.n_calib, dataset.n_test, dataset.classes
        );
        for &metric in comparison.metrics() {
            let values = comparison.values(metric, place);
            let ranks = comparison.ranks(metric, place);
            let close = comparison.close_to_best(metric, place);
            for (method, result) in rows.iter().enumerate() {
                text.push_str(&format!(
                    "{about},{},{},{},{metric},{},{},{}\n",
                    quoted(&result.method),
                    result.order_preserving,
                    result.changed_predictions,
                    values[method],
                    ranks[method],
                    close[method],
                ));
            }
        }
    }
    for &metric in comparison.metrics() {
        let averages = comparison.average_relative_errors(metric);
        let ranks = comparison.average_ranks(metric);
        let close = comparison.close_to_best_average(metric);
        for (method, (key, order)) in methods.iter().enumerate() {
            let changed = datasets
                .iter()
                .map(|d| d.methods[method].changed_predictions);
            text.push_str(&format!(
                "average_relative_error,,,,{},{order},{},{metric},{},{},{}\n",
                quoted(key),
                changed.sum::<u64>(),
                averages[method],
                ranks[method],
                close[method],
            ));
        }
    }
    text
}

/// A field, in quotes if it has to be, without characters that control what shows it. One that a spreadsheet would take for a formula gets an apostrophe before it.
fn quoted(field: &str) -> String {
    let field: String = field.chars().map(printable).collect();
    if field.starts_with(['=', '+', '-', '@']) {
        return quoted(&format!("'{field}"));
    }
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_formulas() {
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("@a,b"), "\"'@a,b\"");
        assert_eq!(quoted("sms+order"), "sms+order");
    }
    use crate::comparison::tests::small;

    #[test]
    fn every_number_has_its_line() {
        let text = to_csv(&small());
        let lines: Vec<&str> = text.lines().collect();
        // 2 datasets and the average, 2 metrics, 3 methods.
        assert_eq!(lines.len(), 1 + 3 * 2 * 3);
        assert!(lines.contains(&"first_set,100,200,3,vs,false,12,ece,0.04,1,false"));
        assert!(
            lines
                .iter()
                .any(|l| l.starts_with("average_relative_error,,,,ts,true,0,ece,0.3"))
        );
        let columns = lines[0].split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == columns));
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}

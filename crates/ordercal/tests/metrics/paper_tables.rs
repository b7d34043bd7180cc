//! The arithmetic of the paper's tables: ranks and average relative errors from the printed rows.

use std::collections::BTreeMap;

use ordercal::metrics::{average_relative_errors, ranks};
use serde::Deserialize;

#[derive(Deserialize)]
struct PrintedTable {
    methods: Vec<String>,
    rows: Vec<PrintedRow>,
    average_relative_error: PrintedRow,
}

#[derive(Deserialize)]
struct PrintedRow {
    #[serde(default)]
    name: String,
    values: Vec<String>,
    ranks: Vec<usize>,
}

impl PrintedRow {
    fn numbers(&self) -> Vec<f64> {
        self.values
            .iter()
            .map(|v| v.parse().expect("a number"))
            .collect()
    }
}

fn tables() -> BTreeMap<String, PrintedTable> {
    let text = include_str!("../../../../tests/data/metrics/paper_tables.json");
    serde_json::from_str(text).expect("the tables are JSON")
}

/// Half a unit in the last printed digit.
fn half_unit(printed: &str) -> f64 {
    let (_, decimals) = printed.split_once('.').expect("a decimal number");
    0.5 * 10_f64.powi(-(decimals.len() as i32))
}

fn round_as(printed: &str, value: f64) -> String {
    let (_, decimals) = printed.split_once('.').expect("a decimal number");
    format!("{value:.*}", decimals.len())
}

#[test]
fn ranks_are_as_printed_but_in_two_rows() {
    let mut differing = Vec::new();
    let mut compared = 0;
    for (metric, table) in &tables() {
        for row in &table.rows {
            compared += 1;
            let ours = ranks(&row.numbers(), false);
            if ours != row.ranks {
                differing.push((metric.clone(), row.name.clone(), row.ranks.clone(), ours));
            }
        }
    }
    assert_eq!(compared, 6 * 14);
    let expected = [
        // Two third places, and then fourth and fifth instead of fifth and sixth.
        (
            "brier".to_owned(),
            "CIFAR100 ResNet 110".to_owned(),
            vec![7, 4, 3, 3, 5, 1, 2],
            vec![7, 5, 3, 3, 6, 1, 2],
        ),
        // The uncalibrated model is better than OI and OP, and is printed as the worst.
        (
            "ece".to_owned(),
            "SVHN ResNet 152 (SD)".to_owned(),
            vec![8, 5, 3, 4, 2, 6, 7, 1],
            vec![6, 5, 3, 4, 2, 7, 8, 1],
        ),
    ];
    assert_eq!(differing, expected);
}

#[test]
fn average_relative_errors_are_as_printed_but_in_two_tables() {
    let mut differing = Vec::new();
    for (metric, table) in &tables() {
        let rows: Vec<Vec<f64>> = table.rows.iter().map(PrintedRow::numbers).collect();
        let ours = average_relative_errors(&rows, 0).expect("a full table");
        let printed = &table.average_relative_error.values;
        for (place, method) in table.methods.iter().enumerate() {
            if round_as(&printed[place], ours[place]) != printed[place] {
                differing.push(format!(
                    "{metric} {method} {} {:.4}",
                    printed[place], ours[place]
                ));
            }
        }
    }
    let expected = [
        "brier ts 0.936 0.9334",
        "brier dir-odir 0.930 0.9270",
        "brier diag 0.924 0.9248",
        "brier oi 0.929 0.9244",
        "brier op 0.931 0.9289",
        "marginal_ce ms-odir 0.996 0.9976",
        "marginal_ce diag 0.725 0.7274",
        "marginal_ce oi 0.778 0.7790",
    ];
    assert_eq!(differing, expected);
}

/// The printed rows are rounded: what lies between the smallest and the largest average that rows with
/// these roundings can have is no contradiction.
#[test]
fn only_the_brier_tables_averages_are_out_of_roundings_reach() {
    let mut out_of_reach = Vec::new();
    for (metric, table) in &tables() {
        for (place, method) in table.methods.iter().enumerate().skip(1) {
            let (mut low, mut high) = (0.0, 0.0);
            for row in &table.rows {
                let numbers = row.numbers();
                let (half, base) = (half_unit(&row.values[place]), half_unit(&row.values[0]));
                low += (numbers[place] - half) / (numbers[0] + base);
                high += (numbers[place] + half) / (numbers[0] - base);
            }
            let rows = table.rows.len() as f64;
            let printed = &table.average_relative_error.values[place];
            let value: f64 = printed.parse().expect("a number");
            if high / rows < value - half_unit(printed) || low / rows > value + half_unit(printed) {
                out_of_reach.push(format!("{metric} {method}"));
            }
        }
    }
    let expected = ["brier ts", "brier dir-odir", "brier oi"];
    assert_eq!(out_of_reach, expected);
}

#[test]
fn the_printed_averages_are_ranked_as_printed() {
    for (metric, table) in &tables() {
        let average = &table.average_relative_error;
        assert_eq!(ranks(&average.numbers(), false), average.ranks, "{metric}");
    }
}

#[test]
fn ranks_share_places_and_put_nan_last() {
    assert_eq!(ranks(&[0.2, 0.1, 0.2, 0.3], false), [2, 1, 2, 4]);
    assert_eq!(ranks(&[0.2, 0.1, 0.2, 0.3], true), [2, 4, 2, 1]);
    assert_eq!(
        ranks(&[f64::NAN, 0.1, f64::INFINITY, f64::NAN], false),
        [3, 1, 2, 3]
    );
    assert_eq!(ranks(&[f64::NAN, 0.1], true), [2, 1]);
    assert!(ranks(&[], false).is_empty());
}

#[test]
fn a_table_that_is_not_one_is_refused() {
    use ordercal::Error;
    let none: [[f64; 2]; 0] = [];
    assert_eq!(average_relative_errors(&none, 0), Err(Error::NoRows));
    assert!(matches!(
        average_relative_errors(&[[1.0, 2.0]], 2),
        Err(Error::InvalidParameter {
            name: "uncalibrated",
            ..
        })
    ));
    let ragged = [vec![1.0, 2.0], vec![1.0]];
    assert!(matches!(
        average_relative_errors(&ragged, 0),
        Err(Error::WrongShape { .. })
    ));
    let zero = average_relative_errors(&[[0.0, 0.0, 0.1]], 0).expect("a full table");
    assert!((zero[1] - 1.0).abs() < 1e-15 && zero[2].is_infinite());
}

//! Relative errors and ranks of several methods on several datasets.

use crate::error::{Error, Result};

/// A method's error relative to the uncalibrated one: value / uncalibrated.
///
/// 0 / 0 counts as 1, because nothing changed; any other value over 0 is infinite.
pub fn relative_error(value: f64, uncalibrated: f64) -> f64 {
    if value == 0.0 && uncalibrated == 0.0 {
        1.0
    } else {
        value / uncalibrated
    }
}

/// Every method's average relative error: the mean over the datasets of its [`relative_error`].
///
/// `table[dataset][method]` holds the values of a metric, `uncalibrated` is the index of the uncalibrated
/// method in each row. This is the last row of the tables of Rahimi et al. (2020). Computed from their
/// printed tables of NLL, ECE, Classwise-ECE and Debiased ECE, it equals the printed row in all digits. Two
/// of their tables differ; in parentheses is what the printed values give:
/// - Marginal Calibration Error: MS-ODIR 0.996 (0.998), Diag 0.725 (0.727), OI 0.778 (0.779). The rounding
///   of the printed rows explains it.
/// - Brier: Diag 0.924 (0.925) and OP 0.931 (0.929), which rounding could explain; TS 0.936 (0.933),
///   Dir-ODIR 0.930 (0.927) and OI 0.929 (0.924), which it cannot.
///
/// # Errors
/// If there are no datasets, the rows differ in length, or the uncalibrated method is not among them.
pub fn average_relative_errors<R: AsRef<[f64]>>(
    table: &[R],
    uncalibrated: usize,
) -> Result<Vec<f64>> {
    let Some(first) = table.first() else {
        return Err(Error::NoRows);
    };
    let methods = first.as_ref().len();
    if uncalibrated >= methods {
        let expected = "the index of a method in the table";
        return Err(Error::invalid("uncalibrated", uncalibrated, expected));
    }
    let mut sums = vec![0.0; methods];
    for (dataset, row) in table.iter().enumerate() {
        let row = row.as_ref();
        if row.len() != methods {
            return Err(Error::WrongShape {
                expected: (table.len(), methods),
                found: (dataset, row.len()),
            });
        }
        for (sum, &value) in sums.iter_mut().zip(row) {
            *sum += relative_error(value, row[uncalibrated]);
        }
    }
    Ok(sums.iter().map(|sum| sum / table.len() as f64).collect())
}

/// Competition ranks: 1 plus the number of strictly better values, so equal values share a rank and the
/// next is skipped (1, 2, 2, 4), as in the tables of Rahimi et al. (2020).
///
/// Smaller is better, unless `higher_is_better` (see
/// [`Metric::higher_is_better`](super::Metric::higher_is_better)). NaN ranks last.
///
/// Two rows of their tables are printed with other ranks than their values have: ECE on SVHN, where the
/// uncalibrated 0.0086 is printed as rank 8 although 0.0116 and 0.0118 are larger, and Brier on CIFAR-100
/// with ResNet 110, where after two third places the next are printed as 4 and 5 instead of 5 and 6.
pub fn ranks(values: &[f64], higher_is_better: bool) -> Vec<usize> {
    let better = |a: f64, b: f64| {
        if higher_is_better { a > b } else { a < b }
    };
    values
        .iter()
        .map(|&own| {
            let ahead = |&&other: &&f64| better(other, own) || (own.is_nan() && !other.is_nan());
            1 + values.iter().filter(ahead).count()
        })
        .collect()
}

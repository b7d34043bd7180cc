//! Warnings about data and models that are valid but probably not what was meant.
//!
//! ```
//! use ndarray::array;
//! use ordercal::diagnose::{Warning, check_data};
//! use ordercal::{Dataset, ScoreKind, Scores};
//!
//! // Probabilities that were passed as logits.
//! let scores = Scores::new(ScoreKind::Logits, array![[0.9_f32, 0.1], [0.3, 0.7]])?;
//! let warnings = check_data(&Dataset::new(scores, &[0, 1])?);
//! assert_eq!(warnings[0], Warning::LookLikeProbabilities);
//! assert!(warnings[0].to_string().contains("look like probabilities"));
//! # Ok::<(), ordercal::Error>(())
//! ```

use std::fmt;

use crate::data::{Dataset, ScoreKind, Scores};
use crate::methods::FitReport;
use crate::models::Model;

/// How many rows per class a fit should have.
const ROWS_PER_CLASS: usize = 10;
/// How far the sum of a row may be from 1 for the row to look like probabilities.
const SUM_TOLERANCE: f64 = 1e-2;

/// Something that deserves a second look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Every row of the logits is a probability distribution.
    LookLikeProbabilities,
    /// Some classes are never the label.
    ClassesWithoutRows {
        /// How many.
        missing: usize,
        /// K.
        classes: usize,
    },
    /// Fewer than 10 rows per class.
    FewRows {
        /// N.
        rows: usize,
        /// K.
        classes: usize,
    },
    /// A model that does not promise to keep the ranking of every row.
    MayChangePredictions,
    /// A model whose NLL on its own calibration rows is above the uncalibrated one.
    WorseThanUncalibrated,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LookLikeProbabilities => f.write_str(
                "the logits look like probabilities; if they are, give the kind `probs`",
            ),
            Self::ClassesWithoutRows { missing, classes } => {
                write!(f, "{missing} of {classes} classes are never the label")
            }
            Self::FewRows { rows, classes } => write!(
                f,
                "only {rows} rows for {classes} classes: prefer a method with few parameters, such as ts"
            ),
            Self::MayChangePredictions => {
                f.write_str("it may change predictions; use KEY+order for a method that cannot")
            }
            Self::WorseThanUncalibrated => {
                f.write_str("its NLL on the calibration rows is higher than before the fit")
            }
        }
    }
}

/// Warnings about scores.
pub fn check_scores(scores: &Scores<'_>) -> Vec<Warning> {
    let is_distribution = |row: usize| {
        let row = scores.row(row);
        let sum: f64 = row.iter().map(|&s| f64::from(s)).sum();
        row.iter().all(|s| (0.0..=1.0).contains(s)) && (sum - 1.0).abs() < SUM_TOLERANCE
    };
    if scores.kind() == ScoreKind::Logits && (0..scores.rows()).all(is_distribution) {
        vec![Warning::LookLikeProbabilities]
    } else {
        Vec::new()
    }
}

/// Warnings about scores with labels.
pub fn check_data(data: &Dataset<'_>) -> Vec<Warning> {
    let mut warnings = check_scores(data.scores());
    let (rows, classes) = (data.rows(), data.classes());
    let mut seen = vec![false; classes];
    for &label in data.labels() {
        seen[label as usize] = true;
    }
    let missing = seen.iter().filter(|&&seen| !seen).count();
    if missing > 0 {
        warnings.push(Warning::ClassesWithoutRows { missing, classes });
    }
    if rows < ROWS_PER_CLASS * classes {
        warnings.push(Warning::FewRows { rows, classes });
    }
    warnings
}

/// Warnings about a fitted model.
pub fn check_model(model: &Model, report: &FitReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !model.order_preserving() {
        warnings.push(Warning::MayChangePredictions);
    }
    if report.nll_after > report.nll_before {
        warnings.push(Warning::WorseThanUncalibrated);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Method;
    use ndarray::Array2;

    fn data(kind: ScoreKind, rows: usize, labels: &[u32]) -> Dataset<'static> {
        let scores = Array2::from_shape_fn((rows, 2), |(_, class)| [0.75_f32, 0.25][class]);
        Dataset::new(Scores::new(kind, scores).unwrap(), labels).unwrap()
    }

    #[test]
    fn each_warning_has_its_cause() {
        let few = Warning::FewRows {
            rows: 3,
            classes: 2,
        };
        let missing = Warning::ClassesWithoutRows {
            missing: 1,
            classes: 2,
        };
        assert_eq!(
            check_data(&data(ScoreKind::Logits, 3, &[0, 0, 0])),
            [Warning::LookLikeProbabilities, missing, few]
        );
        let labels: Vec<u32> = (0..20).map(|row| row % 2).collect();
        let fine = data(ScoreKind::Probs, 20, &labels);
        assert_eq!(check_data(&fine), []);
        for (key, expected) in [("ts", &[][..]), ("vs", &[Warning::MayChangePredictions])] {
            let fitted = Method::from_key(key).unwrap().fit(&fine).unwrap();
            assert_eq!(check_model(&fitted.model, &fitted.report), expected);
            let mut worse = fitted.report;
            worse.nll_after = worse.nll_before + 1.0;
            let warnings = check_model(&fitted.model, &worse);
            assert_eq!(warnings.last(), Some(&Warning::WorseThanUncalibrated));
        }
    }
}

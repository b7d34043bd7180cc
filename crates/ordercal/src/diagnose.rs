//! Warnings about data, fits and evaluations that are valid but probably not what was meant.
//!
//! The tool prints them as `warning: …`, and Python issues them as `UserWarning`.
//!
//! ```
//! use ndarray::array;
//! use ordercal::diagnose::{RowChecks, Warning};
//! use ordercal::{Dataset, ScoreKind, Scores};
//!
//! // Probabilities that were passed as logits.
//! let scores = Scores::new(ScoreKind::Logits, array![[0.9_f32, 0.1], [0.3, 0.7]])?;
//! let warnings = RowChecks::of(&Dataset::new(scores, &[0, 1])?).before_fit();
//! assert_eq!(warnings[0], Warning::LookLikeProbabilities);
//! assert!(warnings[0].to_string().contains("look like probabilities"));
//! # Ok::<(), ordercal::Error>(())
//! ```

mod warning;

use rayon::prelude::*;

use crate::data::{Dataset, Fingerprint, NORMALISATION_TOLERANCE, ScoreKind, Scores};
use crate::methods::FitReport;
use crate::metrics::Predictions;
use crate::models::Model;
pub use warning::Warning;

/// How many rows per class a fit should have.
const ROWS_PER_CLASS: usize = 10;
/// How many rows a fit or an evaluation should have at least.
const LEAST_ROWS: usize = 50;
/// Classes that a warning names; of more it gives the number only.
const NAMED: usize = 5;

/// What was seen in rows, which may come in chunks; the warnings follow from it.
#[derive(Debug, Clone)]
pub struct RowChecks {
    rows: usize,
    /// Whether scores are logits, all of them within [0, 1].
    unit: bool,
    /// Whether also every row sums to 1.
    distributions: bool,
    /// Rows whose prediction is the label minus 1, the label, the label plus 1.
    hits: [usize; 3],
    seen: Vec<bool>,
    class_names: Option<Vec<String>>,
    /// What models were fitted on.
    fitted_on: Vec<Fingerprint>,
    /// Of these rows; only if there is something to compare it with, because a hash takes longer than many a metric.
    fingerprint: Fingerprint,
}

impl RowChecks {
    /// No rows yet.
    pub fn new(classes: usize) -> Self {
        Self {
            rows: 0,
            unit: true,
            distributions: true,
            hits: [0; 3],
            seen: vec![false; classes],
            class_names: None,
            fitted_on: Vec::new(),
            fingerprint: Fingerprint::default(),
        }
    }

    /// The same, of rows that models are evaluated on which were fitted on other rows, it is hoped.
    #[must_use]
    pub fn of_models_fitted_on(mut self, fitted_on: Vec<Fingerprint>) -> Self {
        self.fitted_on = fitted_on;
        self
    }

    /// The same, of classes with these names, in the order of the columns.
    #[must_use]
    pub fn of_classes(mut self, names: Option<&[String]>) -> Self {
        self.class_names = names.map(<[String]>::to_vec);
        self
    }

    /// The checks of a whole dataset.
    pub fn of(data: &Dataset<'_>) -> Self {
        let mut checks = Self::new(data.classes());
        checks.add(data);
        checks
    }

    /// Adds rows.
    ///
    /// # Panics
    /// If they have more classes than there are.
    pub fn add(&mut self, data: &Dataset<'_>) {
        self.add_predictions(data, &Predictions::from(data));
    }

    /// The same, of rows whose predictions may have been evaluated already, which saves a pass over the scores.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn add_predictions(&mut self, data: &Dataset<'_>, predictions: &Predictions<'_>) {
        self.rows += data.examples();
        for &label in data.labels() {
            self.seen[label as usize] = true;
        }
        if !self.fitted_on.is_empty() {
            self.fingerprint.add(data.fingerprint());
        }
        self.unit = self.unit && within_unit_interval(data.scores());
        self.distributions = self.unit && self.distributions && sum_to_one(data.scores());
        if data.has_soft_labels() {
            // Whether a prediction is right is not a matter of yes or no.
            self.hits[1] += data.examples();
            return;
        }
        self.count_hits(predictions);
    }

    /// The checks of given probabilities.
    pub fn of_probabilities(predictions: &Predictions<'_>) -> Self {
        let mut checks = Self::new(predictions.classes());
        checks.rows = predictions.rows();
        (checks.unit, checks.distributions) = (false, false);
        for &label in predictions.labels() {
            checks.seen[label as usize] = true;
        }
        checks.count_hits(predictions);
        checks
    }

    fn count_hits(&mut self, predictions: &Predictions<'_>) {
        let add = |a: [usize; 3], b: [usize; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
        let found = predictions
            .predicted()
            .zip(predictions.labels())
            .map(|(predicted, &label)| {
                let difference = i64::from(predicted) - i64::from(label);
                [-1, 0, 1].map(|shift| usize::from(difference == shift))
            })
            .reduce(|| [0; 3], add);
        self.hits = add(self.hits, found);
    }

    /// What to say before a model is fitted to the rows.
    pub fn before_fit(&self) -> Vec<Warning> {
        let mut warnings = self.about_both();
        let missing: Vec<usize> = (0..self.seen.len()).filter(|&k| !self.seen[k]).collect();
        if !missing.is_empty() {
            warnings.push(Warning::ClassesWithoutRows {
                missing: missing.len(),
                first: (missing.into_iter().take(NAMED))
                    .map(|class| self.name_of(class))
                    .collect(),
                classes: self.seen.len(),
            });
        }
        warnings
    }

    /// What to say about an evaluation on the rows.
    pub fn evaluation(&self) -> Vec<Warning> {
        let mut warnings = self.about_both();
        if self.fitted_on.contains(&self.fingerprint) {
            warnings.push(Warning::SameRows);
        }
        warnings
    }

    fn name_of(&self, class: usize) -> String {
        let name = self.class_names.as_ref().and_then(|names| names.get(class));
        name.map_or_else(|| class.to_string(), |name| format!("`{name}`"))
    }

    /// All that there is to say about the rows themselves.
    pub fn all(&self) -> Vec<Warning> {
        let mut warnings = self.before_fit();
        let (rows, classes) = (self.rows, self.seen.len());
        if (LEAST_ROWS..ROWS_PER_CLASS * classes).contains(&rows) {
            warnings.push(Warning::FewRows { rows, classes });
        }
        warnings
    }

    fn about_both(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.distributions {
            warnings.push(Warning::LookLikeProbabilities);
        } else if self.unit {
            warnings.push(Warning::WithinUnitInterval);
        }
        warnings.extend(self.below_chance());
        if self.rows < LEAST_ROWS {
            warnings.push(Warning::TooFewRows { rows: self.rows });
        }
        warnings
    }

    /// Fewer hits than guessing has, by more than chance explains (two standard errors) or with a shift that explains
    /// at least half of the rows.
    fn below_chance(&self) -> Option<Warning> {
        let (rows, chance) = (self.rows as f64, 1.0 / self.seen.len() as f64);
        let [down, hits, up] = self.hits.map(|count| count as f64);
        let expected = rows * chance;
        let (by, best) = if down > up { (-1, down) } else { (1, up) };
        let few = hits < expected - 2.0 * (expected * (1.0 - chance)).sqrt();
        if hits >= expected || !(few || best >= rows / 2.0) {
            return None;
        }
        // With two classes, the other class is always the neighbour.
        let explains = best > 2.0 * expected && self.seen.len() > 2;
        Some(Warning::BelowChance {
            accuracy: hits / rows,
            chance,
            shifted: explains.then_some((by, best / rows)),
        })
    }
}

fn within_unit_interval(scores: &Scores<'_>) -> bool {
    let unit = |score: &f32| (0.0..=1.0).contains(score);
    scores.kind() == ScoreKind::Logits && scores.as_slice().iter().all(unit)
}

fn sum_to_one(scores: &Scores<'_>) -> bool {
    let mut rows = scores.as_slice().chunks_exact(scores.classes());
    rows.all(|row| {
        let sum: f64 = row.iter().map(|&score| f64::from(score)).sum();
        (sum - 1.0).abs() <= NORMALISATION_TOLERANCE
    })
}

/// Warnings about scores without labels.
pub fn check_scores(scores: &Scores<'_>) -> Vec<Warning> {
    match within_unit_interval(scores) {
        true if sum_to_one(scores) => vec![Warning::LookLikeProbabilities],
        true => vec![Warning::WithinUnitInterval],
        false => Vec::new(),
    }
}

/// A warning if a model was fitted to scores of another kind. Probabilities and their logarithms are the same scores.
pub fn check_kind(fitted: Option<ScoreKind>, found: ScoreKind) -> Option<Warning> {
    let logits = |kind: ScoreKind| kind == ScoreKind::Logits;
    let fitted = fitted.filter(|fitted| logits(*fitted) != logits(found))?;
    Some(Warning::OtherKind { fitted, found })
}

/// Warnings about what a fit did.
pub fn check_report(report: &FitReport) -> Vec<Warning> {
    let (before, after) = (report.nll_before, report.nll_after);
    let mut warnings = Vec::new();
    if (before - after).abs() <= 1e-9 * before.abs() {
        warnings.push(Warning::ChangesNothing { nll: after });
    } else if after > before {
        warnings.push(Warning::WorseThanUncalibrated);
    }
    let share = report.price_of_order.unwrap_or(0.0) / report.loss;
    if share > HIGH_PRICE {
        warnings.push(Warning::HighPriceOfOrder { share });
    }
    warnings
}

/// From this share of the NLL on, the price of order is worth a warning.
const HIGH_PRICE: f64 = 0.1;

/// Warnings about a fitted model.
pub fn check_model(model: &Model, report: &FitReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !model.order_preserving() {
        warnings.push(Warning::MayChangePredictions);
    }
    warnings.extend(check_report(report));
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

    /// Rows of `classes` classes whose scores say `row % classes` and whose labels are another function of the row.
    fn labelled(rows: usize, classes: usize, label: impl Fn(usize) -> usize) -> Dataset<'static> {
        let scores = Array2::from_shape_fn((rows, classes), |(row, class)| {
            if row % classes == class {
                3.0
            } else {
                -1.0_f32
            }
        });
        let labels: Vec<u32> = (0..rows).map(|row| label(row) as u32).collect();
        Dataset::new(Scores::new(ScoreKind::Logits, scores).unwrap(), &labels).unwrap()
    }

    #[test]
    fn each_warning_has_its_cause() {
        let few = Warning::TooFewRows { rows: 3 };
        let missing = Warning::ClassesWithoutRows {
            first: vec!["1".to_owned()],
            missing: 1,
            classes: 2,
        };
        assert_eq!(missing.to_string(), "class 1 is never the label");
        let names = ["cat", "dog"].map(str::to_owned);
        let named = RowChecks::of(&data(ScoreKind::Logits, 60, &[0; 60])).of_classes(Some(&names));
        let text = named.before_fit().last().unwrap().to_string();
        assert_eq!(text, "class `dog` is never the label");
        let checks = RowChecks::of(&data(ScoreKind::Logits, 3, &[0, 0, 0]));
        let probabilities = Warning::LookLikeProbabilities;
        assert_eq!(
            checks.before_fit(),
            [probabilities.clone(), few.clone(), missing]
        );
        assert_eq!(checks.evaluation(), [probabilities, few]);
        let labels: Vec<u32> = (0..60).map(|row| row % 2).collect();
        let fine = data(ScoreKind::Probs, 60, &labels);
        assert_eq!(RowChecks::of(&fine).all(), []);
        for (key, expected) in [("ts", &[][..]), ("vs", &[Warning::MayChangePredictions])] {
            let fitted = Method::from_key(key).unwrap().fit(&fine).unwrap();
            assert_eq!(check_model(&fitted.model, &fitted.report), expected);
            let mut report = fitted.report;
            report.nll_after = report.nll_before + 1.0;
            let warnings = check_model(&fitted.model, &report);
            assert_eq!(warnings.last(), Some(&Warning::WorseThanUncalibrated));
            report.nll_after = report.nll_before;
            let warnings = check_model(&fitted.model, &report);
            assert!(matches!(
                warnings.last(),
                Some(Warning::ChangesNothing { .. })
            ));
        }
        let mut report = Method::from_key("ts").unwrap().fit(&fine).unwrap().report;
        report.price_of_order = Some(0.05 * report.loss);
        assert_eq!(check_report(&report), []);
        report.price_of_order = Some(0.2 * report.loss);
        let [Warning::HighPriceOfOrder { share }] = check_report(&report)[..] else {
            panic!("{:?}", check_report(&report));
        };
        assert!((share - 0.2).abs() < 1e-12);
        let many = labelled(99, 11, |row| row % 11);
        let found = RowChecks::of(&many).all();
        assert!(matches!(found[..], [Warning::FewRows { .. }]), "{found:?}");
    }

    #[test]
    fn logits_of_sigmoids_are_noticed() {
        let scores = Array2::from_elem((60, 3), 0.5_f32);
        let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
        for (kind, expected) in [
            (ScoreKind::Logits, vec![Warning::WithinUnitInterval]),
            (ScoreKind::Probs, Vec::new()),
        ] {
            let scores = match kind {
                ScoreKind::Probs => scores.mapv(|_| 1.0 / 3.0),
                _ => scores.clone(),
            };
            let scores = Scores::new(kind, scores).unwrap();
            assert_eq!(check_scores(&scores), expected);
            let data = Dataset::new(scores, &labels).unwrap();
            assert_eq!(RowChecks::of(&data).all(), expected);
        }
    }

    #[test]
    fn another_kind_than_that_of_the_fit_is_noticed() {
        use ScoreKind::{LogProbs, Logits, Probs};
        for (fitted, found, noticed) in [
            (Some(Logits), Probs, true),
            (Some(LogProbs), Logits, true),
            (Some(LogProbs), Probs, false),
            (Some(Logits), Logits, false),
            (None, Probs, false),
        ] {
            assert_eq!(check_kind(fitted, found).is_some(), noticed);
        }
    }

    #[test]
    fn shifted_labels_are_noticed() {
        let shifted = labelled(200, 5, |row| (row % 5 + 1).min(4));
        let found = RowChecks::of(&shifted).before_fit();
        // One class in five is right by chance, so this is not below chance; without it, it is.
        assert!(
            !found
                .iter()
                .any(|w| matches!(w, Warning::BelowChance { .. }))
        );
        let shifted = labelled(200, 5, |row| (row % 5 + 1) % 5);
        let found = RowChecks::of(&shifted).evaluation();
        let text = found[0].to_string();
        assert_eq!(
            text,
            "the accuracy is 0.0%, below the 20.0% of guessing, and 80.0% with -1 added to every label: are the \
             labels shifted by one?"
        );
        // Few rows of many classes, but the shift explains them.
        let shifted = labelled(60, 30, |row| (row % 30 + 29) % 30);
        let found = RowChecks::of(&shifted).evaluation();
        assert!(found[0].to_string().contains("+1 added"), "{found:?}");
        // Two classes that are swapped.
        let swapped = labelled(200, 2, |row| (row + 1) % 2);
        let text = RowChecks::of(&swapped).before_fit()[0].to_string();
        assert!(text.contains("another order"), "{text}");
        // Chance itself is no reason for a warning.
        let random = labelled(200, 5, |row| (row / 5) % 5);
        assert_eq!(RowChecks::of(&random).all(), []);
    }

    #[test]
    fn chunks_give_the_warnings_of_the_whole() {
        let whole = labelled(300, 3, |row| (row * row) % 3);
        let other = labelled(300, 3, |row| row % 3).fingerprint();
        for (fitted_on, expected) in [
            (vec![other, whole.fingerprint()], &[Warning::SameRows][..]),
            (vec![other], &[]),
            (vec![], &[]),
        ] {
            let mut checks = RowChecks::new(3).of_models_fitted_on(fitted_on);
            for start in [200, 0, 100] {
                checks.add(&whole.select(&(start..start + 100).collect::<Vec<_>>()));
            }
            assert_eq!(checks.all(), RowChecks::of(&whole).all());
            assert_eq!(checks.evaluation(), expected);
        }
    }
}

//! The results of methods on datasets.

use std::collections::BTreeMap;

use ordercal::compare::Measured;
use ordercal::metrics::Metric;
use ordercal::select::Found;
use serde::Serialize;
use serde_json::{Value, json};

/// The result of one method on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodResult {
    /// The method's key.
    pub method: String,
    /// Its metrics on the test rows.
    pub metrics: BTreeMap<Metric, f64>,
    /// The metrics on bootstrap resamples, the same resamples for every method; may be empty.
    #[serde(skip)]
    pub resampled: BTreeMap<Metric, Vec<f64>>,
    /// Whether the method guarantees to keep the ranking of every row.
    pub order_preserving: bool,
    /// The number of predictions on the test rows that differ from the uncalibrated ones.
    pub changed_predictions: u64,
    /// The seconds of the fit, if known. They are left out of JSON where equal runs must give equal bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit_seconds: Option<f64>,
    /// The hyperparameters, serialised.
    pub chosen: Value,
}

impl MethodResult {
    /// The result of a method that is not the library's, whose probabilities were measured on the test rows.
    pub fn external(
        name: &str,
        order_preserving: bool,
        measured: &Measured,
        fit_seconds: Option<f64>,
    ) -> Self {
        Self {
            method: name.to_owned(),
            metrics: measured.metrics.clone(),
            resampled: measured.resampled.clone(),
            order_preserving,
            changed_predictions: measured.changed_predictions,
            fit_seconds,
            chosen: json!({ "method": name }),
        }
    }

    /// The result of a search on the calibration rows, measured on the test rows.
    pub fn new(found: &Found, measured: &Measured, fit_seconds: Option<f64>) -> Self {
        // The promise of the method, not of its model: `auto-free` may happen to give a model that keeps the order.
        let kept = found.method.promises_order();
        Self {
            chosen: chosen(found),
            ..Self::external(found.method.key(), kept, measured, fit_seconds)
        }
    }
}

/// The hyperparameters, the next best candidates of a search, and the notes of the fit.
fn chosen(found: &Found) -> Value {
    let mut chosen = json!(found.method);
    if let [best, rest @ ..] = &found.ranking[..] {
        chosen["held_out_nll"] = json!(best.nll);
        chosen["runners_up"] = json!(rest);
    }
    if !found.fitted.report.notes.is_empty() {
        chosen["notes"] = json!(found.fitted.report.notes);
    }
    chosen
}

/// The results of all methods on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatasetResult {
    /// The name of the dataset.
    pub name: String,
    /// The number of calibration rows.
    pub n_calib: usize,
    /// The number of test rows.
    pub n_test: usize,
    /// K.
    pub classes: usize,
    /// One result for each method.
    pub methods: Vec<MethodResult>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use ordercal::compare::{Measures, measure};
    use ordercal::select::{Effort, Search, search};
    use ordercal::{Dataset, Method, ScoreKind, Scores, Unwatched};

    #[test]
    fn a_result_holds_the_chosen_settings_and_the_runners_up() {
        let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
        let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
        let data = Dataset::new(scores, &labels).unwrap();
        let of = |key: &str, effort: Effort| {
            let method = Method::from_key(key).unwrap();
            let how = Search::default().with_effort(effort).with_folds(2);
            let found = search(&method, &data, &how, &Unwatched).unwrap();
            let measures = Measures::new(&[Metric::Nll]);
            let measured = measure(&found.fitted.model, &data, &measures).unwrap();
            MethodResult::new(&found, &measured, None)
        };
        let plain = of("vs", Effort::None);
        assert_eq!(plain.method, "vs");
        assert!(!plain.order_preserving);
        assert_eq!(plain.chosen["method"], "vs");
        assert!(plain.chosen.get("runners_up").is_none());
        let searched = of("ms-odir", Effort::Quick);
        assert!(searched.chosen["held_out_nll"].is_f64());
        let rest = searched.chosen["runners_up"].as_array().unwrap();
        assert!(!rest.is_empty(), "{}", searched.chosen);
        assert!(of("ets", Effort::None).order_preserving);
    }
}

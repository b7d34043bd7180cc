//! One-versus-rest methods: smoothing, masked classes, classes without labels, and binary problems.

#![allow(clippy::float_cmp)] // Exact results are promised.

use ndarray::{Array2, arr2};
use ordercal::{Dataset, Fitted, Method, Model, ScoreKind, Scores};
use ordercal_testkit::rows::{overconfident, overconfident_data};

const KEYS: [&str; 5] = ["platt", "beta", "isotonic", "histogram", "bbq"];

fn fit(key: &str, logits: Array2<f32>, labels: &[u32]) -> Fitted {
    let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
    let data = Dataset::new(scores, labels).unwrap();
    Method::from_key(key).unwrap().fit(&data).unwrap()
}

/// The weight of the uniform distribution is 1/(n + 1), so the NLL of a row is at most ln(K(n + 1)).
#[test]
fn smoothing_bounds_every_probability_from_below() {
    let (rows, classes) = (400, 6);
    let floor = 1.0 / (f64::from(rows + 1) * classes as f64);
    let fresh = Scores::new(ScoreKind::Logits, overconfident(500, classes, 22).0).unwrap();
    for key in KEYS {
        let data = overconfident_data(rows as usize, classes, 21);
        let fitted = Method::from_key(key).unwrap().fit(&data).unwrap();
        let probs: Array2<f64> = fitted.model.apply(&fresh, ScoreKind::Probs).unwrap();
        let smallest = probs.iter().copied().fold(1.0, f64::min);
        assert!(smallest >= floor * (1.0 - 1e-9), "{key}: {smallest}");
        if key == "isotonic" {
            // Some curves have the value 0, so the bound is reached.
            assert!(smallest < floor * (1.0 + 1e-9), "{key}: {smallest}");
        }
    }
}

#[test]
fn the_smallest_probability_is_proportional_to_the_smoothing() {
    let (logits, labels) = overconfident(300, 4, 23);
    let smallest = |smoothing: f64| {
        let json = format!(r#"{{"method": "isotonic", "smoothing": {smoothing}}}"#);
        let method: Method = serde_json::from_str(&json).unwrap();
        let scores = Scores::new(ScoreKind::Logits, logits.view()).unwrap();
        let data = Dataset::new(scores.clone(), &labels).unwrap();
        let model = method.fit(&data).unwrap().model;
        let probs: Array2<f64> = model.apply(&scores, ScoreKind::Probs).unwrap();
        probs.iter().copied().fold(1.0, f64::min)
    };
    assert!((smallest(3.0) / smallest(1.0) - 3.0).abs() < 1e-6);
}

/// The probability of a class without labels is small but positive, so the NLL of such a label is finite.
#[test]
fn a_class_without_labels_keeps_a_little_probability() {
    for key in KEYS {
        let (logits, labels) = overconfident(300, 5, 24);
        let labels: Vec<u32> = labels.iter().map(|l| l % 4).collect();
        let fitted = fit(key, logits.clone(), &labels);
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
        let probs: Array2<f64> = fitted.model.apply(&scores, ScoreKind::Probs).unwrap();
        for row in probs.rows() {
            assert!(row[4] > 0.0 && row[4] < 0.1, "{key}: {row}");
        }
    }
}

/// Rows in which a class is masked, or the only unmasked one, do not affect its map.
#[test]
fn rows_with_one_unmasked_class_are_ignored() {
    for key in KEYS {
        let (logits, labels) = overconfident(300, 4, 25);
        let plain = fit(key, logits.clone(), &labels);
        let certain = arr2(&[[f32::NEG_INFINITY, 7.0, f32::NEG_INFINITY, f32::NEG_INFINITY]; 50]);
        let more = ndarray::concatenate(ndarray::Axis(0), &[logits.view(), certain.view()]);
        let more_labels = [&labels[..], &[1; 50]].concat();
        let fuller = fit(key, more.unwrap(), &more_labels);
        match (&plain.model, &fuller.model) {
            (Model::Logistic(a), Model::Logistic(b)) => {
                assert_eq!(
                    a.to_parts().coefficients,
                    b.to_parts().coefficients,
                    "{key}"
                );
            }
            (Model::Curves(a), Model::Curves(b)) => {
                assert_eq!(a.to_parts().y, b.to_parts().y, "{key}");
            }
            _ => panic!("{key}"),
        }
        let row = [f32::NEG_INFINITY, 0.5, f32::NEG_INFINITY, f32::NEG_INFINITY];
        let alone: Vec<f64> = fuller.model.apply_row(&row, ScoreKind::Probs).unwrap();
        assert_eq!(alone, [0.0, 1.0, 0.0, 0.0], "{key}");
    }
}

/// For two classes there is a single map, whose complement is the probability of the first class.
#[test]
fn binary_problems_have_one_map() {
    for key in KEYS {
        let (logits, labels) = overconfident(200, 2, 26);
        let fitted = fit(key, logits.clone(), &labels);
        match &fitted.model {
            Model::Logistic(model) => assert_eq!(model.to_parts().coefficients.len(), 3, "{key}"),
            Model::Curves(model) => {
                let parts = model.to_parts();
                assert_eq!(parts.knots.len(), 1, "{key}");
                for row in logits.rows() {
                    let p = 1.0 / (1.0 + (f64::from(row[0]) - f64::from(row[1])).exp());
                    let curve = model.curve(0, p);
                    let expected = (1.0 - parts.share) * curve + parts.share / 2.0;
                    let probs: Vec<f64> = fitted
                        .model
                        .apply_row(row.as_slice().unwrap(), ScoreKind::Probs)
                        .unwrap();
                    assert!((probs[1] - expected).abs() < 1e-9, "{key}: {probs:?}");
                }
            }
            _ => panic!("{key}"),
        }
    }
}

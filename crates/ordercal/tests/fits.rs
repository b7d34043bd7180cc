//! Comparison of fits with SciPy and scikit-learn, whose results `tests/data/methods/make.py` writes.

use ndarray::Array2;
use ordercal::methods::Targets;
use ordercal::{Dataset, DirOdir, Isotonic, Method, Model, MsOdir, Platt, ScoreKind, Scores};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Fixture {
    logits_are_divided_by: f32,
    grid: Vec<f64>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    classes: usize,
    logits: Vec<i32>,
    labels: Vec<u32>,
    weights: Vec<f64>,
    lambda: f64,
    mu: f64,
    beta: f64,
    loss: BTreeMap<String, f64>,
    maps: Vec<Map>,
}

/// The results for one class against the rest.
#[derive(Deserialize)]
struct Map {
    isotonic: Vec<f64>,
    platt: [f64; 2],
    platt_labels: [f64; 2],
    beta: BetaMap,
}

#[derive(Deserialize)]
struct BetaMap {
    coefficients: [f64; 3],
    loss: f64,
}

fn fixture() -> Fixture {
    let text = include_str!("../../../tests/data/methods/fits.json");
    serde_json::from_str(text).unwrap()
}

fn data(fixture: &Fixture, case: &Case) -> Dataset<'static> {
    let values = case.logits.iter().map(|&v| v as f32);
    let values = values.map(|v| v / fixture.logits_are_divided_by).collect();
    let shape = (case.labels.len(), case.classes);
    let logits = Array2::from_shape_vec(shape, values).unwrap();
    let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
    let data = Dataset::new(scores, &case.labels).unwrap();
    data.with_weights(case.weights.clone()).unwrap()
}

#[test]
fn objectives_are_no_worse_than_scipys() {
    let fixture = fixture();
    for case in &fixture.cases {
        let data = data(&fixture, case);
        for (key, &theirs) in &case.loss {
            let method = match key.as_str() {
                "ms-odir" => MsOdir::default()
                    .with_lambda(case.lambda)
                    .with_mu(case.mu)
                    .into(),
                "dir-odir" => DirOdir::default()
                    .with_lambda(case.lambda)
                    .with_mu(case.mu)
                    .into(),
                key => Method::from_key(key).unwrap(),
            };
            let ours = method.fit(&data).unwrap().report.loss;
            assert!(
                ours <= theirs + 5e-6,
                "{key}, {} classes: {ours} against {theirs}",
                case.classes
            );
            // The problems are convex, so a smaller value would mean a different objective. The reference for ets is the
            // published two-step fit, which does not adapt the temperature.
            assert!(key == "ets" || ours >= theirs - 5e-6, "{key}: {ours}");
        }
        let Model::Ts(ts) = Method::from_key("ts").unwrap().fit(&data).unwrap().model else {
            panic!()
        };
        assert!((ts.inverse_temperature() / case.beta - 1.0).abs() < 1e-5);
    }
}

#[test]
fn isotonic_curves_are_scikit_learns() {
    let fixture = fixture();
    for case in &fixture.cases {
        let fitted = Method::from(Isotonic::default()).fit(&data(&fixture, case));
        let Model::Curves(model) = fitted.unwrap().model else {
            panic!()
        };
        for (map, expected) in case.maps.iter().enumerate() {
            for (&at, &theirs) in fixture.grid.iter().zip(&expected.isotonic) {
                let ours = model.curve(map, at);
                assert!(
                    (ours - theirs).abs() < 1e-9,
                    "map {map} at {at}: {ours} against {theirs}"
                );
            }
        }
    }
}

/// a, b and c of every map.
fn coefficients(method: Method, data: &Dataset<'_>) -> Vec<f64> {
    let Model::Logistic(model) = method.fit(data).unwrap().model else {
        panic!()
    };
    model.to_parts().coefficients
}

#[test]
fn platt_is_a_logistic_regression_to_convergence() {
    let fixture = fixture();
    for case in &fixture.cases {
        let data = data(&fixture, case);
        for targets in [Targets::Platt, Targets::Labels] {
            let ours = coefficients(Platt::default().with_targets(targets).into(), &data);
            for (map, (ours, expected)) in ours.chunks(3).zip(&case.maps).enumerate() {
                let theirs = match targets {
                    Targets::Platt => expected.platt,
                    Targets::Labels => expected.platt_labels,
                };
                assert_eq!(ours[0].to_bits(), ours[1].to_bits());
                assert!(
                    (ours[0] - theirs[0]).abs() < 1e-7 && (ours[2] - theirs[1]).abs() < 1e-7,
                    "map {map}, {targets:?}: {ours:?} against {theirs:?}"
                );
            }
        }
    }
}

#[test]
fn beta_is_the_constrained_regression() {
    let fixture = fixture();
    for case in &fixture.cases {
        let data = data(&fixture, case);
        let ours = coefficients(Method::from_key("beta").unwrap(), &data);
        for (map, (ours, expected)) in ours.chunks(3).zip(&case.maps).enumerate() {
            let theirs = &expected.beta;
            assert!(theirs.loss.is_finite());
            for (a, b) in ours.iter().zip(theirs.coefficients) {
                assert!(
                    (a - b).abs() < 1e-4,
                    "map {map}: {ours:?} against {:?}",
                    theirs.coefficients
                );
            }
        }
    }
}

//! Labels that are distributions over the classes, and groups of rows that belong together.

// One-hot labels give the very same models.
#![allow(clippy::float_cmp)]

use std::collections::BTreeMap;

use ndarray::{Array2, array};
use ordercal::compare::{Measures, measure};
use ordercal::metrics::{BootstrapOptions, Metric};
use ordercal::models::{TsModel, UncalibratedModel};
use ordercal::select::{Search, search};
use ordercal::{Dataset, Error, Method, Model, Rng, ScoreKind, Scores, Unwatched};

const ROWS: usize = 60;
const CLASSES: usize = 3;

fn logits() -> Array2<f32> {
    let mut rng = Rng::new(5);
    Array2::from_shape_fn((ROWS, CLASSES), |_| (3.0 * rng.normal()) as f32)
}

/// Distributions in which no class, some or most of the rest has a share.
fn targets() -> Array2<f64> {
    let mut rng = Rng::new(6);
    let mut targets = Array2::zeros((ROWS, CLASSES));
    for (row, scores) in logits().outer_iter().enumerate() {
        let share = [0.0, 0.25, 0.5, 0.75][row % 4];
        let best = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        targets[(row, best.unwrap())] += 1.0 - share;
        targets[(row, rng.below(CLASSES))] += share;
    }
    targets
}

fn scores() -> Scores<'static> {
    Scores::new(ScoreKind::Logits, logits()).unwrap()
}

fn probabilities(beta: f64) -> Array2<f64> {
    let mut probs = logits().mapv(|x| (beta * f64::from(x)).exp());
    for mut row in probs.outer_iter_mut() {
        let sum = row.sum();
        row /= sum;
    }
    probs
}

/// These metrics and no others.
fn measures(metrics: &[Metric]) -> Measures {
    Measures {
        metrics: metrics.to_vec(),
        ..Measures::new(metrics)
    }
}

fn expected_nll(beta: f64) -> f64 {
    let terms = &targets() * &probabilities(beta).mapv(f64::ln);
    -terms.sum() / ROWS as f64
}

#[test]
fn one_hot_labels_are_classes() {
    let labels: Vec<usize> = (0..ROWS).map(|row| row * row % CLASSES).collect();
    let one_hot = Array2::from_shape_fn((ROWS, CLASSES), |(row, class)| {
        f64::from(u8::from(labels[row] == class))
    });
    let hard = Dataset::new(scores(), &labels).unwrap();
    let soft = Dataset::soft(scores(), one_hot.view()).unwrap();
    assert!(!soft.has_soft_labels() && soft.weights().is_none());
    for method in Method::all() {
        let [hard, soft] = [&hard, &soft].map(|data| method.fit(data).unwrap().model);
        assert_eq!(hard, soft, "{}", method.key());
    }
}

#[test]
fn proper_scores_are_expectations_over_the_labels() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    assert_eq!(data.examples(), ROWS);
    let metrics = [Metric::Nll, Metric::Brier, Metric::BrierSum];
    let model = Model::from(UncalibratedModel::new(CLASSES).unwrap());
    let found = measure(&model, &data, &measures(&metrics)).unwrap();
    let (probs, targets) = (probabilities(1.0), targets());
    let mut brier = 0.0;
    for (p, q) in probs.outer_iter().zip(targets.outer_iter()) {
        for (label, share) in q.iter().enumerate() {
            let squares = p.iter().enumerate().map(|(class, p)| {
                let hit = f64::from(u8::from(class == label));
                (p - hit).powi(2)
            });
            brier += share * squares.sum::<f64>() / ROWS as f64;
        }
    }
    let expected = BTreeMap::from([
        (Metric::Nll, expected_nll(1.0)),
        (Metric::Brier, brier / CLASSES as f64),
        (Metric::BrierSum, brier),
    ]);
    for (metric, expected) in expected {
        let value = found.metrics[&metric];
        assert!(
            (value - expected).abs() < 1e-6,
            "{metric}: {value}, {expected}"
        );
    }
    assert_eq!(found.changed_predictions, 0);
}

#[test]
fn other_metrics_and_resamples_are_refused() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    let model = Model::from(TsModel::new(CLASSES, 0.5).unwrap());
    let error = measure(&model, &data, &measures(&[Metric::Ece])).unwrap_err();
    assert!(matches!(
        error,
        Error::MetricNotSupported { metric: "ece", .. }
    ));
    let resampled = Measures {
        bootstrap: Some(BootstrapOptions::default()),
        ..measures(&[Metric::Nll])
    };
    let error = measure(&model, &data, &resampled).unwrap_err();
    assert!(matches!(error, Error::SoftLabels { .. }), "{error}");
}

#[test]
fn a_temperature_minimises_the_expected_loss() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    let report = Method::from_key("ts").unwrap().fit(&data).unwrap().report;
    let grid = (1..4000).map(|step| expected_nll(f64::from(step) / 1000.0));
    let best = grid.fold(f64::INFINITY, f64::min);
    assert!(
        (report.nll_after - best).abs() < 1e-6,
        "{} {best}",
        report.nll_after
    );
    assert!((report.nll_before - expected_nll(1.0)).abs() < 1e-6);
}

#[test]
fn every_method_takes_soft_labels() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    for method in Method::all() {
        let report = method.fit(&data).unwrap().report;
        assert!(report.nll_after.is_finite(), "{}", method.key());
    }
    let folded = Search::default().with_folds(3);
    search(&Method::from_key("vs").unwrap(), &data, &folded, &Unwatched).unwrap();
}

#[test]
fn the_copies_of_a_row_and_the_rows_of_a_group_share_a_fold() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    let folds = data.folds(4, 1).unwrap();
    for fold in 0..4 {
        let rows = folds.held_out(fold);
        for row in (1..data.rows()).filter(|&row| data.repeats(row)) {
            assert_eq!(rows.contains(&row), rows.contains(&(row - 1)), "row {row}");
        }
    }
    let labels: Vec<usize> = (0..ROWS).map(|row| row % CLASSES).collect();
    let groups: Vec<u32> = (0..ROWS as u32).map(|row| row / 5).collect();
    let data = Dataset::new(scores(), &labels).unwrap();
    let data = data.with_groups(groups.clone()).unwrap();
    let folds = Search::default().with_folds(3).deal(&data).unwrap();
    for fold in 0..3 {
        let rows = folds.held_out(fold);
        assert!(rows.iter().all(|row| {
            let group = groups[*row];
            (0..ROWS).all(|other| groups[other] != group || rows.contains(&other))
        }));
    }
    let stratified = Search::default().with_stratified(true).deal(&data);
    assert!(matches!(stratified, Err(Error::InvalidParameter { .. })));
    let few = data.with_groups(vec![0; ROWS]).unwrap();
    let fitted = Method::from_key("auto").unwrap().fit(&few).unwrap();
    let note = &fitted.report.notes[0];
    assert!(note.starts_with("1 group of rows is too few"), "{note}");
}

#[test]
fn groups_change_the_folds_of_auto() {
    let mut rng = Rng::new(9);
    let labels: Vec<usize> = (0..ROWS).map(|_| rng.below(CLASSES)).collect();
    let plain = Dataset::new(scores(), &labels).unwrap();
    let groups = (0..ROWS as u32).map(|row| row / 3).collect();
    let grouped = plain.clone().with_groups(groups).unwrap();
    let auto = Method::from_key("auto").unwrap();
    let [a, b] = [&plain, &grouped].map(|data| auto.fit(data).unwrap().report.loss);
    assert_ne!(a, b);
}

#[test]
fn weights_of_rows_multiply_their_shares() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    let shares = data.weights().unwrap().to_vec();
    let weights: Vec<f64> = (0..ROWS).map(|row| 1.0 + row as f64).collect();
    let weighted = data.with_weights(weights).unwrap();
    let total: f64 = (1..=ROWS).map(|w| w as f64).sum();
    assert!((weighted.total_weight() - total).abs() < 1e-9);
    assert_eq!(weighted.weights().unwrap()[0], shares[0]);
}

#[test]
fn what_is_no_distribution_is_refused_with_its_row() {
    let scores = || {
        Scores::new(
            ScoreKind::Logits,
            array![[1.0_f32, 0.0], [0.0, f32::NEG_INFINITY]],
        )
    };
    let refuse =
        |targets: Array2<f64>| Dataset::soft(scores().unwrap(), targets.view()).unwrap_err();
    let error = refuse(array![[0.5, 0.4], [1.0, 0.0]]);
    assert!(
        matches!(error, Error::TargetNotNormalised { row: 0, .. }),
        "{error}"
    );
    let error = refuse(array![[0.5, 0.5], [-0.5, 1.5]]);
    assert!(
        matches!(
            error,
            Error::InvalidTarget {
                row: 1,
                column: 0,
                ..
            }
        ),
        "{error}"
    );
    let error = refuse(array![[0.5, 0.5], [f64::NAN, 1.0]]);
    assert!(
        matches!(error, Error::InvalidTarget { row: 1, .. }),
        "{error}"
    );
    let error = refuse(array![[0.5, 0.5], [0.5, 0.5]]);
    assert_eq!(error, Error::LabelMasked { row: 1, label: 1 });
    let error = refuse(array![[1.0, 0.0]]);
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let error = refuse(array![[1.0], [1.0]]);
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
}

#[test]
fn early_stopping_would_divide_the_copies_of_a_row() {
    let data = Dataset::soft(scores(), targets().view()).unwrap();
    let method = r#"{"method": "oi", "early_stopping": {}}"#;
    let method: Method = serde_json::from_str(method).unwrap();
    let error = method.fit(&data).unwrap_err();
    assert!(
        matches!(
            error,
            Error::InvalidParameter {
                name: "early_stopping",
                ..
            }
        ),
        "{error}"
    );
}

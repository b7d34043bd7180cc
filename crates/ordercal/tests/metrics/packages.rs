//! Every metric equals the public package it comes from, on the committed fixture.

use ndarray::Array2;
use ordercal::metrics::{
    self, Binning, Metric, MetricOptions, MetricState, Predictions, Reliability, Target,
};
use serde_json::Value;

use super::{assert_close, dataset};

/// How far a value may be from a package that computes in 64 bits, from one in 32, and from relplot.
const WIDE: f64 = 1e-9;
const NARROW: f64 = 1e-5;
const SMOOTH: f64 = 1e-6;

fn fixture() -> Value {
    let text = include_str!("../../../../tests/data/metrics/packages.json");
    serde_json::from_str(text).expect("the fixture is JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().expect("an array");
    values
        .iter()
        .map(|v| v.as_f64().expect("a number"))
        .collect()
}

fn matrix(value: &Value) -> Array2<f64> {
    let rows: Vec<Vec<f64>> = value
        .as_array()
        .expect("rows")
        .iter()
        .map(numbers)
        .collect();
    let shape = (rows.len(), rows[0].len());
    Array2::from_shape_vec(shape, rows.concat()).expect("rows of one length")
}

fn labels(set: &Value) -> Vec<u32> {
    numbers(&set["labels"])
        .iter()
        .map(|&label| label as u32)
        .collect()
}

fn value(metric: Metric, predictions: &Predictions<'_>, options: &MetricOptions) -> f64 {
    metrics::evaluate(predictions, &[metric], options).expect("options are fine")[&metric]
}

/// Our value of a figure in the fixture, and how far it may be off.
fn ours(figure: &str, predictions: &Predictions<'_>) -> (f64, f64) {
    let (name, number) = figure.rsplit_once('_').unwrap_or((figure, ""));
    let bins: usize = number.parse().unwrap_or(15);
    let options = MetricOptions::default().with_bins(bins);
    if let Some((name, power)) = name.split_once("_p").filter(|_| name.starts_with("uc_")) {
        let options = options.with_norm(power.parse().expect("a power"));
        let metric = match name {
            "uc_classwise" => Metric::ClasswiseEce,
            "uc_width" => Metric::Ece,
            "uc_mass" => Metric::AdaptiveEce,
            _ => panic!("{figure} is not known"),
        };
        return (value(metric, predictions, &options), WIDE);
    }
    let plain = |metric| value(metric, predictions, &options);
    match (figure, name) {
        ("sklearn_accuracy", _) => (plain(Metric::Accuracy), WIDE),
        ("sklearn_top2", _) => (
            value(Metric::Top5, predictions, &options.with_top_k(2)),
            WIDE,
        ),
        ("sklearn_top5", _) => (plain(Metric::Top5), WIDE),
        ("sklearn_log_loss", _) => (plain(Metric::Nll), WIDE),
        ("sklearn_brier_sum", _) => (plain(Metric::BrierSum), WIDE),
        ("relplot_smece", _) => (plain(Metric::SmEce), SMOOTH),
        ("numpy_ks", _) => (plain(Metric::Ks), WIDE),
        (_, "numpy_kull_sum") => (plain(Metric::ClasswiseEceSum), WIDE),
        (_, "netcal_ece" | "uc_ece") => (plain(Metric::Ece), WIDE),
        (_, "netcal_mce") => (plain(Metric::Mce), WIDE),
        (_, "uc_ece_em") => (plain(Metric::AdaptiveEce), WIDE),
        (_, "uc_top") => (plain(Metric::DebiasedEce), WIDE),
        (_, "uc_marginal") => (plain(Metric::MarginalCe), WIDE),
        (_, "torchmetrics_l1") => (plain(Metric::Ece), NARROW),
        (_, "torchmetrics_l2") => (
            value(Metric::Ece, predictions, &options.with_norm(2.0)),
            NARROW,
        ),
        (_, "torchmetrics_max") => (plain(Metric::Mce), NARROW),
        _ => panic!("{figure} is not known"),
    }
}

fn check(name: &str, expected: &Value, predictions: &Predictions<'_>) {
    let mut compared = 0;
    for (figure, expected) in expected.as_object().expect("figures") {
        let Some(expected) = expected.as_f64() else {
            continue;
        };
        let (ours, tolerance) = ours(figure, predictions);
        assert_close(ours, expected, tolerance, &format!("{name}: {figure}"));
        compared += 1;
    }
    assert!(compared >= 13, "only {compared} figures of {name}");
}

#[test]
fn scores_and_probabilities_equal_the_packages() {
    let fixture = fixture();
    for name in ["three", "twelve"] {
        let set = &fixture["sets"][name];
        let logits = matrix(&set["logits"]).mapv(|v| v as f32);
        let labels = labels(set);
        let data = dataset(&logits, &labels);
        check(name, &set["expected"], &Predictions::from(&data));

        let mut probs = logits.mapv(|v| f64::from(v).exp());
        for mut row in probs.rows_mut() {
            row /= row.sum();
        }
        let predictions = Predictions::from_probs(probs.view(), &labels).expect("probabilities");
        check(name, &set["expected"], &predictions);

        let weights = numbers(&set["weights"]);
        let weighted = data.clone().with_weights(weights).expect("weights");
        check(
            name,
            &set["expected_weighted"],
            &Predictions::from(&weighted),
        );
    }
}

#[test]
fn tied_confidences_and_confidences_on_edges_equal_the_packages() {
    let fixture = fixture();
    let set = &fixture["sets"]["sixteenths"];
    let probs = matrix(&set["sixteenths"]) / 16.0;
    let labels = labels(set);
    let predictions = Predictions::from_probs(probs.view(), &labels).expect("probabilities");
    check("sixteenths", &set["expected"], &predictions);
}

#[test]
fn a_state_equals_the_packages_where_it_is_exact() {
    let fixture = fixture();
    for name in ["three", "twelve"] {
        let set = &fixture["sets"][name];
        let logits = matrix(&set["logits"]).mapv(|v| v as f32);
        let data = dataset(&logits, &labels(set));
        let mut state =
            MetricState::new(data.classes(), MetricOptions::default()).expect("options");
        state
            .update(&Predictions::from(&data))
            .expect("same classes");
        let values = state.finalize().expect("rows");
        let expected = |figure: &str| set["expected"][figure].as_f64().expect("a number");
        for (metric, figure) in [
            (Metric::Accuracy, "sklearn_accuracy"),
            (Metric::Nll, "sklearn_log_loss"),
            (Metric::Ece, "netcal_ece_15"),
            (Metric::Mce, "netcal_mce_15"),
            (Metric::ClasswiseEce, "uc_classwise_p1_15"),
            (Metric::ClasswiseEceSum, "numpy_kull_sum_15"),
            (Metric::SmEce, "relplot_smece"),
        ] {
            assert_close(values[&metric].value, expected(figure), WIDE, figure);
            assert!(values[&metric].error_bound <= 0.0);
        }
    }
}

#[test]
fn reliability_bins_equal_scikit_learns_calibration_curve() {
    let fixture = fixture();
    for name in ["three", "twelve"] {
        let set = &fixture["sets"][name];
        let logits = matrix(&set["logits"]).mapv(|v| v as f32);
        let data = dataset(&logits, &labels(set));
        let predictions = Predictions::from(&data);
        let curves = set["expected"]["sklearn_calibration_curve"]
            .as_array()
            .expect("curves");
        assert_eq!(curves.len(), data.classes());
        for (class, curve) in curves.iter().enumerate() {
            let target = Target::Class(class);
            let options = MetricOptions::default();
            let diagram = Reliability::new(&predictions, target, Binning::EqualWidth, &options)
                .expect("options");
            let filled: Vec<_> = diagram.bins.iter().filter_map(|bin| bin.filled).collect();
            let (accuracy, confidence) = (numbers(&curve[0]), numbers(&curve[1]));
            assert_eq!(filled.len(), accuracy.len());
            for (bin, (accuracy, confidence)) in filled.iter().zip(accuracy.iter().zip(confidence))
            {
                assert_close(bin.accuracy, *accuracy, WIDE, name);
                assert_close(bin.confidence, confidence, WIDE, name);
            }
        }
    }
}

#[test]
fn wilson_intervals_equal_scipys() {
    let fixture = fixture();
    let cases = fixture["sets"]["three"]["expected"]["scipy_wilson"]
        .as_array()
        .expect("cases");
    assert_eq!(cases.len(), 5);
    for case in cases.iter().map(numbers) {
        let (lower, upper) = metrics::wilson_interval(case[0], case[1]);
        assert_close(lower, case[2], WIDE, "lower end");
        assert_close(upper, case[3], WIDE, "upper end");
    }
}

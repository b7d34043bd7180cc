//! The metrics that people threshold by, against their definitions written as plain loops over all rows.

use ordercal::Error;
use ordercal::metrics::{
    self, BootstrapOptions, Metric, MetricOptions, MetricState, Predictions, bootstrap,
};

use super::{SplitMix, assert_close, dataset, overconfident};

/// A row: confidence, whether it is right, weight.
type Row = (f64, bool, f64);

/// Data with many tied confidences, and weights of which some are 0.
fn tied(seed: u64, classes: usize) -> (ndarray::Array2<f32>, Vec<u32>, Vec<f64>) {
    let (logits, labels) = overconfident(seed, 300, classes, 1.5);
    let mut random = SplitMix(seed + 9);
    let weights = (0..300).map(|_| random.below(4) as f64 / 2.0).collect();
    (logits.mapv(|v| (2.0 * v).round()), labels, weights)
}

fn rows(predictions: &Predictions<'_>) -> Vec<Row> {
    let stats = predictions.row_stats();
    let weights = predictions.weights().expect("the tests set weights");
    let rows = stats.iter().zip(weights);
    rows.map(|(stat, &w)| (stat.confidence, stat.hit(), w))
        .collect()
}

fn slow_auroc(rows: &[Row]) -> f64 {
    let (mut won, mut pairs) = (0.0, 0.0);
    for &(right, _, v) in rows.iter().filter(|row| row.1) {
        for &(wrong, _, w) in rows.iter().filter(|row| !row.1) {
            pairs += v * w;
            if right > wrong {
                won += v * w;
            } else if right >= wrong {
                won += v * w / 2.0;
            }
        }
    }
    won / pairs
}

/// The weights of the right and of all rows that are at least this confident.
fn above(rows: &[Row], confidence: f64) -> (f64, f64) {
    let chosen = rows.iter().filter(|row| row.0 >= confidence);
    chosen.fold((0.0, 0.0), |(right, all), &(_, hit, w)| {
        (right + if hit { w } else { 0.0 }, all + w)
    })
}

fn slow_mean(rows: &[Row], of: impl Fn(f64, f64) -> f64, counted: impl Fn(&Row) -> bool) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    for row in rows.iter().filter(|row| counted(row) && row.2 > 0.0) {
        let (right, all) = above(rows, row.0);
        sum += row.2 * of(right, all);
        total += row.2;
    }
    sum / total
}

/// The mean of the accuracies with the tied rows at the end sorted right ones first and wrong ones first would depend on
/// their numbers; a share of each row does not.
fn slow_accuracy_of_first(rows: &[Row], coverage: f64) -> f64 {
    let (_, all) = above(rows, 0.0);
    let wanted = coverage * all;
    // The largest confidence with enough rows at or above it.
    let reaches = |c: &f64| above(rows, *c).1 >= wanted;
    let last = rows
        .iter()
        .map(|row| row.0)
        .filter(reaches)
        .fold(0.0, f64::max);
    let (right, reached) = above(rows, last);
    let (next_right, next) = above(rows, last.next_up());
    (next_right + (right - next_right) * (wanted - next) / (reached - next)) / wanted
}

#[test]
fn metrics_of_the_ranking_follow_their_definitions() {
    for (seed, classes) in [(1, 2), (2, 3), (3, 20)] {
        let (logits, labels, weights) = tied(seed, classes);
        let data = dataset(&logits, &labels)
            .with_weights(weights)
            .expect("weights");
        let predictions = Predictions::from(&data);
        let rows = rows(&predictions);
        let shown = [
            Metric::Auroc,
            Metric::Ap,
            Metric::Aurc,
            Metric::Eaurc,
            Metric::AccuracyAtCoverage,
        ];
        let options = MetricOptions::default();
        let found = metrics::evaluate(&predictions, &shown, &options).expect("options");
        let precision = slow_mean(&rows, |right, all| right / all, |row| row.1);
        let risk = slow_mean(&rows, |right, all| 1.0 - right / all, |_| true);
        let (right, all) = above(&rows, 0.0);
        let error = 1.0 - right / all;
        // ∫₀ʳ t / (1 − r + t) dt, in a hundred thousand steps.
        let steps = 100_000;
        let best: f64 = (0..steps)
            .map(|i| (f64::from(i) + 0.5) / f64::from(steps) * error)
            .map(|t| t / (1.0 - error + t) * error / f64::from(steps))
            .sum();
        assert_close(found[&Metric::Auroc], slow_auroc(&rows), 1e-12, "auroc");
        assert_close(found[&Metric::Ap], precision, 1e-12, "ap");
        assert_close(found[&Metric::Aurc], risk, 1e-12, "aurc");
        assert_close(found[&Metric::Eaurc], risk - best, 1e-9, "eaurc");
        let first = slow_accuracy_of_first(&rows, 0.8);
        assert_close(
            found[&Metric::AccuracyAtCoverage],
            first,
            1e-12,
            "accuracy_at_coverage",
        );
    }
}

#[test]
fn a_perfect_order_has_no_excess_and_a_reversed_one_has_much() {
    let rows = 1000;
    let confidence = |row: usize| 0.5 + 0.5 * row as f64 / rows as f64;
    let probs = ndarray::Array2::from_shape_fn((rows, 2), |(row, class)| {
        [confidence(row), 1.0 - confidence(row)][class]
    });
    let excess = |wrong: &dyn Fn(usize) -> bool| {
        let labels: Vec<u32> = (0..rows).map(|row| u32::from(wrong(row))).collect();
        let predictions = Predictions::from_probs(probs.view(), &labels).expect("probabilities");
        let options = MetricOptions::default();
        (
            metrics::eaurc(&predictions, &options).expect("options"),
            metrics::auroc(&predictions, &options).expect("options"),
        )
    };
    let (best, worst) = (excess(&|row| row < 200), excess(&|row| row >= 800));
    assert!(best.0 < 1e-3 && best.1 > 1.0 - 1e-12, "{best:?}");
    assert!(worst.0 > 0.3 && worst.1 < 1e-12, "{worst:?}");
}

#[test]
fn spiegelhalters_statistic_is_standard_normal_if_calibrated_and_large_if_not() {
    let (logits, labels, weights) = tied(4, 5);
    let data = dataset(&logits, &labels)
        .with_weights(weights)
        .expect("weights");
    let predictions = Predictions::from(&data);
    let (mut sum, mut variance) = (0.0, 0.0);
    for (c, hit, w) in rows(&predictions) {
        let hit = f64::from(u8::from(hit));
        // (hit − c)² minus its expectation.
        sum += w * ((hit - c) * (hit - c) - c * (1.0 - c));
        // The variance of a variable with two values, from its definition.
        let (if_hit, if_not) = ((1.0 - c) * (1.0 - c), c * c);
        let mean = c * if_hit + (1.0 - c) * if_not;
        variance += w * (c * if_hit * if_hit + (1.0 - c) * if_not * if_not - mean * mean);
    }
    let options = MetricOptions::default();
    let found = metrics::spiegelhalter_z(&predictions, &options).expect("options");
    assert_close(found, sum / variance.sqrt(), 1e-10, "the definition");
    assert!(found > 5.0, "overconfident, but Z is {found}");

    let mut random = SplitMix(5);
    let mut inside = 0;
    for _ in 0..400 {
        let p: Vec<f64> = (0..200).map(|_| 0.5 + 0.49 * random.uniform()).collect();
        let probs =
            ndarray::Array2::from_shape_fn((200, 2), |(row, class)| [p[row], 1.0 - p[row]][class]);
        let labels: Vec<u32> = p.iter().map(|p| u32::from(random.uniform() > *p)).collect();
        let predictions = Predictions::from_probs(probs.view(), &labels).expect("probabilities");
        let z = metrics::spiegelhalter_z(&predictions, &options).expect("options");
        inside += usize::from(z.abs() < 1.96);
    }
    assert!(
        (366..=393).contains(&inside),
        "{inside} of 400 within ±1.96"
    );
}

#[test]
fn coxs_regression_is_where_the_gradient_of_the_likelihood_is_0() {
    for (seed, classes) in [(6, 2), (7, 4)] {
        let (logits, labels, weights) = tied(seed, classes);
        let data = dataset(&logits, &labels)
            .with_weights(weights.clone())
            .expect("weights");
        let predictions = Predictions::from(&data);
        let options = MetricOptions::default();
        let slope = metrics::cox_slope(&predictions, &options).expect("options");
        let intercept = metrics::cox_intercept(&predictions, &options).expect("options");
        let (mut along_intercept, mut along_slope, mut size) = (0.0, 0.0, 0.0);
        let mut p = vec![0.0; classes];
        for (row, &w) in weights.iter().enumerate() {
            predictions.probabilities(row, &mut p);
            let top = (0..classes).rev().max_by(|&a, &b| p[a].total_cmp(&p[b]));
            let class = if classes == 2 {
                1
            } else {
                top.expect("classes")
            };
            let x = (p[class] / (1.0 - p[class])).ln();
            let happened = f64::from(u8::from(labels[row] as usize == class));
            let residual = happened - 1.0 / (1.0 + (-intercept - slope * x).exp());
            along_intercept += w * residual;
            along_slope += w * residual * x;
            size += w * x.abs();
        }
        assert_close(along_intercept / size, 0.0, 1e-10, "along the intercept");
        assert_close(along_slope / size, 0.0, 1e-10, "along the slope");
        assert!(slope < 0.9, "overconfident, but the slope is {slope}");
    }
}

#[test]
fn coxs_slope_undoes_a_temperature() {
    // Calibrated log-odds, doubled: the slope is a half.
    let mut random = SplitMix(8);
    let odds: Vec<f64> = (0..20_000).map(|_| random.normal() * 2.0 + 0.5).collect();
    let logits = ndarray::Array2::from_shape_fn((20_000, 2), |(row, class)| {
        [0.0, 2.0 * odds[row] as f32][class]
    });
    let happens = |x: &f64| u32::from(random.uniform() < 1.0 / (1.0 + (-x).exp()));
    let labels: Vec<u32> = odds.iter().map(happens).collect();
    let data = dataset(&logits, &labels);
    let how = BootstrapOptions::default().with_resamples(100);
    let shown = [Metric::CoxSlope, Metric::CoxIntercept];
    let predictions = Predictions::from(&data);
    let found = bootstrap(&predictions, &shown, &MetricOptions::default(), &how).expect("options");
    let (slope, intercept) = (found[&Metric::CoxSlope], found[&Metric::CoxIntercept]);
    assert!(slope.lower < 0.5 && slope.upper > 0.5, "{slope:?}");
    assert!(slope.upper - slope.lower < 0.06, "{slope:?}");
    assert!(
        intercept.lower < 0.0 && intercept.upper > 0.0,
        "{intercept:?}"
    );
}

#[test]
fn the_error_of_the_positive_class_is_for_two_classes() {
    let (logits, labels, weights) = tied(9, 2);
    let data = dataset(&logits, &labels)
        .with_weights(weights.clone())
        .expect("weights");
    let predictions = Predictions::from(&data);
    let mut bins = [(0.0, 0.0); 15];
    let mut p = [0.0; 2];
    for (row, &w) in weights.iter().enumerate() {
        predictions.probabilities(row, &mut p);
        let bin = (1..15).filter(|&i| p[1] > f64::from(i) / 15.0).count();
        bins[bin].0 += w * (p[1] - f64::from(labels[row]));
        bins[bin].1 += w;
    }
    let total: f64 = weights.iter().sum();
    let expected = bins.iter().map(|bin| bin.0.abs()).sum::<f64>() / total;
    let options = MetricOptions::default();
    let found = metrics::ece_positive(&predictions, &options).expect("two classes");
    assert_close(found, expected, 1e-12, "ece_positive");

    let how = BootstrapOptions::default().with_resamples(100);
    let interval = bootstrap(&predictions, &[Metric::EcePositive], &options, &how);
    let interval = interval.expect("two classes")[&Metric::EcePositive];
    assert!(
        interval.lower < found && found < interval.upper,
        "{interval:?}"
    );
    // Without weights: sums do not tell how the weights of rows differ.
    let data = dataset(&logits, &labels);
    let predictions = Predictions::from(&data);
    let interval = bootstrap(&predictions, &[Metric::EcePositive], &options, &how);
    let interval = interval.expect("two classes")[&Metric::EcePositive];
    let mut state = MetricState::new(2, options.clone()).expect("options");
    state.update(&predictions).expect("rows");
    let merged = state.intervals(&how).expect("rows")[&Metric::EcePositive];
    assert_close(merged.lower, interval.lower, 1e-9, "from the sums");
    assert_close(merged.upper, interval.upper, 1e-9, "from the sums");

    let (logits, labels) = overconfident(10, 40, 3, 1.0);
    let three = dataset(&logits, &labels);
    let refused = metrics::evaluate(&Predictions::from(&three), &Metric::ALL, &options);
    assert!(
        matches!(
            refused,
            Err(Error::MetricNotSupported {
                metric: "ece_positive",
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(!Metric::for_classes(3).contains(&Metric::EcePositive));
}

#[test]
fn what_all_right_predictions_leave_undefined_is_nan_and_so_are_its_intervals() {
    let probs = ndarray::array![[0.9_f64, 0.1], [0.8, 0.2], [0.7, 0.3]];
    let all_right = Predictions::from_probs(probs.view(), &[0, 0, 0]).expect("probabilities");
    let how = BootstrapOptions::default().with_resamples(20);
    let shown = Metric::for_classes(2);
    let found = bootstrap(&all_right, &shown, &MetricOptions::default(), &how).expect("options");
    for metric in [Metric::Auroc, Metric::CoxSlope, Metric::CoxIntercept] {
        let interval = found[&metric];
        assert!(
            interval.value.is_nan() && interval.lower.is_nan(),
            "{metric}"
        );
    }
    assert!(found[&Metric::Aurc].upper < 1e-12 && found[&Metric::Eaurc].upper < 1e-12);
    // One wrong row: some resamples lack it, and the others still make an interval.
    let one_wrong = Predictions::from_probs(probs.view(), &[0, 0, 1]).expect("probabilities");
    let found = bootstrap(&one_wrong, &shown, &MetricOptions::default(), &how).expect("options");
    let auroc = found[&Metric::Auroc];
    assert!(auroc.lower <= 1.0 && auroc.upper >= 1.0, "{auroc:?}");
}

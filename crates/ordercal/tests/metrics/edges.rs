//! The edge cases of the definitions, one by one.

use ndarray::{Array2, array};
use ordercal::metrics::{self, Metric, MetricOptions, MetricState, Predictions};
use ordercal::{Dataset, ScoreKind, Scores};

use super::{assert_close, dataset, overconfident};

fn values(probs: &Array2<f64>, labels: &[u32], options: &MetricOptions) -> Vec<(Metric, f64)> {
    let predictions = Predictions::from_probs(probs.view(), labels).expect("probabilities");
    let values = metrics::evaluate(
        &predictions,
        &Metric::for_classes(predictions.classes()),
        options,
    )
    .expect("options");
    // A state has the same rules.
    let mut state = MetricState::new(probs.ncols(), options.clone()).expect("options");
    state.update(&predictions).expect("rows");
    for (metric, estimate) in state.finalize().expect("rows") {
        if !values[&metric].is_infinite() {
            let bound = estimate.error_bound + 1e-12;
            assert_close(estimate.value, values[&metric], bound, metric.key());
        } else {
            assert!(estimate.value.is_infinite());
        }
    }
    values.into_iter().collect()
}

fn value(metric: Metric, probs: &Array2<f64>, labels: &[u32]) -> f64 {
    let values = values(probs, labels, &MetricOptions::default());
    values
        .into_iter()
        .find(|&(m, _)| m == metric)
        .expect("every metric")
        .1
}

/// A binary prediction for class 0.
fn sure(p: &[f64]) -> Array2<f64> {
    Array2::from_shape_fn((p.len(), 2), |(row, class)| [p[row], 1.0 - p[row]][class])
}

#[test]
fn a_confidence_on_an_edge_is_in_the_lower_bin() {
    // 12/15 is an edge. With the row just below it in one bin the gaps cancel; in another they add up.
    let edge = 12.0 / 15.0;
    let below = sure(&[edge, edge - 0.01]);
    assert_close(
        value(Metric::Ece, &below, &[0, 1]),
        (2.0 * edge - 0.01 - 1.0) / 2.0,
        1e-15,
        "below",
    );
    let above = sure(&[edge, edge + 0.01]);
    let apart = ((1.0 - edge) + (edge + 0.01)) / 2.0;
    assert_close(value(Metric::Ece, &above, &[0, 1]), apart, 1e-15, "above");
    assert_close(
        value(Metric::Mce, &above, &[0, 1]),
        edge + 0.01,
        1e-15,
        "largest gap",
    );
}

#[test]
fn a_probability_on_an_edge_is_in_the_upper_bin_of_the_left_closed_scheme() {
    // Nine edges make eight bins, and 7/8 begins the last; class 0 has one row there and one above.
    let options = MetricOptions::default().with_bins(9);
    let values = values(&sure(&[0.875, 0.9]), &[0, 1], &options);
    let last_bin = (0.875 + 0.9 - 1.0) / 2.0;
    // Class 1 has 1/8, which begins the second bin, and 0.1 in the first.
    let apart = (0.125 + 0.9) / 2.0;
    assert_eq!(values[8].0, Metric::ClasswiseEceSum);
    assert_close(values[8].1, last_bin + apart, 1e-14, "sum");
}

#[test]
fn confidences_of_0_and_1_are_in_the_first_and_the_last_bin() {
    let probs = sure(&[1.0, 1.0, 0.99]);
    assert_close(
        value(Metric::Ece, &probs, &[0, 1, 1]),
        (2.99 - 1.0) / 3.0,
        1e-15,
        "top label",
    );
    // Class 1 has probabilities 0, 0 and 0.01: all in the first bin.
    let both = (2.99 - 1.0) / 3.0;
    assert_close(
        value(Metric::ClasswiseEce, &probs, &[0, 1, 1]),
        both,
        1e-15,
        "mean of both",
    );
    // In the left-closed scheme the exact ones have a bin of their own.
    let own_bin = 2.0 / 3.0 * 0.5 + 1.0 / 3.0 * 0.99;
    let first_bin = (2.0 - 0.01) / 3.0;
    let sum = value(Metric::ClasswiseEceSum, &probs, &[0, 1, 1]);
    assert_close(sum, own_bin + first_bin, 1e-15, "sum");
}

#[test]
fn a_label_of_probability_0_makes_the_likelihood_infinite_unless_clipped() {
    let probs = sure(&[1.0, 0.5]);
    assert!(value(Metric::Nll, &probs, &[1, 0]).is_infinite());
    let clipped = values(&probs, &[1, 0], &MetricOptions::default().with_clip(1e-6));
    let expected = (-(1e-6_f64.ln()) + 2_f64.ln()) / 2.0;
    assert_close(clipped[2].1, expected, 1e-12, "clipped");
    // A row that does not count is not held against the model.
    let predictions = Predictions::from_probs(probs.view(), &[1, 0]).expect("probabilities");
    let predictions = predictions.with_weights(vec![0.0, 1.0]).expect("weights");
    let nll = metrics::nll(&predictions, &MetricOptions::default()).expect("options");
    assert_close(nll, 2_f64.ln(), 1e-15, "without the row");
}

#[test]
fn a_bin_with_one_row_has_no_variance_to_subtract() {
    // Fifteen rows, a bin each: nothing is left of the debiased errors, the adaptive one is a mean.
    let p: Vec<f64> = (0..15).map(|i| 0.6 + f64::from(i) * 0.02).collect();
    let probs = sure(&p);
    let labels = [0; 15];
    assert_close(
        value(Metric::DebiasedEce, &probs, &labels),
        0.0,
        0.0,
        "top label",
    );
    assert_close(
        value(Metric::MarginalCe, &probs, &labels),
        0.0,
        0.0,
        "classes",
    );
    let mean = p.iter().map(|p| 1.0 - p).sum::<f64>() / 15.0;
    assert_close(
        value(Metric::AdaptiveEce, &probs, &labels),
        mean,
        1e-14,
        "adaptive",
    );
    // A sixteenth row makes the first bin one of two.
    let more: Vec<f64> = [0.59].into_iter().chain(p).collect();
    let gap = 1.0 - (0.59 + 0.60) / 2.0;
    let expected = (2.0_f64 / 16.0 * gap * gap).sqrt();
    assert_close(
        value(Metric::DebiasedEce, &sure(&more), &[0; 16]),
        expected,
        1e-14,
        "two rows",
    );
}

#[test]
fn fewer_rows_than_bins_are_enough() {
    let one = sure(&[0.8]);
    for (metric, expected) in [
        (Metric::Accuracy, 1.0),
        (Metric::Top5, 1.0),
        (Metric::Nll, -(0.8_f64.ln())),
        (Metric::Brier, 0.04),
        (Metric::Ece, 0.2),
        (Metric::Mce, 0.2),
        (Metric::AdaptiveEce, 0.2),
        (Metric::ClasswiseEce, 0.2),
        (Metric::ClasswiseEceSum, 0.4),
        (Metric::DebiasedEce, 0.0),
        (Metric::MarginalCe, 0.0),
        (Metric::Ks, 0.2),
    ] {
        assert_close(value(metric, &one, &[0]), expected, 1e-14, metric.key());
    }
    let smooth = value(Metric::SmEce, &one, &[0]);
    assert!((0.15..0.25).contains(&smooth), "{smooth}");
}

#[test]
fn rows_that_are_all_tied_share_a_bin_and_enter_together() {
    let probs = sure(&[0.75; 40]);
    let mut labels = [0; 40];
    labels[..20].fill(1);
    for metric in [Metric::Ece, Metric::Mce, Metric::AdaptiveEce, Metric::Ks] {
        assert_close(value(metric, &probs, &labels), 0.25, 1e-14, metric.key());
        let mut shuffled = labels;
        shuffled.reverse();
        assert_close(value(metric, &probs, &shuffled), 0.25, 1e-14, metric.key());
    }
    let square: f64 = 0.25 * 0.25 - 0.5 * 0.5 / 39.0;
    assert_close(
        value(Metric::DebiasedEce, &probs, &labels),
        square.sqrt(),
        1e-14,
        "debiased",
    );
}

#[test]
fn a_class_that_no_row_has_counts_like_any_other() {
    let probs = array![[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]];
    let labels = [0, 1];
    // Class 2: both rows at 0.2 and never right. Classes 0 and 1: one row in each of two bins.
    let errors = [(0.5 + 0.6) / 2.0, (0.3 + 0.8) / 2.0, 0.2];
    let mean = errors.iter().sum::<f64>() / 3.0;
    assert_close(
        value(Metric::ClasswiseEce, &probs, &labels),
        mean,
        1e-15,
        "mean",
    );
    // Two rows are two bins of one row for classes 0 and 1, and one bin of two for class 2.
    let marginal = (0.2 * 0.2 / 3.0_f64).sqrt();
    assert_close(
        value(Metric::MarginalCe, &probs, &labels),
        marginal,
        1e-15,
        "marginal",
    );
}

/// Probabilities read without logarithms, against the logarithms that a model would read.
#[test]
fn probabilities_as_a_model_reads_them() {
    let (logits, labels) = overconfident(8, 500, 6, 2.0);
    let mut probs = logits.mapv(|v| f64::from(v).exp());
    for mut row in probs.rows_mut() {
        let sum = row.sum();
        // Not quite normalised.
        row.mapv_inplace(|p| p / sum * 1.0005);
    }
    probs
        .row_mut(7)
        .assign(&array![0.0, 0.25, 0.75, 0.0, 0.0, 0.0]);
    probs
        .row_mut(8)
        .assign(&array![0.0, 1.0, 0.0, 1e-200, 0.0, 0.0]);
    let scores = Scores::new(ScoreKind::Probs, probs.view()).expect("probabilities");
    let data = Dataset::new(scores, &labels).expect("labels");
    let read = Predictions::from_read_probs(probs.view(), &labels).expect("probabilities");
    let options = MetricOptions::default();
    let all = Metric::for_classes(6);
    let slow = metrics::evaluate(&Predictions::from(&data), &all, &options).expect("options");
    let fast = metrics::evaluate(&read, &all, &options).expect("options");
    for metric in all {
        assert_close(fast[&metric], slow[&metric], 2e-5, metric.key());
    }
}

#[test]
fn with_two_classes_every_metric_is_defined() {
    let (logits, labels) = overconfident(5, 400, 2, 2.0);
    let data = dataset(&logits, &labels);
    let predictions = Predictions::from(&data);
    let options = MetricOptions::default();
    let values = metrics::evaluate(
        &predictions,
        &Metric::for_classes(predictions.classes()),
        &options,
    )
    .expect("options");
    assert!(values.values().all(|value| value.is_finite()));
    assert_close(
        values[&Metric::Top5],
        1.0,
        0.0,
        "both classes are among the first five",
    );
    // The second class mirrors the first, so either alone gives the class-wise errors.
    let diagram = metrics::Reliability::new(
        &predictions,
        metrics::Target::Class(0),
        metrics::Binning::EqualWidth,
        &options,
    );
    let error = diagram.expect("options").error();
    assert_close(values[&Metric::ClasswiseEce], error, 1e-12, "class 0 alone");
}

#[test]
fn one_bin_compares_the_means() {
    let (logits, labels) = overconfident(6, 300, 4, 2.0);
    let data = dataset(&logits, &labels);
    let predictions = Predictions::from(&data);
    let options = MetricOptions::default().with_bins(1);
    let values = metrics::evaluate(
        &predictions,
        &Metric::for_classes(predictions.classes()),
        &options,
    )
    .expect("options");
    let stats = predictions.row_stats();
    let confidence = stats.iter().map(|stat| stat.confidence).sum::<f64>() / 300.0;
    let gap = (confidence - values[&Metric::Accuracy]).abs();
    for metric in [Metric::Ece, Metric::Mce, Metric::AdaptiveEce] {
        assert_close(values[&metric], gap, 1e-12, metric.key());
    }
    let sum = values[&Metric::ClasswiseEce] * 4.0;
    assert_close(
        values[&Metric::ClasswiseEceSum],
        sum,
        1e-12,
        "both have one bin",
    );
}

#[test]
fn dividing_logits_by_1000_fools_the_classwise_error_and_no_other() {
    let (mut logits, mut labels) = overconfident(7, 2000, 10, 3.0);
    // Balanced, as the trick needs.
    for (row, label) in labels.iter_mut().enumerate() {
        let target = row % 10;
        let values = (logits[[row, *label as usize]], logits[[row, target]]);
        (logits[[row, target]], logits[[row, *label as usize]]) = values;
        *label = target as u32;
    }
    let flat = logits.mapv(|v| v / 1000.0);
    let (sharp, vague) = (dataset(&logits, &labels), dataset(&flat, &labels));
    let options = MetricOptions::default();
    let all = |data| {
        let shown = Metric::for_classes(10);
        metrics::evaluate(&Predictions::from(data), &shown, &options).expect("options")
    };
    let (before, after) = (all(&sharp), all(&vague));
    for metric in [Metric::ClasswiseEce, Metric::ClasswiseEceSum] {
        let (before, after) = (before[&metric], after[&metric]);
        assert!(after < before / 50.0, "{metric}: {before} to {after}");
    }
    for metric in [
        Metric::Ece,
        Metric::Nll,
        Metric::Brier,
        Metric::MarginalCe,
        Metric::AdaptiveEce,
    ] {
        let (before, after) = (before[&metric], after[&metric]);
        assert!(after > before, "{metric}: {before} to {after}");
    }
    assert_close(
        after[&Metric::Accuracy],
        before[&Metric::Accuracy],
        0.0,
        "the accuracy is the same",
    );
}

//! Bootstrap intervals, paired comparisons and the calibration test.

use ndarray::Array2;
use ordercal::Error;
use ordercal::metrics::{
    self, Best, BootstrapOptions, Metric, MetricOptions, Predictions, bootstrap, calibration_test,
    compare, paired_difference, resampled,
};

use super::{SplitMix, assert_close, dataset, overconfident};

#[test]
fn intervals_are_those_of_metrics_on_drawn_rows() {
    // The spread of the resampled accuracy is that of a binomial share.
    let (logits, labels) = overconfident(51, 600, 7, 1.0);
    let data = dataset(&logits, &labels);
    let predictions = Predictions::from(&data);
    let how = BootstrapOptions::default().with_resamples(600);
    let options = MetricOptions::default();
    let shown = Metric::for_classes(7);
    let intervals = bootstrap(&predictions, &shown, &options, &how).expect("options");
    let values = metrics::evaluate(&predictions, &shown, &options).expect("options");
    let accuracy = intervals[&Metric::Accuracy];
    let expected = 2.0 * 1.96 * (accuracy.value * (1.0 - accuracy.value) / 600.0).sqrt();
    assert_close(
        accuracy.upper - accuracy.lower,
        expected,
        0.12 * expected,
        "width",
    );
    for metric in shown {
        let interval = intervals[&metric];
        assert_eq!(interval.value.to_bits(), values[&metric].to_bits());
        assert!(interval.lower < interval.upper, "{metric} {interval:?}");
        assert!(interval.value < interval.upper, "{metric} {interval:?}");
    }
}

#[test]
fn intervals_do_not_depend_on_threads_and_do_on_the_seed() {
    let (logits, labels) = overconfident(52, 150, 5, 2.0);
    let data = dataset(&logits, &labels);
    let run = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads");
        let how = BootstrapOptions::default()
            .with_resamples(30)
            .with_seed(seed);
        let options = MetricOptions::default();
        let shown = Metric::for_classes(5);
        pool.install(|| bootstrap(&Predictions::from(&data), &shown, &options, &how))
            .expect("options")
    };
    assert_eq!(run(1, 7), run(3, 7));
    assert_ne!(run(1, 7), run(1, 8));
}

#[test]
fn rows_of_weight_0_are_never_in_the_way() {
    let (logits, labels) = overconfident(53, 20, 3, 2.0);
    let mut weights = vec![0.0; 20];
    weights[3] = 1.0;
    let data = dataset(&logits, &labels)
        .with_weights(weights)
        .expect("weights");
    let how = BootstrapOptions::default().with_resamples(50);
    let intervals = bootstrap(
        &Predictions::from(&data),
        &[Metric::Nll],
        &MetricOptions::default(),
        &how,
    )
    .expect("options");
    let nll = intervals[&Metric::Nll];
    assert_close(nll.lower, nll.value, 1e-12, "one row is all there is");
    assert_close(nll.upper, nll.value, 1e-12, "one row is all there is");
}

#[test]
fn a_paired_comparison_sees_a_difference_that_two_intervals_hide() {
    let (logits, labels) = overconfident(54, 1000, 5, 2.0);
    let softer = logits.mapv(|v| v * 0.9);
    let (one, two) = (dataset(&logits, &labels), dataset(&softer, &labels));
    let (one, two) = (Predictions::from(&one), Predictions::from(&two));
    let options = MetricOptions::default();
    let how = BootstrapOptions::default().with_resamples(400);
    let all = [Metric::Nll, Metric::Brier, Metric::Accuracy];
    let compared = compare(&one, &two, &all, &options, &how).expect("options");
    let (first, second) = (
        bootstrap(&one, &all, &options, &how).expect("options"),
        bootstrap(&two, &all, &options, &how).expect("options"),
    );
    let nll = compared[&Metric::Nll];
    let value = first[&Metric::Nll].value - second[&Metric::Nll].value;
    assert_close(nll.difference.value, value, 1e-15, "difference");
    assert!(
        first[&Metric::Nll].lower < second[&Metric::Nll].upper,
        "the intervals overlap"
    );
    let away = nll.difference.lower > 0.0 || nll.difference.upper < 0.0;
    assert!(away, "the difference is seen: {nll:?}");
    let wins = if value < 0.0 {
        nll.first_wins
    } else {
        nll.second_wins
    };
    assert!(wins > 0.97, "{nll:?}");
    // Temperature keeps every prediction: accuracy ties in all resamples.
    let accuracy = compared[&Metric::Accuracy];
    assert_close(accuracy.first_wins + accuracy.second_wins, 0.0, 0.0, "ties");
    // The other way round, everything changes sign and sides.
    let mirrored = compare(&two, &one, &all, &options, &how).expect("options")[&Metric::Nll];
    assert_close(mirrored.first_wins, nll.second_wins, 0.0, "sides");
    assert_close(
        mirrored.difference.lower,
        -nll.difference.upper,
        1e-12,
        "ends",
    );
}

#[test]
fn resamples_that_were_kept_compare_as_those_that_were_not() {
    let options = MetricOptions::default();
    let how = BootstrapOptions::default().with_resamples(60);
    let (logits, labels) = overconfident(57, 200, 4, 2.0);
    let (softer, _) = overconfident(57, 200, 4, 1.0);
    let (one, two) = (dataset(&logits, &labels), dataset(&softer, &labels));
    let (one, two) = (Predictions::from(&one), Predictions::from(&two));
    let all = [Metric::Nll, Metric::Accuracy, Metric::ClasswiseEce];
    let direct = compare(&one, &two, &all, &options, &how).expect("options");
    let values = |p: &Predictions<'_>| metrics::evaluate(p, &all, &options).expect("options");
    let kept = |p: &Predictions<'_>| resampled(p, &all, &options, &how).expect("options");
    let (kept_one, kept_two) = (kept(&one), kept(&two));
    for metric in all {
        assert_eq!(kept_one[&metric].len(), 60);
        let later = paired_difference(
            metric,
            (values(&one)[&metric], &kept_one[&metric]),
            (values(&two)[&metric], &kept_two[&metric]),
            how.level,
        );
        assert_eq!(later, direct[&metric], "{metric}");
    }
}

#[test]
fn a_higher_accuracy_wins() {
    let labels = [0_u32; 40];
    let right = Array2::from_shape_fn((40, 2), |(_, class)| [0.6_f64, 0.4][class]);
    let wrong = Array2::from_shape_fn((40, 2), |(_, class)| [0.4_f64, 0.6][class]);
    let right = Predictions::from_probs(right.view(), &labels).expect("probabilities");
    let wrong = Predictions::from_probs(wrong.view(), &labels).expect("probabilities");
    let how = BootstrapOptions::default().with_resamples(20);
    let compared = compare(
        &right,
        &wrong,
        &[Metric::Accuracy],
        &MetricOptions::default(),
        &how,
    )
    .expect("options");
    assert_close(compared[&Metric::Accuracy].first_wins, 1.0, 0.0, "accuracy");
}

#[test]
fn rows_that_are_not_the_same_cannot_be_compared() {
    let (logits, labels) = overconfident(55, 30, 3, 2.0);
    let data = dataset(&logits, &labels);
    let one = Predictions::from(&data);
    let try_with = |other: &Predictions<'_>| {
        let how = BootstrapOptions::default().with_resamples(2);
        compare(&one, other, &[Metric::Nll], &MetricOptions::default(), &how).map(|_| ())
    };
    let mut moved = labels.clone();
    moved[4] = (moved[4] + 1) % 3;
    let relabelled = dataset(&logits, &moved);
    assert_eq!(
        try_with(&Predictions::from(&relabelled)),
        Err(Error::UnpairedPredictions {
            what: "labels",
            row: Some(4)
        })
    );
    let fewer = data.select(&[0, 1, 2]);
    assert_eq!(
        try_with(&Predictions::from(&fewer)),
        Err(Error::UnpairedPredictions {
            what: "numbers of rows",
            row: None
        })
    );
    let mut weights = vec![1.0; 30];
    weights[9] = 2.0;
    let weighted = data.clone().with_weights(weights).expect("weights");
    assert_eq!(
        try_with(&Predictions::from(&weighted)),
        Err(Error::UnpairedPredictions {
            what: "weights",
            row: Some(9)
        })
    );
    let unit = data.clone().with_weights(vec![1.0; 30]).expect("weights");
    assert_eq!(
        try_with(&Predictions::from(&unit)),
        Ok(()),
        "weights of 1 are no weights"
    );
}

/// Predictions whose labels are drawn from the predicted probabilities themselves.
fn calibrated(seed: u64, rows: usize) -> (Array2<f64>, Vec<u32>) {
    let mut random = SplitMix(seed);
    let probs = Array2::from_shape_fn((rows, 3), |_| random.uniform() + 0.01);
    let probs = &probs
        / &probs
            .sum_axis(ndarray::Axis(1))
            .insert_axis(ndarray::Axis(1));
    let labels = probs
        .rows()
        .into_iter()
        .map(|row| {
            let u = random.uniform();
            if u < row[0] {
                0
            } else {
                1 + u32::from(u >= row[0] + row[1])
            }
        })
        .collect();
    (probs, labels)
}

#[test]
fn the_calibration_test_rejects_a_calibrated_predictor_at_its_level() {
    let how = BootstrapOptions::default().with_resamples(99);
    for metric in [
        Metric::Ece,
        Metric::AdaptiveEce,
        Metric::Ks,
        Metric::DebiasedEce,
        Metric::Mce,
    ] {
        let rejected = (0..200)
            .filter(|&seed| {
                let (probs, labels) = calibrated(1000 + seed, 150);
                let predictions =
                    Predictions::from_probs(probs.view(), &labels).expect("probabilities");
                let test = calibration_test(&predictions, metric, &MetricOptions::default(), &how)
                    .expect("options");
                test.p_value <= 0.1
            })
            .count();
        // A binomial of 200 trials at 0.1 is within 20 ± 15 with probability 0.9997. The debiased error
        // is often exactly 0, where the p-value is 1, so it may reject less.
        let least = if metric == Metric::DebiasedEce { 0 } else { 5 };
        assert!(
            (least..=35).contains(&rejected),
            "{metric} rejected {rejected} of 200"
        );
    }
}

#[test]
fn the_calibration_test_sees_an_overconfident_predictor() {
    let (logits, labels) = overconfident(56, 1500, 4, 3.0);
    let data = dataset(&logits, &labels);
    let predictions = Predictions::from(&data);
    let how = BootstrapOptions::default().with_resamples(200);
    let options = MetricOptions::default();
    for metric in [Metric::Ece, Metric::Ks, Metric::SmEce] {
        let test = calibration_test(&predictions, metric, &options, &how).expect("options");
        assert_close(test.p_value, 1.0 / 201.0, 1e-15, metric.key());
        assert!(
            test.expected < test.critical && test.critical < test.observed,
            "{test:?}"
        );
    }
    assert_eq!(
        calibration_test(&predictions, Metric::Nll, &options, &how).map(|_| ()),
        Err(Error::MetricNotSupported {
            metric: "nll",
            reason: "the test is for ece, mce, adaptive_ece, debiased_ece, ks, sm_ece".to_owned(),
        })
    );
}

#[test]
fn options_out_of_range_are_named() {
    for (how, expected) in [
        (BootstrapOptions::default().with_resamples(0), "resamples"),
        (BootstrapOptions::default().with_level(1.0), "level"),
        (BootstrapOptions::default().with_level(f64::NAN), "level"),
    ] {
        match how.validate() {
            Err(Error::InvalidParameter { name, .. }) => assert_eq!(name, expected),
            other => panic!("{how:?} gave {other:?}"),
        }
    }
}

/// Logits whose softmax the labels are drawn from.
fn calibrated_logits(seed: u64, rows: usize, classes: usize) -> (Array2<f32>, Vec<u32>) {
    let mut random = SplitMix(seed);
    let logits = Array2::from_shape_fn((rows, classes), |_| (random.normal() * 2.0) as f32);
    let label = |row: ndarray::ArrayView1<'_, f32>| {
        let chances = row.mapv(|x| f64::from(x).exp());
        let mut left = random.uniform() * chances.sum();
        let found = chances.iter().position(|chance| {
            left -= chance;
            left < 0.0
        });
        found.unwrap_or(classes - 1) as u32
    };
    let labels = logits.rows().into_iter().map(label).collect();
    (logits, labels)
}

#[test]
fn intervals_contain_their_value_and_reach_0_where_calibration_is_perfect() {
    let how = BootstrapOptions::default().with_resamples(100);
    let options = MetricOptions::default();
    let errors = [
        Metric::Ece,
        Metric::Mce,
        Metric::AdaptiveEce,
        Metric::ClasswiseEce,
        Metric::ClasswiseEceSum,
        Metric::DebiasedEce,
        Metric::MarginalCe,
        Metric::Ks,
        Metric::SmEce,
    ];
    let mut at_zero = 0;
    for seed in 0..20 {
        let (logits, labels) = calibrated_logits(300 + seed, 400, 4);
        let data = dataset(&logits, &labels);
        let predictions = Predictions::from(&data);
        for metrics in [&Metric::for_classes(4)[..], &errors[..]] {
            let found = bootstrap(&predictions, metrics, &options, &how).expect("options");
            for (metric, interval) in &found {
                assert!(
                    interval.lower <= interval.value && interval.value <= interval.upper,
                    "{metric} {interval:?}"
                );
            }
            at_zero += errors.iter().filter(|m| found[m].lower <= 0.0).count();
        }
    }
    // Nominally 95.75 % of 2 · 20 · 9.
    assert!(at_zero > 320, "{at_zero} of 360 lower ends are 0");
}

#[test]
fn a_large_error_is_told_from_0() {
    let (logits, labels) = overconfident(58, 2000, 4, 3.0);
    let data = dataset(&logits, &labels);
    let how = BootstrapOptions::default().with_resamples(100);
    for norm in [1.0, 2.0] {
        let options = MetricOptions::default().with_norm(norm);
        let predictions = Predictions::from(&data);
        let shown = Metric::for_classes(4);
        let found = bootstrap(&predictions, &shown, &options, &how).expect("options");
        // Not `mce`: a bin of a few rows decides it, and those can be chance.
        let errors = shown.into_iter().filter(|m| m.best() == Best::Lowest);
        for metric in errors.filter(|m| *m != Metric::Mce) {
            let interval = found[&metric];
            assert!(interval.lower > 0.0, "{metric} {interval:?}");
            assert!(
                interval.upper < 2.5 * interval.value,
                "{metric} {interval:?}"
            );
        }
    }
}

#[test]
fn weights_are_repeated_rows_in_intervals_too() {
    let (logits, labels) = overconfident(59, 300, 4, 2.0);
    let data = dataset(&logits, &labels);
    let weighted = Predictions::from(&data)
        .with_weights(vec![1.0; 300])
        .expect("weights");
    let how = BootstrapOptions::default().with_resamples(50);
    let options = MetricOptions::default();
    let shown = Metric::for_classes(4);
    let plain = bootstrap(&Predictions::from(&data), &shown, &options, &how).expect("options");
    let found = bootstrap(&weighted, &shown, &options, &how).expect("options");
    for metric in shown {
        assert_close(found[&metric].lower, plain[&metric].lower, 1e-12, "lower");
        assert_close(found[&metric].upper, plain[&metric].upper, 1e-12, "upper");
    }
}

#[test]
fn a_bootstrap_can_be_ended() {
    use std::ops::ControlFlow;

    let (logits, labels) = overconfident(60, 100, 3, 2.0);
    let data = dataset(&logits, &labels);
    let how = BootstrapOptions::default().with_resamples(1000);
    let told = std::cell::Cell::new(0);
    let watch = |done: usize, of: usize| {
        assert_eq!(of, 1000);
        told.set(done);
        if done < 200 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let predictions = Predictions::from(&data);
    let options = MetricOptions::default();
    let ended = metrics::bootstrap_watched(&predictions, &[Metric::Ece], &options, &how, &watch);
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    assert!((200..400).contains(&told.get()), "{}", told.get());
}

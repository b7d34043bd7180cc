//! Bootstrap intervals and paired comparisons.

use ndarray::Array2;
use ordercal::Error;
use ordercal::metrics::{
    self, Best, BootstrapOptions, Interval, Metric, MetricOptions, Predictions, bootstrap,
    paired_difference, resampled,
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
    let all = [Metric::Nll, Metric::Accuracy, Metric::ClasswiseEce];
    let measure = |predictions: &Predictions<'_>| {
        let intervals = bootstrap(predictions, &all, &options, &how).expect("options");
        let drawn = resampled(predictions, &all, &options, &how).expect("options");
        all.map(|metric| (intervals[&metric], drawn[&metric].clone()))
    };
    let (first, second) = (measure(&one), measure(&two));
    let compare = |a: &(Interval, Vec<f64>), b: &(Interval, Vec<f64>)| {
        paired_difference((a.0.value, &a.1), (b.0.value, &b.1), how.level)
    };
    let nll = compare(&first[0], &second[0]);
    let value = first[0].0.value - second[0].0.value;
    assert_close(nll.value, value, 1e-15, "difference");
    assert!(
        first[0].0.lower < second[0].0.upper,
        "the intervals overlap"
    );
    assert!(nll.lower > 0.0 || nll.upper < 0.0, "it is seen: {nll:?}");
    // Temperature keeps every prediction: accuracy ties in all resamples.
    let accuracy = compare(&first[1], &second[1]);
    assert_eq!((accuracy.lower, accuracy.upper), (0.0, 0.0));
    // The other way round, everything changes sign and sides.
    let mirrored = compare(&second[0], &first[0]);
    assert_close(mirrored.lower, -nll.upper, 1e-12, "lower");
    assert_close(mirrored.upper, -nll.lower, 1e-12, "upper");
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

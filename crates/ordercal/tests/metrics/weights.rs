//! A row of weight w equals w copies of the row, and the order of the rows does not matter.

use ordercal::metrics::{self, Metric, MetricOptions, Predictions};

use super::{SplitMix, assert_close, dataset, overconfident};

#[test]
fn whole_weights_are_repeated_rows_for_every_metric() {
    for (seed, rows, classes) in [(1, 100, 2), (2, 137, 5), (3, 60, 30)] {
        let (logits, labels) = overconfident(seed, rows, classes, 2.0);
        let mut random = SplitMix(seed);
        let weights: Vec<f64> = (0..rows).map(|_| random.below(4) as f64).collect();
        let repeated: Vec<usize> = weights
            .iter()
            .enumerate()
            .flat_map(|(row, &w)| std::iter::repeat_n(row, w as usize))
            .collect();
        let data = dataset(&logits, &labels);
        let long = data.select(&repeated);
        let weighted = data.with_weights(weights).expect("weights");
        for norm in [1.0, 2.0] {
            let options = MetricOptions::default().with_norm(norm);
            let all = |p: Predictions<'_>| {
                metrics::evaluate(&p, &Metric::for_classes(p.classes()), &options).expect("options")
            };
            let expected = all(Predictions::from(&long));
            for (metric, value) in all(Predictions::from(&weighted)) {
                assert_close(value, expected[&metric], 1e-12, metric.key());
            }
        }
    }
}

#[test]
fn only_metrics_that_count_rows_depend_on_the_scale_of_the_weights() {
    let (logits, labels) = overconfident(4, 200, 6, 2.0);
    let mut random = SplitMix(4);
    let weights: Vec<f64> = (0..200).map(|_| random.uniform()).collect();
    let values = |scale: f64| {
        let weights = weights.iter().map(|w| w * scale).collect();
        let data = dataset(&logits, &labels)
            .with_weights(weights)
            .expect("weights");
        let predictions = Predictions::from(&data);
        metrics::evaluate(
            &predictions,
            &Metric::for_classes(6),
            &MetricOptions::default(),
        )
        .expect("options")
    };
    let (one, many) = (values(1.0), values(1000.3));
    for metric in Metric::for_classes(6) {
        // How sure an accuracy is depends on how many rows there are; relplot adds a constant to them.
        let counts = matches!(
            metric,
            Metric::DebiasedEce | Metric::MarginalCe | Metric::SmEce | Metric::SpiegelhalterZ
        );
        if !counts {
            assert_close(one[&metric], many[&metric], 1e-12, metric.key());
        }
    }
    assert!(one[&Metric::DebiasedEce] < many[&Metric::DebiasedEce]);
}

#[test]
fn the_order_of_the_rows_does_not_matter() {
    let (logits, labels) = overconfident(5, 500, 7, 2.0);
    // Ties, which an order-dependent rule would show.
    let logits = logits.mapv(|v| v.round());
    let data = dataset(&logits, &labels);
    let mut order: Vec<usize> = (0..500).collect();
    let mut random = SplitMix(5);
    for i in (1..500).rev() {
        order.swap(i, random.below(i + 1));
    }
    let shuffled = data.select(&order);
    let options = MetricOptions::default();
    let all = |p: Predictions<'_>| {
        metrics::evaluate(&p, &Metric::for_classes(p.classes()), &options).expect("options")
    };
    let expected = all(Predictions::from(&data));
    for (metric, value) in all(Predictions::from(&shuffled)) {
        assert_close(value, expected[&metric], 1e-12, metric.key());
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let (logits, labels) = overconfident(6, 700, 50, 3.0);
    let data = dataset(&logits, &labels);
    let values = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads");
        let options = MetricOptions::default();
        pool.install(|| {
            metrics::evaluate(
                &Predictions::from(&data),
                &Metric::for_classes(50),
                &options,
            )
        })
        .expect("options")
    };
    let bits = |threads| {
        values(threads)
            .into_values()
            .map(f64::to_bits)
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(1), bits(2));
    assert_eq!(bits(1), bits(5));
}

//! The numbers behind reliability diagrams.

use ordercal::Error;
use ordercal::metrics::{
    self, Binning, Metric, MetricOptions, Predictions, Reliability, Target, wilson_interval,
};

use super::{assert_close, dataset, overconfident};

#[test]
fn bins_hold_every_row_once_and_add_up_to_the_metrics() {
    let (logits, labels) = overconfident(41, 800, 5, 2.0);
    let weights = (0..800).map(|row| f64::from(row % 3)).collect();
    let data = dataset(&logits, &labels)
        .with_weights(weights)
        .expect("weights");
    let predictions = Predictions::from(&data);
    let options = MetricOptions::default();
    let values = metrics::evaluate(
        &predictions,
        &Metric::for_classes(predictions.classes()),
        &options,
    )
    .expect("options");
    let counted = (0..800).filter(|row| row % 3 > 0).count() as u64;
    for (binning, metric) in [
        (Binning::EqualWidth, Metric::Ece),
        (Binning::EqualMass, Metric::AdaptiveEce),
    ] {
        let diagram =
            Reliability::new(&predictions, Target::TopLabel, binning, &options).expect("options");
        assert_eq!(
            diagram.bins.iter().map(|bin| bin.count).sum::<u64>(),
            counted
        );
        let shares: f64 = diagram.bins.iter().map(|bin| bin.share).sum();
        assert_close(shares, 1.0, 1e-12, "shares");
        assert_close(diagram.error(), values[&metric], 1e-12, metric.key());
        for pair in diagram.bins.windows(2) {
            assert!(pair[0].upper <= pair[1].lower && pair[0].lower < pair[0].upper);
        }
        for bin in &diagram.bins {
            let Some(filled) = bin.filled else {
                assert!(bin.count == 0 && bin.share <= 0.0);
                continue;
            };
            assert!(bin.lower < filled.confidence && filled.confidence <= bin.upper);
            assert_close(
                filled.gap,
                filled.confidence - filled.accuracy,
                1e-12,
                "gap",
            );
            // The weights 0, 1, 2, 0, … of 800 rows.
            let weight = bin.share * 799.0;
            let interval = wilson_interval(filled.accuracy * weight, weight);
            assert!(filled.interval.0 <= filled.accuracy && filled.accuracy <= filled.interval.1);
            assert_close(filled.interval.0, interval.0, 1e-12, "lower end");
            assert_close(filled.interval.1, interval.1, 1e-12, "upper end");
        }
    }
    let by_class: f64 = (0..5)
        .map(|class| {
            let target = Target::Class(class);
            Reliability::new(&predictions, target, Binning::EqualWidth, &options)
                .expect("options")
                .error()
        })
        .sum();
    assert_close(
        by_class / 5.0,
        values[&Metric::ClasswiseEce],
        1e-12,
        "classes",
    );
    let left_closed: f64 = (0..5)
        .map(|class| {
            let target = Target::Class(class);
            Reliability::new(&predictions, target, Binning::LeftClosed, &options)
                .expect("options")
                .error()
        })
        .sum();
    assert_close(
        left_closed,
        values[&Metric::ClasswiseEceSum],
        1e-12,
        "left-closed",
    );
}

#[test]
fn tied_confidences_leave_no_empty_equal_mass_bins() {
    let (logits, labels) = overconfident(42, 300, 3, 1.0);
    let logits = logits.mapv(f32::round);
    let data = dataset(&logits, &labels);
    let predictions = Predictions::from(&data);
    let options = MetricOptions::default();
    let diagram = Reliability::new(&predictions, Target::TopLabel, Binning::EqualMass, &options)
        .expect("options");
    assert!(diagram.bins.len() < 15, "{} bins", diagram.bins.len());
    assert!(diagram.bins.iter().all(|bin| bin.filled.is_some()));
}

#[test]
fn a_class_that_is_not_there_is_refused() {
    let (logits, labels) = overconfident(43, 10, 3, 1.0);
    let data = dataset(&logits, &labels);
    let diagram = Reliability::new(
        &Predictions::from(&data),
        Target::Class(3),
        Binning::EqualWidth,
        &MetricOptions::default(),
    );
    assert!(matches!(
        diagram,
        Err(Error::InvalidParameter { name: "class", .. })
    ));
}

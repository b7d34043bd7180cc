//! States: the same bytes for any sharding, and exact values or valid error bounds.

use ordercal::metrics::{self, Metric, MetricOptions, MetricState, Predictions, Target};
use ordercal::{Dataset, Error};
use proptest::prelude::*;

use super::{SplitMix, assert_close, dataset, overconfident};

fn state_of(data: &Dataset<'_>, options: &MetricOptions) -> MetricState {
    let state = MetricState::new(data.classes(), options.clone()).expect("options");
    let mut state = state.with_marginal().expect("classes");
    state.update(&Predictions::from(data)).expect("rows");
    state
}

/// Compares a state with the rows themselves.
fn check_against_rows(data: &Dataset<'_>, options: &MetricOptions) {
    let shown = Metric::for_classes(data.classes());
    let values = metrics::evaluate(&Predictions::from(data), &shown, options).expect("options");
    let estimates = state_of(data, options).finalize().expect("rows");
    assert_eq!(estimates.len(), shown.len());
    for (metric, estimate) in estimates {
        if metric.is_exactly_mergeable() {
            assert!(estimate.error_bound <= 0.0);
        }
        let bound = estimate.error_bound + 1e-12;
        assert_close(estimate.value, values[&metric], bound, metric.key());
    }
}

#[test]
fn a_state_gives_what_the_rows_give_or_says_how_far_off_it_can_be() {
    for (seed, rows, classes, sharpness) in [
        (1, 1, 2, 1.0),
        (2, 40, 3, 1.0),
        (3, 3000, 10, 3.0),
        (4, 500, 120, 2.0),
        (5, 2000, 4, 12.0),
        (6, 2000, 5, 0.01),
    ] {
        let (logits, labels) = overconfident(seed, rows, classes, sharpness);
        let data = dataset(&logits, &labels);
        for options in [
            MetricOptions::default(),
            MetricOptions::default().with_bins(1),
            MetricOptions::default()
                .with_bins(40)
                .with_norm(2.0)
                .with_top_k(2),
        ] {
            check_against_rows(&data, &options);
            let mut random = SplitMix(seed);
            let fractions = (0..rows).map(|_| random.uniform() * 3.0 + 1e-3).collect();
            check_against_rows(
                &data.clone().with_weights(fractions).expect("weights"),
                &options,
            );
            let whole = (0..rows).map(|row| (row % 3 + 1) as f64).collect();
            check_against_rows(
                &data.clone().with_weights(whole).expect("weights"),
                &options,
            );
        }
    }
}

#[test]
fn estimates_are_close_on_ordinary_data() {
    let (logits, labels) = overconfident(11, 20_000, 10, 2.0);
    let data = dataset(&logits, &labels);
    let options = MetricOptions::default();
    let values = metrics::evaluate(
        &Predictions::from(&data),
        &Metric::for_classes(10),
        &options,
    )
    .expect("options");
    let estimates = state_of(&data, &options).finalize().expect("rows");
    for (metric, off, bound) in [
        (Metric::AdaptiveEce, 1e-3, 0.15),
        (Metric::DebiasedEce, 1e-3, 0.8),
        (Metric::Ks, 1e-4, 0.01),
        (Metric::SmEce, 1e-12, 0.0),
        (Metric::MarginalCe, 2e-3, 2.0),
        (Metric::Auroc, 1e-5, 0.005),
        (Metric::Ap, 1e-3, 0.02),
        (Metric::Aurc, 1e-3, 0.02),
        (Metric::Eaurc, 1e-3, 0.02),
        (Metric::AccuracyAtCoverage, 1e-3, 0.01),
        (Metric::CoxSlope, 1e-3, 0.2),
        (Metric::CoxIntercept, 1e-3, 0.2),
    ] {
        let estimate = estimates[&metric];
        assert_close(estimate.value, values[&metric], off, metric.key());
        assert!(estimate.error_bound <= bound, "{metric} {estimate:?}");
    }
}

#[test]
fn a_smooth_error_below_the_grids_reach_is_within_its_bound() {
    // Calibrated but for chance: the smooth error is small and its kernel narrow.
    let mut random = SplitMix(12);
    let rows = 30_000;
    let probs = ndarray::Array2::from_shape_fn((rows, 2), |_| random.uniform());
    let probs = &probs
        / &probs
            .sum_axis(ndarray::Axis(1))
            .insert_axis(ndarray::Axis(1));
    let labels: Vec<u32> = probs
        .rows()
        .into_iter()
        .map(|p| u32::from(random.uniform() > p[0]))
        .collect();
    let predictions = Predictions::from_probs(probs.view(), &labels).expect("probabilities");
    let mut state = MetricState::new(2, MetricOptions::default()).expect("options");
    state.update(&predictions).expect("rows");
    let estimate = state.finalize().expect("rows")[&Metric::SmEce];
    let exact = metrics::sm_ece(&predictions, &MetricOptions::default()).expect("options");
    assert!(
        exact < 1.0 / 64.0 && estimate.error_bound > 0.0,
        "{exact} {estimate:?}"
    );
    assert!(estimate.error_bound < 0.002);
    assert_close(estimate.value, exact, estimate.error_bound, "sm_ece");
}

#[test]
fn batches_large_and_small_with_and_without_weights_of_1_give_the_same_bytes() {
    for (rows, classes) in [(300, 3), (5000, 20), (700, 200)] {
        let (logits, labels) = overconfident(13, rows, classes, 3.0);
        let data = dataset(&logits, &labels);
        let options = MetricOptions::default();
        let bytes = state_of(&data, &options).to_bytes();
        let mut one_by_one = MetricState::new(classes, options.clone())
            .and_then(MetricState::with_marginal)
            .expect("options");
        for row in (0..rows).rev() {
            one_by_one
                .update(&Predictions::from(&data.select(&[row])))
                .expect("rows");
        }
        assert!(
            one_by_one.to_bytes() == bytes,
            "one row at a time, from the last"
        );
        let weighted = data.clone().with_weights(vec![1.0; rows]).expect("weights");
        assert!(
            state_of(&weighted, &options).to_bytes() == bytes,
            "weights of 1"
        );
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(5)
            .build()
            .expect("threads");
        let threads = pool.install(|| state_of(&data, &options));
        assert!(threads.to_bytes() == bytes, "five threads");
    }
}

#[test]
fn a_weight_of_2_is_a_repeated_row_to_the_bit() {
    let (logits, labels) = overconfident(14, 200, 6, 2.0);
    let data = dataset(&logits, &labels);
    let twice: Vec<usize> = (0..200).chain(0..200).collect();
    let options = MetricOptions::default();
    let weighted = data.clone().with_weights(vec![2.0; 200]).expect("weights");
    let (repeated, weighted) = (
        state_of(&data.select(&twice), &options)
            .finalize()
            .expect("rows"),
        state_of(&weighted, &options).finalize().expect("rows"),
    );
    assert_eq!(repeated, weighted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any split, merged in any order, has the same counts and sums: the same bytes.
    #[test]
    fn any_split_in_any_order_merges_to_the_same_bytes(
        seed in 0_u64..1000,
        rows in 1_usize..120,
        classes in 2_usize..9,
        shards in 1_usize..7,
        weighted: bool,
    ) {
        let (logits, labels) = overconfident(seed, rows, classes, 3.0);
        let mut random = SplitMix(seed + 1);
        let mut data = dataset(&logits, &labels);
        if weighted {
            let scale = 10_f64.powi(random.below(13) as i32 - 6);
            let weights = (0..rows).map(|_| (random.uniform() + 0.01) * scale).collect();
            data = data.with_weights(weights).unwrap();
        }
        let options = MetricOptions::default();
        let whole = state_of(&data, &options);

        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); shards];
        for row in 0..rows {
            parts[random.below(shards)].push(row);
        }
        let mut states: Vec<MetricState> = parts
            .into_iter()
            .map(|mut rows| {
                let mut state = MetricState::new(classes, options.clone()).unwrap().with_marginal().unwrap();
                rows.sort_by_cached_key(|_| random.bits());
                if !rows.is_empty() {
                    state.update(&Predictions::from(&data.select(&rows))).unwrap();
                }
                MetricState::from_bytes(&state.to_bytes()).unwrap()
            })
            .collect();
        // Merged as a random tree, not as a chain.
        while states.len() > 1 {
            let other = states.swap_remove(random.below(states.len()));
            let place = random.below(states.len());
            states[place].merge(&other).unwrap();
        }
        prop_assert!(states[0] == whole);
        prop_assert!(states[0].to_bytes() == whole.to_bytes());
    }
}

#[test]
fn the_size_does_not_depend_on_the_rows() {
    let options = MetricOptions::default();
    let size = |rows| {
        let (logits, labels) = overconfident(15, rows, 10, 3.0);
        let data = dataset(&logits, &labels);
        let mut state = MetricState::new(10, options.clone()).expect("options");
        state.update(&Predictions::from(&data)).expect("rows");
        state.to_bytes().len()
    };
    // Filled cells take room, empty ones do not; all cells together are the limit.
    let limit = 7682 * 57 + 8001 * 33 + 2 * 10 * 15 * 57 + 15 * 57 + 200;
    assert!(size(100) < size(30_000) && size(30_000) < limit);
}

#[test]
fn states_that_differ_are_not_merged_and_stay_as_they_were() {
    let (logits, labels) = overconfident(16, 50, 3, 2.0);
    let data = dataset(&logits, &labels);
    let options = MetricOptions::default();
    let mut state = state_of(&data, &options);
    let before = state.to_bytes();
    let new = |classes, options: &MetricOptions| {
        MetricState::new(classes, options.clone()).expect("options")
    };
    let mismatch = |result: Result<(), Error>| match result {
        Err(Error::StateMismatch { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let marginal = |state: MetricState| state.with_marginal().expect("classes");
    let other = marginal(new(4, &options));
    assert_eq!(mismatch(state.merge(&other)), "the number of classes");
    let other = marginal(new(3, &options.clone().with_bins(10)));
    assert_eq!(mismatch(state.merge(&other)), "the number of bins");
    assert_eq!(mismatch(state.merge(&new(3, &options))), "marginal_ce");
    let (wider, wider_labels) = overconfident(17, 5, 4, 2.0);
    let batch = dataset(&wider, &wider_labels);
    assert_eq!(
        state.update(&Predictions::from(&batch)),
        Err(Error::WrongClasses {
            expected: 3,
            found: 4
        })
    );
    for (weight, row) in [(2_f64.powi(41), 7), (2_f64.powi(-41), 49)] {
        let mut weights = vec![1.0; 50];
        weights[row] = weight;
        let weighted = data.clone().with_weights(weights).expect("weights");
        assert_eq!(
            state.update(&Predictions::from(&weighted)),
            Err(Error::WeightOutOfRange { row, value: weight })
        );
    }
    let heavy = data
        .clone()
        .with_weights(vec![2_f64.powi(38); 50])
        .expect("weights");
    let heavy = Predictions::from(&heavy);
    assert!(state.to_bytes() == before, "nothing changed");
    let mut full = marginal(new(3, &options));
    full.update(&heavy).expect("2^38 · 50 is below 2^44");
    assert_eq!(full.update(&heavy), Err(Error::StateFull));
    let copy = full.clone();
    assert_eq!(full.merge(&copy), Err(Error::StateFull));
    assert!(matches!(
        state.with_marginal(),
        Err(Error::InvalidParameter {
            name: "marginal",
            ..
        })
    ));
}

#[test]
fn a_state_without_rows_has_no_metrics() {
    let mut state = MetricState::new(3, MetricOptions::default()).expect("options");
    assert_eq!(state.finalize(), Err(Error::NoRows));
    assert_eq!(
        (state.rows(), state.classes(), state.has_marginal()),
        (0, 3, false)
    );
    let empty = MetricState::from_bytes(&state.to_bytes()).expect("an empty state is a state");
    state.merge(&empty).expect("the same options");
    assert_eq!(state, empty);
    assert_eq!(
        MetricState::new(1, MetricOptions::default()).map(|_| ()),
        Err(Error::TooFewClasses { classes: 1 })
    );
    let too_many = MetricState::new(1 << 20, MetricOptions::default().with_bins(100));
    assert!(matches!(
        too_many,
        Err(Error::InvalidParameter { name: "bins", .. })
    ));
}

#[test]
fn an_impossible_label_is_remembered_through_merges() {
    let probs = ndarray::array![[1.0_f64, 0.0], [0.5, 0.5]];
    let mut state = MetricState::new(2, MetricOptions::default()).expect("options");
    state
        .update(&Predictions::from_probs(probs.view(), &[1, 0]).expect("probabilities"))
        .expect("rows");
    let mut sum = MetricState::new(2, MetricOptions::default()).expect("options");
    sum.merge(&MetricState::from_bytes(&state.to_bytes()).expect("bytes"))
        .expect("options");
    assert!(
        sum.finalize().expect("rows")[&Metric::Nll]
            .value
            .is_infinite()
    );
}

#[test]
fn a_marked_shard_is_merged_once() {
    let of = |labels: [usize; 2]| {
        let probs = ndarray::array![[0.7_f64, 0.3], [0.4, 0.6]];
        let mut state = MetricState::new(2, MetricOptions::default()).unwrap();
        let rows = Predictions::from_probs(probs.view(), &labels).unwrap();
        state.update(&rows).unwrap();
        state.mark_shard();
        state
    };
    let (a, b) = (of([0, 1]), of([1, 1]));
    let mut both = a.clone();
    both.merge(&b).unwrap();
    let stored = MetricState::from_bytes(&both.to_bytes()).unwrap();
    assert_eq!(stored, both);
    for part in [&a, &b, &both] {
        assert_eq!(both.clone().merge(part), Err(Error::SameShard));
    }
    let mut other_order = b.clone();
    other_order.merge(&a).unwrap();
    assert_eq!(other_order.to_bytes(), both.to_bytes());
}

#[test]
fn without_class_bins_the_other_metrics_are_the_same() {
    let probs = ndarray::Array2::from_shape_fn((50, 4), |(row, class)| {
        [0.1, 0.2, 0.3, 0.4][(row + class) % 4]
    });
    let labels: Vec<usize> = (0..50).map(|row| row * row % 4).collect();
    let rows = Predictions::from_probs(probs.view(), &labels).unwrap();
    let mut whole = MetricState::new(4, MetricOptions::default()).unwrap();
    let mut small = MetricState::without_class_bins(4, MetricOptions::default()).unwrap();
    whole.update(&rows).unwrap();
    small.update(&rows).unwrap();
    let stored = MetricState::from_bytes(&small.to_bytes()).unwrap();
    assert_eq!(stored, small);
    let (mut expected, found) = (whole.finalize().unwrap(), stored.finalize().unwrap());
    expected.remove(&Metric::ClasswiseEce).unwrap();
    expected.remove(&Metric::ClasswiseEceSum).unwrap();
    // As text, because some are NaN.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    assert!(matches!(
        whole.merge(&small),
        Err(Error::StateMismatch { .. })
    ));
    let refused = small.reliability(Target::Class(1));
    assert!(matches!(refused, Err(Error::InvalidState { .. })));
}

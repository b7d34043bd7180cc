//! The guarantees of decisions, by simulation, and that the simulations notice a broken guarantee.

use ndarray::Array2;
use ordercal::decide::{PredictionSets, SetMethod, ThresholdOptions, threshold};
use ordercal::metrics::Predictions;
use ordercal::{Dataset, Error, Method, Rng, ScoreKind, Scores, Unwatched, decompose};

const SIMULATIONS: usize = 1000;

/// Two-class rows whose confidence c is right with probability `right(c)`.
fn rows(rng: &mut Rng, count: usize, right: impl Fn(f64) -> f64) -> (Array2<f64>, Vec<u32>) {
    let confidence: Vec<f64> = (0..count).map(|_| draw(rng)).collect();
    let labels = confidence
        .iter()
        .map(|&c| u32::from(rng.uniform() > right(c)));
    let labels = labels.collect();
    let probs = Array2::from_shape_fn((count, 2), |(row, class)| {
        [confidence[row], 1.0 - confidence[row]][class]
    });
    (probs, labels)
}

/// Half of the rows are sure, up to 0.9999; the others are uniform on ½ to 1.
fn draw(rng: &mut Rng) -> f64 {
    if rng.uniform() < 0.5 {
        1.0 - 10_f64.powf(-1.0 - 3.0 * rng.uniform())
    } else {
        0.5 + 0.5 * rng.uniform()
    }
}

/// Overconfident: twice as often wrong as the confidence says.
fn overconfident(confidence: f64) -> f64 {
    1.0 - 2.0 * (1.0 - confidence)
}

/// The error rate of all rows at or above a threshold, by integration over the distribution of [`draw`].
fn true_error(threshold: f64, right: impl Fn(f64) -> f64) -> f64 {
    let steps = 20_000;
    let (mut wrong, mut all) = (0.0, 0.0);
    for i in 0..steps {
        let u = (f64::from(i) + 0.5) / f64::from(steps);
        for c in [1.0 - 10_f64.powf(-1.0 - 3.0 * u), 0.5 + 0.5 * u] {
            if c >= threshold {
                wrong += 1.0 - right(c);
                all += 1.0;
            }
        }
    }
    wrong / all
}

/// The most exceedances that a probability of 5 % explains: mean plus 3.5 standard deviations.
fn most_exceedances() -> f64 {
    let n = SIMULATIONS as f64;
    0.05 * n + 3.5 * (n * 0.05 * 0.95).sqrt()
}

/// In how many simulated sets the error rate above the threshold is more than promised, and in how many there is one.
fn exceeded(count: usize, choose: impl Fn(&Predictions<'_>) -> f64) -> (usize, usize) {
    let mut rng = Rng::new(2024);
    let (mut broken, mut given) = (0, 0);
    for _ in 0..SIMULATIONS {
        let (probs, labels) = rows(&mut rng, count, overconfident);
        let predictions = Predictions::from_probs(probs.view(), &labels).unwrap();
        let threshold = choose(&predictions);
        if threshold.is_finite() {
            given += 1;
            broken += usize::from(true_error(threshold, overconfident) > 0.02);
        }
    }
    (broken, given)
}

#[test]
fn the_promised_error_is_exceeded_in_at_most_5_percent_of_simulated_sets() {
    for count in [500, 2000] {
        let (broken, given) = exceeded(count, |predictions| {
            threshold(predictions, &ThresholdOptions::default())
                .unwrap()
                .threshold
        });
        assert!(
            broken as f64 <= most_exceedances(),
            "{broken} of {given} at {count} rows"
        );
        assert!(
            given > SIMULATIONS / 4,
            "only {given} thresholds at {count} rows"
        );
    }
}

#[test]
fn a_threshold_by_the_observed_error_alone_breaks_the_promise_and_is_found_out() {
    // The lowest threshold above which at most 2 % of the labelled rows are wrong.
    let (broken, _) = exceeded(500, |predictions| {
        let mut rows: Vec<(f64, bool)> = predictions
            .row_stats()
            .iter()
            .map(|stat| (stat.confidence, stat.hit()))
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut wrong, mut found) = (0, f64::INFINITY);
        for (place, (confidence, hit)) in rows.iter().enumerate() {
            wrong += usize::from(!hit);
            if wrong as f64 <= 0.02 * (place + 1) as f64 {
                found = *confidence;
            }
        }
        found
    });
    assert!(
        broken as f64 > most_exceedances(),
        "only {broken} of {SIMULATIONS}"
    );
}

#[test]
fn a_threshold_says_what_it_costs_or_why_there_is_none() {
    let mut rng = Rng::new(7);
    let (probs, labels) = rows(&mut rng, 4000, |c| c);
    let predictions = Predictions::from_probs(probs.view(), &labels).unwrap();
    let options = ThresholdOptions::default();
    let found = threshold(&predictions, &options).unwrap();
    let stats = predictions.row_stats();
    let taken = stats.iter().filter(|s| s.confidence >= found.threshold);
    let wrong = taken.clone().filter(|s| !s.hit()).count() as f64;
    let taken = taken.count() as u64;
    assert_eq!((found.taken, found.rows), (taken, 4000));
    assert!((found.error - wrong / taken as f64).abs() < 1e-15);
    assert!(found.error <= found.error_bound && found.error_bound <= 0.02);
    let (low, high) = found.coverage_interval;
    assert!(low < found.coverage && found.coverage < high && high - low < 0.05);
    // A weaker promise takes more rows.
    let weaker = threshold(&predictions, &options.clone().with_max_error(0.1)).unwrap();
    assert!(weaker.threshold < found.threshold && weaker.coverage > found.coverage);

    let few: Vec<usize> = (0..100).collect();
    let few_probs = probs.select(ndarray::Axis(0), &few);
    let too_few = Predictions::from_probs(few_probs.view(), &labels[..100]).unwrap();
    let none = threshold(&too_few, &options).unwrap();
    assert!(none.threshold.is_infinite() && !none.is_promised());
    assert!(none.reason.contains("needs 149 rows"), "{}", none.reason);
    let guess: Vec<u32> = (0..4000).map(|row| row % 2).collect();
    let guessed = Predictions::from_probs(probs.view(), &guess).unwrap();
    let none = threshold(&guessed, &options).unwrap();
    assert!(
        none.reason.contains("wrong ones are too many"),
        "{}",
        none.reason
    );

    for (name, options) in [
        ("max_error", options.clone().with_max_error(0.0)),
        ("confidence", options.clone().with_confidence(1.0)),
    ] {
        let refused = threshold(&predictions, &options);
        assert!(
            matches!(refused, Err(Error::InvalidParameter { name: found, .. }) if found == name)
        );
    }
    let weighted = predictions.with_weights(vec![1.0; 4000]).unwrap();
    let refused = threshold(&weighted, &options);
    assert!(matches!(
        refused,
        Err(Error::InvalidParameter {
            name: "weights",
            ..
        })
    ));
}

/// Rows of five classes: a classifier that is right less often than 90 %.
fn five_classes(rng: &mut Rng, count: usize) -> (Array2<f64>, Vec<u32>) {
    let mut probs = Array2::from_shape_fn((count, 5), |_| (1.5 * rng.normal()).exp());
    let mut labels = Vec::with_capacity(count);
    for mut row in probs.rows_mut() {
        row /= row.sum();
        // The truth is flatter than the probabilities.
        let mut place = rng.uniform() * row.iter().map(|p| p.sqrt()).sum::<f64>();
        let label = row.iter().position(|p| {
            place -= p.sqrt();
            place < 0.0
        });
        labels.push(label.unwrap_or(4) as u32);
    }
    (probs, labels)
}

const METHODS: [SetMethod; 5] = [
    SetMethod::Lac,
    SetMethod::Aps { randomised: false },
    SetMethod::Aps { randomised: true },
    SetMethod::Raps {
        randomised: false,
        free: 2,
        penalty: 0.05,
    },
    SetMethod::Raps {
        randomised: true,
        free: 2,
        penalty: 0.05,
    },
];

/// Over simulated sets of 99 rows: how many of as many new rows have their label in the set.
fn covered(method: SetMethod) -> f64 {
    let mut rng = Rng::new(31);
    let mut covered = 0.0;
    for simulation in 0..SIMULATIONS as u64 {
        let (probs, labels) = five_classes(&mut rng, 99);
        let calib = Predictions::from_probs(probs.view(), &labels).unwrap();
        let sets = PredictionSets::learn(&calib, 0.9, method, simulation).unwrap();
        let sets = sets.with_allow_empty(true);
        let (probs, labels) = five_classes(&mut rng, 99);
        let fresh = Predictions::from_probs(probs.view(), &labels).unwrap();
        covered += sets.evaluate(&fresh, simulation).coverage;
    }
    covered / SIMULATIONS as f64
}

/// The coverage of a set varies by about √(0.9 · 0.1 / 99 · 2): rows that it is learned from, and new ones.
fn band() -> f64 {
    3.5 * (2.0 * 0.09 / 99.0 / SIMULATIONS as f64).sqrt()
}

#[test]
fn sets_cover_as_often_as_promised_and_hardly_more() {
    for method in METHODS {
        // 0.9 · 100 is an integer: without ties the coverage is 0.9 exactly.
        let found = covered(method);
        // Without random numbers, the last classes of all rows have nearly the same score.
        let slack = match method {
            SetMethod::Aps { randomised: false }
            | SetMethod::Raps {
                randomised: false, ..
            } => 0.02,
            _ => 0.0,
        };
        assert!(
            found > 0.9 - band() && found < 0.9 + band() + slack,
            "{method:?}: {found}"
        );
    }
}

#[test]
fn a_quantile_one_rank_too_low_is_found_out() {
    // Of 99 rows, the 89th score instead of the 90th costs 1 % of coverage.
    let mut rng = Rng::new(31);
    let mut total = 0.0;
    for simulation in 0..SIMULATIONS as u64 {
        let (probs, labels) = five_classes(&mut rng, 99);
        let calib = Predictions::from_probs(probs.view(), &labels).unwrap();
        let low = PredictionSets::learn(&calib, 0.89, SetMethod::Lac, simulation).unwrap();
        let (probs, labels) = five_classes(&mut rng, 99);
        let fresh = Predictions::from_probs(probs.view(), &labels).unwrap();
        total += low
            .with_allow_empty(true)
            .evaluate(&fresh, simulation)
            .coverage;
    }
    let found = total / SIMULATIONS as f64;
    assert!((found - 0.9).abs() > band(), "{found}");
}

#[test]
fn sets_are_those_of_their_report_and_never_empty_unless_allowed() {
    let mut rng = Rng::new(5);
    let (calib_probs, calib_labels) = five_classes(&mut rng, 500);
    let calib = Predictions::from_probs(calib_probs.view(), &calib_labels).unwrap();
    let (probs, labels) = five_classes(&mut rng, 400);
    let narrow = probs.mapv(|p| p as f32);
    let scores = Scores::new(ScoreKind::Probs, narrow.view()).unwrap();
    let data = Dataset::new(scores, &labels).unwrap();
    for method in METHODS {
        let learned = PredictionSets::learn(&calib, 0.4, method, 3).unwrap();
        let mut empty = 0;
        for allow_empty in [false, true] {
            let sets = learned.clone().with_allow_empty(allow_empty);
            let members = sets.sets(data.scores(), 9);
            let report = sets.evaluate(&Predictions::from(&data), 9);
            let size = members.iter().filter(|&&m| m).count() as f64 / 400.0;
            assert!((report.mean_size - size).abs() < 1e-12);
            let hits = labels.iter().enumerate();
            let hits = hits
                .filter(|&(row, &label)| members[[row, label as usize]])
                .count();
            assert!((report.coverage - hits as f64 / 400.0).abs() < 1e-12);
            assert_eq!(report.sizes.iter().sum::<u64>(), 400);
            let of_zero: Vec<usize> = (0..400).filter(|&row| labels[row] == 0).collect();
            let in_zero = of_zero.iter().filter(|&&row| members[[row, 0]]).count();
            let share = in_zero as f64 / of_zero.len() as f64;
            assert!((report.class_coverage[0].unwrap() - share).abs() < 1e-12);
            if allow_empty {
                empty += report.sizes[0];
            } else {
                assert_eq!(report.sizes[0], 0);
            }
        }
        assert!(empty > 0, "{method:?} should have left some sets empty");
    }
    // Too few rows for the rank: everything is possible.
    let five: Vec<usize> = (0..5).collect();
    let few_probs = calib_probs.select(ndarray::Axis(0), &five);
    let few = Predictions::from_probs(few_probs.view(), &calib_labels[..5]).unwrap();
    let all = PredictionSets::learn(&few, 0.9, SetMethod::Lac, 3).unwrap();
    assert!(all.quantile.is_infinite() && all.sets(data.scores(), 0).iter().all(|&m| m));
    let refused = PredictionSets::learn(&calib, 1.0, SetMethod::Lac, 3);
    assert!(matches!(
        refused,
        Err(Error::InvalidParameter {
            name: "coverage",
            ..
        })
    ));
}

/// Logits of a calibrated predictor, with labels drawn from it.
fn calibrated(seed: u64, rows: usize) -> (Array2<f32>, Vec<u32>) {
    let mut rng = Rng::new(seed);
    let logits = Array2::from_shape_fn((rows, 4), |_| (1.5 * rng.normal()) as f32);
    let labels = logits.rows().into_iter().map(|row| {
        let total: f64 = row.iter().map(|&v| f64::from(v).exp()).sum();
        let mut place = rng.uniform() * total;
        let label = row.iter().position(|&v| {
            place -= f64::from(v).exp();
            place < 0.0
        });
        label.unwrap_or(3) as u32
    });
    let labels = labels.collect();
    (logits, labels)
}

fn nll(logits: &Array2<f32>, labels: &[u32]) -> f64 {
    let data = Dataset::new(
        Scores::new(ScoreKind::Logits, logits.view()).unwrap(),
        labels,
    )
    .unwrap();
    let stats = Predictions::from(&data).row_stats();
    stats.iter().map(|stat| stat.nll).sum::<f64>() / labels.len() as f64
}

#[test]
fn the_parts_of_the_nll_are_the_known_ones() {
    // A population so large that its means are the truth.
    let (large, large_labels) = calibrated(1, 400_000);
    let distort = |logits: &Array2<f32>| logits.mapv(|v| 2.5 * v);
    let refinement = nll(&large, &large_labels);
    let calibration = nll(&distort(&large), &large_labels) - refinement;
    assert!(calibration > 0.1, "{calibration}");

    let mut inside = [0; 2];
    for seed in 0..40 {
        let (logits, labels) = calibrated(100 + seed, 1000);
        let logits = distort(&logits);
        let data = Dataset::new(
            Scores::new(ScoreKind::Logits, logits.view()).unwrap(),
            &labels,
        )
        .unwrap();
        let parts =
            decompose(&data, &Method::from_key("ts").unwrap(), 5, 1357, &Unwatched).unwrap();
        let sum = parts.nll_calibration.value + parts.nll_refinement.value;
        assert!((parts.nll.value - sum).abs() < 1e-12);
        for (place, (found, truth)) in [
            (parts.nll_calibration, calibration),
            (parts.nll_refinement, refinement),
        ]
        .into_iter()
        .enumerate()
        {
            inside[place] += usize::from(found.lower <= truth && truth <= found.upper);
        }
    }
    // 95 % of 40 is 38; 33 or fewer has a probability of 1 %.
    assert!(inside.iter().all(|&count| count > 33), "{inside:?} of 40");
}

#[test]
fn calibrated_scores_have_nothing_to_remove_and_auto_finds_what_there_is() {
    let (logits, labels) = calibrated(3, 1500);
    let auto = Method::from_key("auto").unwrap();
    let parts = |logits: &Array2<f32>| {
        let data = Dataset::new(
            Scores::new(ScoreKind::Logits, logits.view()).unwrap(),
            &labels,
        )
        .unwrap();
        decompose(&data, &auto, 3, 1357, &Unwatched).unwrap()
    };
    let before = parts(&logits);
    assert!(before.nll_calibration.lower < 0.005, "{before:?}");
    assert!(before.nll_calibration.value > -0.02, "{before:?}");
    let after = parts(&logits.mapv(|v| 3.0 * v));
    assert!(after.nll_calibration.lower > 0.05, "{after:?}");
    let same = (after.nll_refinement.value - before.nll_refinement.value).abs();
    assert!(same < 0.02, "{before:?} {after:?}");
}

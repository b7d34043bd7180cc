//! Validation of datasets, one test per rule.

#![allow(clippy::float_cmp)] // Exact results are promised.

use half::{bf16, f16};
use ndarray::{Array2, array};
use ordercal::metrics::Predictions;
use ordercal::rank::same_ranking;
use ordercal::{Dataset, Error, Method, ScoreKind, Scores};

fn logits(values: Array2<f32>) -> Result<Scores<'static>, Error> {
    Scores::new(ScoreKind::Logits, values)
}

fn probs(values: Array2<f32>) -> Result<Scores<'static>, Error> {
    Scores::new(ScoreKind::Probs, values)
}

#[test]
fn nan_and_infinity_are_reported_with_row_and_column() {
    let nan = logits(array![[1.0, 2.0], [3.0, f32::NAN]]).unwrap_err();
    assert_eq!(nan, Error::NanScore { row: 1, column: 1 });
    let value = f64::INFINITY;
    let (row, column) = (0, 1);
    let infinite = logits(array![[1.0, f32::INFINITY]]).unwrap_err();
    assert_eq!(infinite, Error::ScoreTooLarge { row, column, value });
    let wide = array![[0.0, 1e39]];
    let wide = Scores::new(ScoreKind::Logits, wide.view()).unwrap_err();
    assert_eq!(
        wide,
        Error::ScoreTooLarge {
            row,
            column,
            value: 1e39
        }
    );
    let low = array![[0.0, -1e39]];
    let low = Scores::new(ScoreKind::Logits, low.view()).unwrap_err();
    assert_eq!(
        low,
        Error::ScoreTooLarge {
            row,
            column,
            value: -1e39
        }
    );
    let hidden = array![[f64::NAN, 0.0]];
    let hidden = Scores::new(ScoreKind::Probs, hidden.view()).unwrap_err();
    assert_eq!(hidden, Error::NanScore { row: 0, column: 0 });
}

#[test]
fn the_first_of_many_bad_rows_is_reported() {
    let mut values = Array2::<f32>::zeros((5000, 3));
    for row in (1234..5000).step_by(7) {
        values[[row, 2]] = f32::NAN;
    }
    assert_eq!(
        logits(values).unwrap_err(),
        Error::NanScore {
            row: 1234,
            column: 2
        }
    );
}

#[test]
fn shapes_are_checked() {
    assert_eq!(logits(Array2::zeros((0, 3))).unwrap_err(), Error::NoRows);
    assert_eq!(
        logits(Array2::zeros((4, 1))).unwrap_err(),
        Error::TooFewClasses { classes: 1 }
    );
    assert_eq!(
        logits(Array2::zeros((4, 0))).unwrap_err(),
        Error::TooFewClasses { classes: 0 }
    );
}

#[test]
fn masked_classes_are_valid_but_not_all_may_be_masked() {
    let masked = f32::NEG_INFINITY;
    assert!(logits(array![[masked, 1.0], [0.0, masked]]).is_ok());
    let none = logits(array![[0.0, 1.0, 2.0], [masked, masked, masked]]).unwrap_err();
    assert_eq!(
        none,
        Error::AllMasked {
            row: 1,
            last_column: 2
        }
    );
    let scores = logits(array![[masked, 1.0], [0.0, masked]]).unwrap();
    assert_eq!(
        Dataset::new(scores, &[1, 1]).unwrap_err(),
        Error::LabelMasked { row: 1, label: 1 }
    );
}

/// Of each pair of neighbouring numbers, the larger keeps the larger logarithm.
#[test]
fn neighbouring_probabilities_keep_their_ranking() {
    for step in 0_u32..3000 {
        // Everywhere between 0.1 and 0.3.
        let p = 0.1 + 0.2 * (0.618_034 * f64::from(step)).fract();
        let near = |steps: u64| f64::from_bits(p.to_bits() + steps);
        let (b, c) = (near(1 + u64::from(step % 3)), near(4 + u64::from(step % 9)));
        let row = array![[p, b, c, 1.0 - p - b - c]];
        let scores = Scores::new(ScoreKind::Probs, row.view()).unwrap();
        assert!(
            same_ranking(row.as_slice().unwrap(), scores.row(0)),
            "{row}"
        );
    }
}

#[test]
fn probabilities_become_log_probabilities() {
    let scores = probs(array![[0.75, 0.25, 0.0]]).unwrap();
    let row = scores.row(0);
    assert!((row[0] - 0.75_f32.ln()).abs() < 1e-6 && (row[1] - 0.25_f32.ln()).abs() < 1e-6);
    assert!((row[2] - f32::MIN_POSITIVE.ln()).abs() < 1e-5, "{}", row[2]);
}

#[test]
fn bad_probabilities_are_refused() {
    let (row, column) = (0, 1);
    let negative = probs(array![[1.25, -0.25]]).unwrap_err();
    assert_eq!(
        negative,
        Error::NegativeProbability {
            row,
            column,
            value: -0.25
        }
    );
    let expected = |sum: f64, kind: ScoreKind| Error::NotNormalised {
        row: 1,
        column: 0,
        sum,
        kind: kind.to_string(),
    };
    let short = probs(array![[0.5, 0.5], [0.5, 0.25]]).unwrap_err();
    assert_eq!(short, expected(0.75, ScoreKind::Probs));
    assert!(probs(array![[0.5004, 0.5004]]).is_ok());
    assert!(probs(array![[0.506, 0.506]]).is_err());
    let logs = array![[0.5_f32.ln(), 0.5_f32.ln()], [0.0, 0.0]];
    let logs = Scores::new(ScoreKind::LogProbs, logs.view()).unwrap_err();
    assert_eq!(logs, expected(2.0, ScoreKind::LogProbs));
}

#[test]
fn probabilities_of_16_bits_sum_to_1_within_what_they_can_hold() {
    let mut refused = 0;
    for classes in [3, 100, 5000] {
        let exact = Array2::from_shape_fn((40, classes), |(row, class)| {
            (0.1 * row as f64 * (class as f64).sin()).exp()
        });
        let sums = exact.sum_axis(ndarray::Axis(1));
        let exact = &exact / &sums.insert_axis(ndarray::Axis(1));
        let logs = exact.mapv(f64::ln);
        for (kind, values) in [(ScoreKind::Probs, &exact), (ScoreKind::LogProbs, &logs)] {
            let half = values.mapv(f16::from_f64);
            let brain = values.mapv(bf16::from_f64);
            assert!(Scores::new(kind, half.view()).is_ok(), "{kind}, {classes}");
            assert!(Scores::new(kind, brain.view()).is_ok(), "{kind}, {classes}");
            let labels = vec![0; 40];
            if kind == ScoreKind::Probs {
                assert!(Predictions::from_probs(brain.view(), &labels).is_ok());
                // The same numbers as 32-bit floats have no such excuse.
                let wide = brain.mapv(f32::from);
                let off = wide
                    .rows()
                    .into_iter()
                    .any(|row| (row.sum() - 1.0).abs() > 1e-3);
                assert_eq!(Scores::new(kind, wide.view()).is_err(), off, "{classes}");
                refused += usize::from(off);
            }
            // What rounding cannot explain is refused.
            let add = |v: f64| {
                if kind == ScoreKind::Probs {
                    1.1 * v
                } else {
                    v + 0.1
                }
            };
            let wrong = values.mapv(add).mapv(bf16::from_f64);
            assert!(
                Scores::new(kind, wrong.view()).is_err(),
                "{kind}, {classes}"
            );
        }
    }
    assert!(refused > 0);
}

#[test]
fn every_float_type_gives_the_same_scores() {
    let values = array![[0.5_f32, -1.25, 3.0], [2.0, 0.0, -0.5]];
    let expected = logits(values.clone()).unwrap();
    let wide = values.mapv(f64::from);
    let half = values.mapv(f16::from_f32);
    let brain = values.mapv(bf16::from_f32);
    let fortran = values.t().as_standard_layout().to_owned();
    for scores in [
        Scores::new(ScoreKind::Logits, wide.view()).unwrap(),
        Scores::new(ScoreKind::Logits, half.view()).unwrap(),
        Scores::new(ScoreKind::Logits, brain.view()).unwrap(),
        Scores::new(ScoreKind::Logits, fortran.t()).unwrap(),
    ] {
        assert_eq!(scores.as_slice(), expected.as_slice());
    }
}

#[test]
fn plain_f32_logits_are_borrowed() {
    let values = array![[0.5_f32, -1.25], [2.0, 0.0]];
    let scores = Scores::new(ScoreKind::Logits, values.view()).unwrap();
    assert_eq!(scores.as_slice().as_ptr(), values.as_ptr());
}

#[test]
fn conversions_keep_the_order() {
    // Different as f64, but equal if rounded to the nearest f32.
    let near = array![[1.0, 1.0 + 1e-12, 1.0 - 1e-12, 1.0]];
    let scores = Scores::new(ScoreKind::Logits, near.view()).unwrap();
    let row = scores.row(0);
    assert!(
        row[1] > row[0] && row[0] > row[2] && row[0] == row[3],
        "{row:?}"
    );
    // Tiny probabilities whose logarithms round to the same f32.
    let tiny = 1e-20_f32;
    let small = array![[1.0, tiny, tiny.next_up(), 0.0, f32::MIN_POSITIVE / 2.0]];
    let scores = probs(small.clone()).unwrap();
    let row = scores.row(0);
    assert!(
        row[0] > row[2] && row[2] > row[1] && row[1] > row[4] && row[4] >= row[3],
        "{row:?}"
    );
}

#[test]
fn labels_are_checked() {
    let scores = || logits(array![[0.0, 1.0], [2.0, 3.0]]).unwrap();
    let out = |label| Error::LabelOutOfRange {
        row: 1,
        label,
        classes: 2,
    };
    assert_eq!(Dataset::new(scores(), &[0_i64, 2]).unwrap_err(), out(2));
    assert_eq!(Dataset::new(scores(), &[0_i8, -1]).unwrap_err(), out(-1));
    assert_eq!(
        Dataset::new(scores(), &[0, u64::MAX]).unwrap_err(),
        out(i64::MAX)
    );
    let lengths = Error::LengthMismatch {
        what: "labels",
        found: 1,
        rows: 2,
    };
    assert_eq!(Dataset::new(scores(), &[0_u8]).unwrap_err(), lengths);
    assert!(
        Dataset::new(scores(), &[0_usize, 0]).is_ok(),
        "a class without labels is valid"
    );
}

#[test]
fn weights_are_checked() {
    let data = || Dataset::new(logits(array![[0.0, 1.0], [2.0, 3.0]]).unwrap(), &[0, 1]).unwrap();
    let bad = |value| Error::InvalidWeight { row: 1, value };
    assert_eq!(data().with_weights(vec![1.0, -1.0]).unwrap_err(), bad(-1.0));
    assert_eq!(
        data().with_weights(vec![1.0, f64::INFINITY]).unwrap_err(),
        bad(f64::INFINITY)
    );
    assert!(matches!(
        data().with_weights(vec![1.0, f64::NAN]).unwrap_err(),
        Error::InvalidWeight { row: 1, value } if value.is_nan()
    ));
    assert_eq!(
        data().with_weights(vec![0.0, 0.0]).unwrap_err(),
        Error::ZeroWeights
    );
    let lengths = Error::LengthMismatch {
        what: "weights",
        found: 1,
        rows: 2,
    };
    assert_eq!(data().with_weights(vec![1.0]).unwrap_err(), lengths);
    let weighted = data().with_weights(vec![0.5, 2.0]).unwrap();
    assert!((weighted.total_weight() - 2.5).abs() < 1e-12);
    assert_eq!(weighted.select(&[1, 1]).weights(), Some(&[2.0, 2.0][..]));
}

#[test]
fn messages_are_one_line_with_row_and_column() {
    let message = logits(array![[1.0, f32::NAN]]).unwrap_err().to_string();
    assert!(
        message.contains("row 0, column 1") && !message.contains('\n'),
        "{message}"
    );
}

/// Scores in steps of 1/1024, so that a 64-bit float holds them exactly beside an offset of 1e12.
fn fine_steps(rows: usize) -> (Array2<f64>, Vec<usize>) {
    let mut rng = ordercal::Rng::new(5);
    let mut step = || (rng.uniform() * 8192.0).floor() / 1024.0;
    let scores = Array2::from_shape_fn((rows, 4), |_| step());
    let labels = (0..rows).map(|row| row % 4).collect();
    (scores, labels)
}

#[test]
fn common_offsets_do_not_cost_digits() {
    let (scores, labels) = fine_steps(500);
    let measure = |scores: &Array2<f64>| {
        let scores = Scores::new(ScoreKind::Logits, scores.view()).unwrap();
        let data = Dataset::new(scores, &labels).unwrap();
        let fitted = Method::from_key("ts").unwrap().fit(&data).unwrap();
        (fitted.report.nll_before, fitted.report.nll_after)
    };
    let (before, after) = measure(&scores);
    for power in 0..13 {
        for sign in [-1.0, 1.0] {
            let offset = sign * 10_f64.powi(power);
            let (found_before, found_after) = measure(&scores.mapv(|s| s + offset));
            assert!(
                (found_before / before - 1.0).abs() < 1e-6,
                "{offset}: {found_before} {before}"
            );
            assert!(
                (found_after / after - 1.0).abs() < 1e-6,
                "{offset}: {found_after} {after}"
            );
        }
    }
}

#[test]
fn ordinary_rows_keep_their_bytes_and_shifted_ones_their_order() {
    let row = |values: Array2<f64>| {
        let scores = Scores::new(ScoreKind::Logits, values.view()).unwrap();
        scores.row(0).to_vec()
    };
    // Within ±256, or wide: as a 32-bit file would give them.
    for values in [array![[250.1, 249.9, 240.3]], array![[300.1, -20.7, 299.3]]] {
        assert_eq!(
            row(values.clone()),
            values.mapv(|v| v as f32).into_raw_vec_and_offset().0
        );
    }
    assert_eq!(
        row(array![[-1e8, f64::NEG_INFINITY, -1e8 - 0.5]]),
        [0.0, f32::NEG_INFINITY, -0.5]
    );
    // Neighbours in 64 bits stay apart.
    let near = row(array![[
        1e12,
        1e12_f64.next_down(),
        6e11,
        6e11_f64.next_up()
    ]]);
    assert!(
        near[0] > near[1] && near[1] > near[3] && near[3] > near[2],
        "{near:?}"
    );
    // The largest scores that fit in 32 bits.
    let extreme = row(array![[3e38, -3e38]]);
    assert!(extreme.iter().all(|v| v.is_finite()), "{extreme:?}");
}

#[test]
fn zeros_are_the_same_as_probabilities_and_as_logarithms() {
    // In one of twelve rows the label has probability 0.
    let probs = Array2::from_shape_fn((120, 3), |(row, class)| match row % 4 {
        0 => [0.6_f64, 0.4, 0.0][class],
        1 => [0.0, 0.2, 0.8][class],
        2 => [1.0, 0.0, 0.0][class],
        _ => [0.25, 0.25, 0.5][class],
    });
    let label = |row: usize| match (row % 4, row % 12) {
        (2, 2) => 1,
        (0 | 2, _) => 0,
        _ => 2,
    };
    let labels: Vec<i64> = (0..120).map(label).collect();
    let of = |scores: Scores<'_>| {
        let data = Dataset::new(scores.with_zeros_as_probabilities(), &labels).unwrap();
        Method::from_key("ts").unwrap().fit(&data).unwrap().report
    };
    let logs = probs.mapv(f64::ln);
    let found = of(Scores::new(ScoreKind::LogProbs, logs.view()).unwrap());
    let expected = of(Scores::new(ScoreKind::Probs, probs.view()).unwrap());
    assert!((found.nll_after - expected.nll_after).abs() < 1e-6);
    assert!(
        found.notes.join(" ").contains("of probability 0"),
        "{found:?}"
    );
    // The last class is -inf everywhere, so it is masked; the order of the others is kept.
    let never = f32::NEG_INFINITY;
    let deep = array![
        [0.0_f32, -300.0, never, never],
        [-1.0986, -1.0986, -1.0986, never]
    ];
    let scores = Scores::new(ScoreKind::LogProbs, deep.view()).unwrap();
    let scores = scores.with_zeros_as_probabilities();
    let row = scores.row(0);
    assert!(row[2].is_finite() && row[2] < row[1], "{row:?}");
    assert_eq!(row[3], f32::NEG_INFINITY);
}

#[test]
fn rows_that_are_refused_can_be_replaced_by_equal_scores() {
    let mut logits = Array2::<f32>::from_elem((600, 3), 0.5);
    logits[[7, 1]] = f32::NAN;
    logits[[599, 0]] = f32::INFINITY;
    let (scores, refused) = Scores::without_invalid(ScoreKind::Logits, logits.view()).unwrap();
    assert_eq!((scores.rows(), refused), (600, vec![7, 599]));
    assert_eq!(scores.row(6), [0.5; 3]);
    assert_eq!(scores.row(7), [-(3.0_f32.ln()); 3]);
}

//! The conformance suite: properties that every method must have.

use ndarray::{Array2, s};
use ordercal::{Dataset, Error, Fitted, Method, Model, Progress, ScoreKind, Scores};
use rayon::ThreadPoolBuilder;
use std::ops::ControlFlow;

use crate::promise::violation;
use crate::rows::{hostile_matrix, overconfident, overconfident_data};

/// Runs the conformance suite for a method.
///
/// # Panics
/// At the first property that the method violates.
pub fn check_calibrator(method: &Method) {
    let key = method.key();
    for classes in [2, 3, 11] {
        let data = overconfident_data(400, classes, 7);
        let fitted = method.fit(&data).unwrap_or_else(|e| panic!("{key}: {e}"));
        assert_eq!(fitted.model.classes(), classes, "{key}");
        // `auto-free` may fall back to an order-preserving method.
        assert!(
            fitted.model.order_preserving() == method.promises_order() || key == "auto-free",
            "{key}"
        );
        is_not_worse(key, &fitted, 1e-6);
        is_a_distribution(key, &fitted, classes);
        rows_are_independent(key, &fitted, classes);
        parts_round_trip(key, &fitted);
        keeps_the_order(key, &fitted, classes);
        other_widths_are_rejected(key, &fitted, classes);
    }
    is_deterministic(method);
    fits_degenerate_data(method);
    can_be_cancelled(method);
    if method.full_batch() {
        weights_are_equivalent_to_repeated_rows(method);
        row_order_is_irrelevant(method);
    }
}

/// A model built from the parts of another one is equal to it, as model files require.
fn parts_round_trip(key: &str, fitted: &Fitted) {
    let parts = fitted.model.to_parts().expect("a built-in model");
    let rebuilt = Model::from_parts(parts).unwrap_or_else(|e| panic!("{key}: {e}"));
    assert!(
        rebuilt == fitted.model,
        "{key}: the model built from the parts differs"
    );
}

fn probs(fitted: &Fitted, logits: &Array2<f32>) -> Array2<f64> {
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("valid logits");
    fitted
        .model
        .apply(&scores, ScoreKind::Probs)
        .expect("the right width")
}

fn log_probs(fitted: &Fitted, logits: &Array2<f32>) -> Array2<f64> {
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("valid logits");
    let logs = fitted.model.apply(&scores, ScoreKind::LogProbs);
    logs.expect("the right width")
}

/// The NLL on the calibration rows increases by at most `slack`.
fn is_not_worse(key: &str, fitted: &Fitted, slack: f64) {
    let report = &fitted.report;
    assert!(
        report.nll_after <= report.nll_before + slack,
        "{key} increases the NLL: {report:?}"
    );
    assert!(report.loss.is_finite(), "{key}: {report:?}");
}

fn is_a_distribution(key: &str, fitted: &Fitted, classes: usize) {
    let logits = hostile_matrix(200, classes, &mut ordercal::Rng::new(3));
    let probs = probs(fitted, &logits);
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("valid logits");
    let logs: Array2<f64> = fitted
        .model
        .apply(&scores, ScoreKind::LogProbs)
        .expect("width");
    let narrow: Array2<f32> = fitted
        .model
        .apply(&scores, ScoreKind::Probs)
        .expect("width");
    for (row, values) in probs.rows().into_iter().enumerate() {
        assert!(
            (values.sum() - 1.0).abs() < 1e-9,
            "{key}: row {row} sums to {}",
            values.sum()
        );
        for (class, &p) in values.iter().enumerate() {
            assert!(
                (0.0..=1.0).contains(&p),
                "{key}: row {row}, class {class}: {p}"
            );
            let log = logs[[row, class]];
            assert!(
                (log.exp() - p).abs() < 1e-9,
                "{key}: row {row}, class {class}: {log} and {p}"
            );
            assert!(
                (f64::from(narrow[[row, class]]) - p).abs() < 1e-5,
                "{key}: f32 and f64 differ"
            );
            if logits[[row, class]] == f32::NEG_INFINITY {
                assert!(
                    p <= 0.0 && log == f64::NEG_INFINITY,
                    "{key}: masked class {class}"
                );
            }
        }
    }
}

fn rows_are_independent(key: &str, fitted: &Fitted, classes: usize) {
    let (logits, _) = overconfident(300, classes, 8);
    let all = probs(fitted, &logits);
    let part = probs(fitted, &logits.slice(s![17..40, ..]).to_owned());
    assert!(
        part == all.slice(s![17..40, ..]),
        "{key}: a row depends on the other rows"
    );
    for row in [0, 17, 299] {
        let input = logits.row(row).to_vec();
        let alone: Vec<f64> = fitted
            .model
            .apply_row(&input, ScoreKind::Probs)
            .expect("width");
        assert!(
            alone == all.row(row).to_vec(),
            "{key}: a single row differs from the batch"
        );
    }
}

fn keeps_the_order(key: &str, fitted: &Fitted, classes: usize) {
    if !fitted.model.order_preserving() {
        return;
    }
    let logits = hostile_matrix(500, classes, &mut ordercal::Rng::new(4));
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("valid logits");
    for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
        let narrow: Array2<f32> = fitted.model.apply(&scores, kind).expect("width");
        for (input, output) in logits.rows().into_iter().zip(narrow.rows()) {
            let violation = violation(&input.to_vec(), &output.to_vec(), kind);
            assert_eq!(violation, None, "{key}, {kind}");
        }
    }
}

fn other_widths_are_rejected(key: &str, fitted: &Fitted, classes: usize) {
    let wider = vec![0.5_f32; classes + 1];
    let refused = fitted.model.apply_row::<f32>(&wider, ScoreKind::Probs);
    let expected = Error::WrongClasses {
        expected: classes,
        found: classes + 1,
    };
    assert_eq!(refused, Err(expected), "{key}");
}

fn is_deterministic(method: &Method) {
    // Enough rows and classes for the work to be divided among threads.
    let data = overconfident_data(700, 40, 9);
    let fit = |threads: usize| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads");
        pool.install(|| method.fit(&data).expect("ordinary data"))
    };
    let one = fit(1);
    assert!(one == fit(1), "{}: two fits differ", method.key());
    assert!(
        one == fit(3),
        "{}: the result depends on the number of threads",
        method.key()
    );
}

fn fits_degenerate_data(method: &Method) {
    let key = method.key();
    let fit = |name: &str, logits: Array2<f32>, labels: &[u32]| {
        let scores = Scores::new(ScoreKind::Logits, logits.clone()).expect("valid logits");
        let data = Dataset::new(scores, labels).expect("labels in range");
        let fitted = method.fit(&data).unwrap_or_else(|e| panic!("{key}: {e}"));
        // Mini-batches and penalties may increase the NLL a little if there is nothing to learn. Maps of one class against
        // the rest do not see the others, which costs most where scores are of every scale.
        let free = !method.promises_order() || key.ends_with("+order");
        is_not_worse(key, &fitted, if free { 0.2 } else { 0.02 });
        let logs = log_probs(&fitted, &logits);
        assert!(
            logs.iter().all(|log| *log <= 0.0),
            "{key}, {name}: not logarithms of probabilities"
        );
        // The report is that of the model. Scores of extreme scale lose digits on their way.
        if !["tiny", "hostile"].contains(&name) {
            let of_labels = labels.iter().enumerate();
            let nll = of_labels.map(|(row, &label)| -logs[[row, label as usize]]);
            let nll = nll.sum::<f64>() / labels.len() as f64;
            let after = fitted.report.nll_after;
            assert!(
                (nll - after).abs() <= 1e-6 * (1.0 + after),
                "{key}, {name}: NLL {nll}, but {after} in the report"
            );
        }
    };
    // One row; equal rows; constant rows.
    fit("one_row", ndarray::arr2(&[[2.0, 1.0, 0.0]]), &[1]);
    fit(
        "equal",
        Array2::from_shape_fn((50, 4), |(_, c)| c as f32),
        &[3; 50],
    );
    fit("constant", Array2::zeros((20, 3)), &[1; 20]);
    // Separable data: every label has the largest score.
    let (logits, _) = overconfident(200, 5, 10);
    let tops: Vec<u32> = logits
        .rows()
        .into_iter()
        .map(|r| argmax(r.iter().copied()))
        .collect();
    fit("separable", logits.clone(), &tops);
    // Every label has the smallest score.
    let bottoms: Vec<u32> = logits
        .rows()
        .into_iter()
        .map(|r| argmax(r.iter().map(|v| -v)))
        .collect();
    fit("reversed", logits.clone(), &bottoms);
    // Classes without a label, masked classes, very large and very small scores.
    let (mut masked, labels) = overconfident(300, 6, 11);
    let labels: Vec<u32> = labels.iter().map(|l| l % 3).collect();
    for (row, mut scores) in masked.rows_mut().into_iter().enumerate() {
        scores[3 + row % 3] = f32::NEG_INFINITY;
        if row % 7 == 0 {
            scores.fill(f32::NEG_INFINITY);
            scores[labels[row] as usize] = 1.0;
        }
    }
    fit("masked", masked, &labels);
    fit("huge", logits.mapv(|v| v * 1e30), &tops);
    fit("tiny", logits.mapv(|v| v * 1e-30), &tops);
    let hostile = hostile_matrix(300, 5, &mut ordercal::Rng::new(12));
    let possible: Vec<u32> = hostile
        .rows()
        .into_iter()
        .map(|r| argmax(r.iter().copied()))
        .collect();
    fit("hostile", hostile, &possible);
}

fn argmax(values: impl Iterator<Item = f32>) -> u32 {
    let best = values.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0, |(class, _)| class as u32)
}

fn can_be_cancelled(method: &Method) {
    let data = overconfident_data(100, 4, 13);
    let stop = |_: &Progress| ControlFlow::Break(());
    match method.fit_watched(&data, &stop) {
        Err(Error::Cancelled) => {}
        // A method without iterations cannot be interrupted.
        Ok(fitted) => assert_eq!(
            fitted.report.iterations,
            0,
            "{} cannot be cancelled",
            method.key()
        ),
        Err(other) => panic!("{}: {other}", method.key()),
    }
}

fn weights_are_equivalent_to_repeated_rows(method: &Method) {
    let (logits, labels) = overconfident(300, 5, 14);
    let counts: Vec<usize> = (0..300).map(|row| row % 3).collect();
    let repeated: Vec<usize> = (0..300).flat_map(|row| vec![row; counts[row]]).collect();
    let scores = Scores::new(ScoreKind::Logits, logits.view()).expect("valid logits");
    let plain = Dataset::new(scores, &labels).expect("labels in range");
    let repeated = plain.select(&repeated);
    let weights = counts.iter().map(|&c| c as f64).collect();
    let weighted = plain.with_weights(weights).expect("valid weights");
    let weighted = method.fit(&weighted).expect("weighted data");
    let repeated = method.fit(&repeated).expect("repeated data");
    assert_close(
        method.key(),
        "weights differ from repeated rows",
        &weighted,
        &repeated,
    );
}

fn row_order_is_irrelevant(method: &Method) {
    let data = overconfident_data(500, 5, 15);
    let mut rows: Vec<usize> = (0..500).collect();
    ordercal::Rng::new(16).shuffle(&mut rows);
    let original = method.fit(&data).expect("ordinary data");
    let shuffled = method.fit(&data.select(&rows)).expect("ordinary data");
    assert_close(
        method.key(),
        "the result depends on the order of the rows",
        &original,
        &shuffled,
    );
}

/// The models agree up to rounding errors, since sums are taken in another order.
fn assert_close(key: &str, message: &str, one: &Fitted, other: &Fitted) {
    let (logits, _) = overconfident(200, one.model.classes(), 17);
    let (a, b) = (probs(one, &logits), probs(other, &logits));
    let largest = (&a - &b).iter().fold(0.0, |m: f64, d| m.max(d.abs()));
    assert!(largest < 2e-3, "{key}: {message} (by {largest:.1e})");
    let gap = (one.report.nll_after - other.report.nll_after).abs();
    assert!(gap < 1e-4, "{key}: {message} (NLL by {gap:.1e})");
}

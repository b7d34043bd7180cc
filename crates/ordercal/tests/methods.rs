//! Methods as data, and what their fits report.

#![allow(clippy::float_cmp)] // Exact equality is what is promised.

use ndarray::Array2;
use ordercal::optim::{Adam, Lbfgs, Schedule, StopReason};
use ordercal::{
    Dataset, Diag, Error, Method, Model, Oi, Op, SPREAD_BOUNDS, ScoreKind, Scores, Ts,
    Unconstrained,
};
use ordercal_testkit::rows::{overconfident, overconfident_data};

#[test]
fn a_method_survives_json() {
    for method in Method::all() {
        let json = serde_json::to_string(&method).unwrap();
        assert!(
            json.contains(&format!("\"method\":\"{}\"", method.key())),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Method>(&json).unwrap(), method);
        let bare = format!("{{\"method\":\"{}\"}}", method.key());
        assert_eq!(
            serde_json::from_str::<Method>(&bare).unwrap(),
            method,
            "defaults differ"
        );
    }
    let given: Method = serde_json::from_str(
        r#"{"method": "oi", "hidden": [7], "lambda": 0.5, "optimizer": {"kind": "adam", "epochs": 3}}"#,
    )
    .unwrap();
    let expected = Oi::default()
        .with_hidden(&[7])
        .with_lambda(0.5)
        .with_optimizer(Adam::default().with_epochs(3));
    assert_eq!(given, Method::from(expected));
}

#[test]
fn unknown_keys_are_refused() {
    let typo = serde_json::from_str::<Method>(r#"{"method": "op", "hiden": [7]}"#).unwrap_err();
    assert!(typo.to_string().contains("hiden"), "{typo}");
    assert!(serde_json::from_str::<Method>(r#"{"method": "tss"}"#).is_err());
    let Err(Error::UnknownMethod { key, known }) = Method::from_key("temperature") else {
        panic!("there is no such method");
    };
    assert_eq!(key, "temperature");
    assert!(known.starts_with("uncalibrated ts "), "{known}");
}

#[test]
fn hyperparameters_are_checked_before_anything_is_done() {
    let data = overconfident_data(20, 3, 1);
    let adam = Adam::default();
    let bad: Vec<(&str, Method)> = vec![
        ("hidden", Oi::default().with_hidden(&[]).into()),
        ("hidden", Op::default().with_hidden(&[10, 0]).into()),
        ("hidden", Diag::default().with_hidden(&[0]).into()),
        ("lambda", Unconstrained::default().with_lambda(-1.0).into()),
        ("lambda", Diag::default().with_lambda(f64::NAN).into()),
        (
            "smoothness",
            Diag::default().with_smoothness(f64::INFINITY).into(),
        ),
        (
            "batch",
            Oi::default()
                .with_optimizer(adam.clone().with_batch(0))
                .into(),
        ),
        (
            "learning_rate",
            Oi::default()
                .with_optimizer(adam.clone().with_learning_rate(0.0))
                .into(),
        ),
    ];
    for (expected, method) in bad {
        match method.fit(&data) {
            Err(Error::InvalidParameter { name, .. }) => assert_eq!(name, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn ts_finds_the_temperature_the_labels_were_drawn_with() {
    let data = overconfident_data(20_000, 5, 2);
    let fitted = Method::from(Ts::default()).fit(&data).unwrap();
    let Model::Ts(ts) = &fitted.model else {
        panic!()
    };
    assert!(
        (ts.temperature() - 2.0).abs() < 0.06,
        "{}",
        ts.temperature()
    );
    assert_eq!(fitted.report.stop, StopReason::Converged);
    assert!(fitted.report.evaluations < 12, "{:?}", fitted.report);
}

/// Rows whose label is always, or never, the top score.
fn one_sided(top: bool) -> Dataset<'static> {
    let (logits, _) = overconfident(500, 4, 3);
    let labels: Vec<u32> = logits
        .rows()
        .into_iter()
        .map(|row| {
            let ranked = row.iter().enumerate().map(|(c, v)| (*v, c as u32));
            let ordered = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0);
            if top {
                ranked.max_by(ordered)
            } else {
                ranked.min_by(ordered)
            }
            .unwrap()
            .1
        })
        .collect();
    Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap()
}

#[test]
fn ts_stops_at_a_documented_bound_on_separable_data() {
    for (top, bound, reason) in [
        (true, SPREAD_BOUNDS.1, StopReason::UpperBound),
        (false, SPREAD_BOUNDS.0, StopReason::LowerBound),
    ] {
        let data = one_sided(top);
        let fitted = Method::from(Ts::default()).fit(&data).unwrap();
        assert_eq!(fitted.report.stop, reason);
        let Model::Ts(ts) = &fitted.model else {
            panic!()
        };
        let mut spreads: Vec<f64> = (0..500)
            .map(|row| {
                let scores = data.scores().row(row);
                let max = scores.iter().copied().fold(f32::MIN, f32::max);
                f64::from(max) - scores.iter().map(|&v| f64::from(v)).sum::<f64>() / 4.0
            })
            .collect();
        spreads.sort_by(f64::total_cmp);
        let spread = spreads[250];
        assert!((ts.inverse_temperature() * spread / bound - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_fit_does_not_depend_on_the_units_of_the_logits() {
    let (logits, labels) = overconfident(600, 5, 4);
    let fit = |factor: f32, method: &Method| {
        let scores = Scores::new(ScoreKind::Logits, logits.mapv(|v| v * factor)).unwrap();
        let data = Dataset::new(scores.clone(), &labels).unwrap();
        let probs: Array2<f64> = method
            .fit(&data)
            .unwrap()
            .model
            .apply(&scores, ScoreKind::Probs)
            .unwrap();
        probs
    };
    // log-softmax inputs are in units of their own; a shift by the mean is not.
    let centred = ordercal::InputKind::Centred;
    for method in [
        Method::from(Ts::default()),
        Oi::default().with_input(centred).into(),
        Op::default().with_input(centred).into(),
    ] {
        let difference = fit(1.0, &method) - fit(1024.0, &method);
        let largest = difference.iter().fold(0.0, |m: f64, d| m.max(d.abs()));
        assert!(largest < 1e-2, "{}: {largest}", method.key());
    }
}

#[test]
fn families_fit_what_temperature_scaling_cannot() {
    // The true map is kinked: confident rows are overconfident, others are not.
    let (logits, _) = overconfident(4000, 5, 5);
    let mut rng = ordercal::Rng::new(6);
    let kinked = |v: f64| if v > 0.0 { 0.3 * v } else { v };
    let labels: Vec<u32> = logits
        .rows()
        .into_iter()
        .map(|row| {
            ordercal_testkit::rows::draw(&mut rng, row.iter().map(|&v| kinked(f64::from(v))))
        })
        .collect();
    let data = Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap();
    let nll = |method: Method| method.fit(&data).unwrap().report.nll_after;
    let ts = nll(Ts::default().into());
    let raw = ordercal::InputKind::Raw;
    let lbfgs = Lbfgs::default().with_max_iterations(100);
    for method in [
        Method::from(Diag::default().with_input(raw)),
        Oi::default().into(),
        Op::default().into(),
        Oi::default().with_optimizer(lbfgs).into(),
        Oi::default()
            .with_optimizer(Adam::default().with_schedule(Schedule::Constant))
            .into(),
    ] {
        let key = method.key();
        let ours = nll(method);
        assert!(ours < ts - 0.01, "{key}: {ours} is no better than {ts}");
    }
}

//! Serialisation and validation of methods, and the reports of their fits.

#![allow(clippy::float_cmp)] // Exact results are promised.

use ndarray::Array2;
use ordercal::methods::SPREAD_BOUNDS;
use ordercal::optim::{Adam, Lbfgs, Schedule, StopReason};
use ordercal::{
    Bbq, Beta, Dataset, Diag, DirOdir, Error, Ets, Histogram, Isotonic, Method, Model, MsOdir, Oi,
    Op, Ordered, Platt, ScoreKind, Scores, Sms, Svs, Ts, Unconstrained, Vs,
};
use ordercal_testkit::rows::{overconfident, overconfident_data};

#[test]
fn methods_round_trip_through_json() {
    let projected = Method::all().into_iter().map(Method::keep_order);
    for method in Method::all().into_iter().chain(projected) {
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
        .with_hidden([7])
        .with_lambda(0.5)
        .with_optimizer(Adam::default().with_epochs(3));
    assert_eq!(given, Method::from(expected));
}

#[test]
fn the_key_of_a_projection_is_that_of_the_inner_method() {
    let given: Method = serde_json::from_str(r#"{"method": "sms+order", "lambda": 2.0}"#).unwrap();
    let expected = Ordered::new(Sms::default().with_lambda(2.0)).unwrap();
    assert_eq!(given, Method::from(expected));
    assert_eq!(given.key(), "sms+order");
    assert!(given.promises_order());
    for method in Method::all().into_iter().filter(|m| !m.promises_order()) {
        let key = format!("{}+order", method.key());
        assert_eq!(Method::from_key(&key).unwrap(), method.clone().keep_order());
        assert_eq!(method.keep_order().key(), key);
    }
    assert_eq!(Method::from(Ts::default()).keep_order().key(), "ts");
    let refused = |key: &str| Method::from_key(key).unwrap_err();
    let message = refused("ts+order").to_string();
    assert!(
        message.contains("`ts` keeps the order already"),
        "{message}"
    );
    assert_eq!(
        refused("sms+order+order"),
        Error::AlreadyOrdered {
            key: "sms+order".to_owned()
        }
    );
    assert!(matches!(
        refused("foo+order"),
        Error::UnknownMethod { key, .. } if key == "foo"
    ));
    assert!(serde_json::from_str::<Method>(r#"{"method": "ts+order"}"#).is_err());
    assert!(serde_json::from_str::<Method>(r#"{"method": "vs+order", "lamda": 1}"#).is_err());
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
fn hyperparameters_are_validated() {
    let data = overconfident_data(20, 3, 1);
    let adam = Adam::default();
    let bad: Vec<(&str, Method)> = vec![
        ("hidden", Oi::default().with_hidden([]).into()),
        ("hidden", Op::default().with_hidden([10, 0]).into()),
        ("hidden", Diag::default().with_hidden([0]).into()),
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
    let bad = bad.into_iter().chain([
        ("lambda", MsOdir::default().with_lambda(-1.0).into()),
        ("mu", DirOdir::default().with_mu(f64::NAN).into()),
        ("lambda", Svs::default().with_lambda(f64::INFINITY).into()),
        ("lambda", Sms::default().with_lambda(-0.1).into()),
        ("smoothing", Platt::default().with_smoothing(0.0).into()),
        ("smoothing", Beta::default().with_smoothing(-1.0).into()),
        ("smoothing", Isotonic::default().with_smoothing(0.0).into()),
        ("bins", Histogram::default().with_bins(0).into()),
        ("prior", Bbq::default().with_prior(0.0).into()),
        (
            "mu",
            Method::from(MsOdir::default().with_mu(-1.0)).keep_order(),
        ),
    ]);
    for (expected, method) in bad {
        match method.fit(&data) {
            Err(Error::InvalidParameter { name, .. }) => assert_eq!(name, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn ts_recovers_the_temperature_of_the_labels() {
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

/// Rows whose label always has the largest score, or always the smallest.
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
    // Log-softmax inputs depend on the units of the logits; centred ones are proportional to them.
    let centred = ordercal::InputKind::Centred;
    for method in [
        Method::from(Ts::default()),
        Vs::default().into(),
        Svs::default().into(),
        Sms::default().into(),
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
    // The true map has a kink: only positive scores are overconfident.
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
        let key = method.key().to_owned();
        let ours = nll(method);
        assert!(ours < ts - 0.01, "{key}: {ours} is no better than {ts}");
    }
}

#[test]
fn linear_methods_learn_a_bias_towards_a_class() {
    // The last class is more frequent than its scores predict, which an order-preserving map can hardly correct.
    let (logits, _) = overconfident(3000, 4, 7);
    let mut rng = ordercal::Rng::new(8);
    let biased = |(class, v): (usize, &f32)| f64::from(*v) / 2.0 + [0.0, 0.0, 0.0, 1.5][class];
    let labels: Vec<u32> = logits
        .rows()
        .into_iter()
        .map(|row| ordercal_testkit::rows::draw(&mut rng, row.iter().enumerate().map(biased)))
        .collect();
    let data = Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap();
    let nll = |method: &Method| method.fit(&data).unwrap().report.nll_after;
    let (ts, ets) = (nll(&Ts::default().into()), nll(&Ets::default().into()));
    assert!(ets <= ts + 1e-6, "{ets} {ts}");
    for key in ["vs", "ms-odir", "dir-odir", "svs", "sms", "platt", "beta"] {
        let free = nll(&Method::from_key(key).unwrap());
        let projected = nll(&Method::from_key(&format!("{key}+order")).unwrap());
        assert!(free < ts - 0.05, "{key}: {free} is no better than {ts}");
        // The projection loses a part of the improvement.
        assert!(free <= projected && projected < ts, "{key}: {projected}");
    }
}

#[test]
fn separable_data_does_not_make_a_linear_map_diverge() {
    for top in [true, false] {
        let data = one_sided(top);
        for key in ["vs", "ms-odir", "dir-odir", "svs", "sms"] {
            let fitted = Method::from_key(key).unwrap().fit(&data).unwrap();
            let logits: Array2<f64> = fitted
                .model
                .apply(data.scores(), ScoreKind::Logits)
                .unwrap();
            let largest = logits.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            // Weights without a penalty (vs, the diagonal of ms-odir) grow until the loss is negligible.
            assert!(largest < 1e6, "{key}: {largest}");
            assert!(fitted.report.nll_after < 2.0, "{key}: {:?}", fitted.report);
        }
    }
}

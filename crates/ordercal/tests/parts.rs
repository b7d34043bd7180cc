//! Models taken apart and built again: what a model file relies on.

use ordercal::{
    CurvesModel, CurvesParts, Error, EtsModel, EtsParts, Features, LinearModel, LinearParts,
    LogisticModel, LogisticParts, Method, Model, OrderedModel,
};
use ordercal_testkit::rows::overconfident_data;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn fit(key: &str, classes: usize) -> Model {
    let data = overconfident_data(200, classes, 31);
    Method::from_key(key).unwrap().fit(&data).unwrap().model
}

fn through_json<T: Serialize + DeserializeOwned>(parts: &T) -> T {
    serde_json::from_str(&serde_json::to_string(parts).unwrap()).unwrap()
}

/// Numbers in bulk are stored as tensors, the rest as JSON; both together are the model.
fn rebuilt(model: &Model) -> Model {
    match model {
        Model::Ets(model) => {
            let parts: EtsParts = through_json(&model.to_parts());
            EtsModel::from_parts(parts).unwrap().into()
        }
        Model::Linear(model) => {
            let given = model.to_parts();
            let parts = LinearParts {
                deviation: given.deviation.clone(),
                bias: given.bias.clone(),
                ..through_json(&given)
            };
            LinearModel::from_parts(parts).unwrap().into()
        }
        Model::Logistic(model) => {
            let given = model.to_parts();
            let parts = LogisticParts {
                coefficients: given.coefficients.clone(),
                ..through_json(&given)
            };
            LogisticModel::from_parts(parts).unwrap().into()
        }
        Model::Curves(model) => {
            let given = model.to_parts();
            let parts = CurvesParts {
                knots: given.knots.clone(),
                x: given.x.clone(),
                y: given.y.clone(),
                ..through_json(&given)
            };
            CurvesModel::from_parts(parts).unwrap().into()
        }
        Model::Ordered(model) => {
            let inner = rebuilt(model.inner());
            let beta = model.inverse_temperature();
            OrderedModel::new(inner, beta).unwrap().into()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_is_the_sum_of_its_parts() {
    for key in [
        "ets",
        "vs",
        "ms-odir",
        "dir-odir",
        "svs",
        "sms",
        "platt",
        "beta",
        "isotonic",
        "histogram",
        "bbq",
        "sms+order",
        "isotonic+order",
    ] {
        for classes in [2, 5] {
            let model = fit(key, classes);
            assert_eq!(rebuilt(&model), model, "{key}");
        }
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    match result {
        Err(Error::InvalidParameter { name, .. }) => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn linear_parts_are_checked() {
    let Model::Linear(model) = fit("ms-odir", 3) else {
        panic!()
    };
    let name = |change: &dyn Fn(&mut LinearParts)| {
        let mut parts = model.to_parts();
        change(&mut parts);
        refused(LinearModel::from_parts(parts))
    };
    assert_eq!(name(&|p| p.classes = 1), "classes");
    assert_eq!(name(&|p| p.deviation.truncate(4)), "deviation");
    assert_eq!(name(&|p| p.deviation[2] = f32::NAN), "deviation");
    assert_eq!(name(&|p| p.bias.push(0.0)), "bias");
    assert_eq!(name(&|p| p.bias[0] = f32::INFINITY), "bias");
    let mixed = |beta, share| Features::Mixed { beta, share };
    assert_eq!(name(&|p| p.features = mixed(0.0, 0.1)), "beta");
    assert_eq!(name(&|p| p.features = mixed(1.0, 1.0)), "share");
    assert_eq!(
        name(&|p| {
            p.features = Features::Tempered {
                input: ordercal::InputKind::Raw,
                beta: 1.0,
                range: (1.0, 0.0),
            }
        }),
        "range"
    );
}

#[test]
fn logistic_and_ordered_parts_are_checked() {
    let Model::Logistic(model) = fit("platt", 3) else {
        panic!()
    };
    let name = |change: &dyn Fn(&mut LogisticParts)| {
        let mut parts = model.to_parts();
        change(&mut parts);
        refused(LogisticModel::from_parts(parts))
    };
    assert_eq!(name(&|p| p.classes = 0), "classes");
    assert_eq!(name(&|p| p.share = 2.0), "share");
    assert_eq!(name(&|p| p.coefficients.truncate(6)), "coefficients");
    assert_eq!(name(&|p| p.coefficients.truncate(8)), "coefficients");
    assert_eq!(name(&|p| p.coefficients[0] = f64::NAN), "coefficients");
    let ordered = |model: Model, beta| refused(OrderedModel::new(model, beta));
    assert_eq!(ordered(model.clone().into(), -1.0), "beta");
}

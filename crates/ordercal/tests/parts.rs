//! Models taken apart and built again: what a model file relies on.

use ordercal::models::{
    Features, LinearModel, LinearParts, LogisticModel, LogisticParts, ModelParts, OrderedModel,
    TensorValues,
};
use ordercal::{Error, Method, Model};
use ordercal_testkit::rows::overconfident_data;

fn fit(key: &str, classes: usize) -> Model {
    let data = overconfident_data(200, classes, 31);
    Method::from_key(key).unwrap().fit(&data).unwrap().model
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Box<str> {
    match result {
        Err(Error::InvalidPart { part, .. }) => part,
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
    assert_eq!(&*name(&|p| p.classes = 1), "classes");
    assert_eq!(&*name(&|p| p.deviation.truncate(4)), "deviation");
    assert_eq!(&*name(&|p| p.deviation[2] = f32::NAN), "deviation");
    assert_eq!(&*name(&|p| p.bias.push(0.0)), "bias");
    assert_eq!(&*name(&|p| p.bias[0] = f32::INFINITY), "bias");
    let mixed = |beta, share| Features::Mixed { beta, share };
    assert_eq!(&*name(&|p| p.features = mixed(0.0, 0.1)), "beta");
    assert_eq!(&*name(&|p| p.features = mixed(1.0, 1.0)), "share");
    assert_eq!(
        name(&|p| {
            p.features = Features::Tempered {
                input: ordercal::InputKind::Raw,
                beta: 1.0,
                range: (1.0, 0.0),
            }
        }),
        "range".into()
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
    assert_eq!(&*name(&|p| p.classes = 0), "classes");
    assert_eq!(&*name(&|p| p.share = 2.0), "share");
    assert_eq!(&*name(&|p| p.coefficients.truncate(6)), "coefficients");
    assert_eq!(&*name(&|p| p.coefficients.truncate(8)), "coefficients");
    assert_eq!(&*name(&|p| p.coefficients[0] = f64::NAN), "coefficients");
    let ordered = |model: Model, beta| refused(OrderedModel::new(model, beta));
    assert_eq!(&*ordered(model.clone().into(), -1.0), "beta");
}

#[test]
fn damaged_parts_are_refused() {
    let good = fit("sms+order", 3).to_parts().unwrap();
    let refused = |change: &dyn Fn(&mut ModelParts)| {
        let mut parts = good.clone();
        change(&mut parts);
        refused(Model::from_parts(parts))
    };
    assert_eq!(&*refused(&|p| p.settings = "sms".into()), "model");
    assert_eq!(&*refused(&|p| p.settings["form"] = "spline".into()), "form");
    assert_eq!(&*refused(&|p| p.settings["form"] = 3.into()), "form");
    assert_eq!(&*refused(&|p| p.settings["beta"] = (-1.0).into()), "beta");
    assert_eq!(&*refused(&|p| p.settings["gamma"] = 1.0.into()), "model");
    assert_eq!(&*refused(&|p| p.tensors.truncate(1)), "deviation");
    assert_eq!(
        refused(&|p| p.tensors[0].1 = TensorValues::U32(vec![])),
        "bias".into()
    );
    let extra = ("more".to_owned(), TensorValues::F32(vec![]));
    assert_eq!(&*refused(&|p| p.tensors.push(extra.clone())), "more");
}

//! Models as ONNX: what every method fits passes the exporter's own check.

use ordercal::models::{ChainModel, MixtureModel, OrderedModel};
use ordercal::{Method, Model, Rng, ScoreKind};
use ordercal_onnx::{InputType, onnx_bytes, onnx_bytes_reading};
use ordercal_testkit::models::extreme;
use ordercal_testkit::rows::overconfident_data;

fn fit(method: impl Into<Method>, classes: usize) -> Model {
    let data = overconfident_data(400, classes, 7);
    method.into().fit(&data).unwrap().model
}

#[test]
fn every_method_passes_the_check() {
    for method in Method::all() {
        let key = method.key();
        for classes in [2, 3, 26] {
            for method in [method.clone(), method.clone().keep_order()] {
                let model = fit(method, classes);
                for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
                    let written = onnx_bytes(&model, kind);
                    let failed = written.err();
                    assert!(
                        failed.is_none(),
                        "{key}, {classes} classes, {kind}: {failed:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn graphs_of_half_precision_scores_pass_the_check_and_say_so() {
    for key in ["ts", "oi", "isotonic", "sms+order", "auto"] {
        let model = fit(Method::from_key(key).unwrap(), 5);
        for kind in [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs] {
            let half = onnx_bytes_reading(&model, kind, InputType::F16);
            let full = onnx_bytes(&model, kind).unwrap();
            assert!(half.is_ok(), "{key}, {kind}: {:?}", half.err());
            assert!(half.unwrap() != full);
        }
    }
    assert_eq!("f16".parse(), Ok(InputType::F16));
    assert!("f8".parse::<InputType>().is_err());
}

#[test]
fn models_nobody_would_fit_keep_every_prediction() {
    let mut rng = Rng::new(3);
    for classes in [2, 5, 40] {
        let models = extreme(classes, &mut rng).into_iter();
        // Not the linear ones: their weights are so large that two ways to add up 32-bit products differ too much.
        let models = models.filter(|model| {
            matches!(
                model,
                Model::Ts(_) | Model::Ets(_) | Model::Diag(_) | Model::Network(_)
            )
        });
        for (index, model) in models.enumerate() {
            let written = onnx_bytes(&model, ScoreKind::Logits);
            assert!(written.is_ok(), "{index}, {classes}: {:?}", written.err());
        }
    }
}

#[test]
fn mixtures_and_chains_are_composed_of_their_members() {
    let model = |key: &str| fit(Method::from_key(key).unwrap(), 6);
    let folds = MixtureModel::average(vec![model("oi"), model("ts"), model("diag")]).unwrap();
    let chain = ChainModel::new(model("sms"), model("oi")).unwrap();
    let projected = OrderedModel::new(chain.clone().into(), 0.7).unwrap();
    let members = vec![(0.5, folds.clone().into()), (0.3, projected.into())];
    let mixture = MixtureModel::new(members).unwrap();
    let polished = ChainModel::new(mixture, model("ts")).unwrap();
    for model in [folds.into(), chain.into(), Model::from(polished)] {
        let written = onnx_bytes(&model, ScoreKind::Logits);
        assert!(written.is_ok(), "{:?}", written.err());
    }
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let model = fit(Method::from_key("oi").unwrap(), 5);
    let bytes = || onnx_bytes(&model, ScoreKind::Logits).unwrap();
    assert!(bytes() == bytes());
}

#[test]
fn projections_of_any_number_of_classes_pass_their_check() {
    // One below, at and above a power of two, where rows are padded or not, and many.
    for classes in [2, 3, 4, 5, 7, 8, 9, 300, 1000] {
        let model = fit(Method::from(ordercal::Svs::default()).keep_order(), classes);
        let written = onnx_bytes(&model, ScoreKind::Logits);
        assert!(written.is_ok(), "{classes}: {:?}", written.err());
    }
}

//! The structure of exported graphs. onnxruntime compares their results with the models' in `python/tests/test_onnx.py`.

#[allow(dead_code, missing_docs)]
#[path = "../src/proto.rs"]
mod proto;

use ordercal::models::{ChainModel, MixtureModel, OrderedModel};
use ordercal::{Method, Model, Rng, ScoreKind, Transform};
use ordercal_onnx::{InputType, OnnxError, onnx_bytes};
use ordercal_testkit::models::extreme;
use ordercal_testkit::rows::overconfident_data;
use prost::Message;
use proto::{GraphProto, Length, ModelProto, ValueInfoProto};

const KINDS: [ScoreKind; 3] = [ScoreKind::Logits, ScoreKind::LogProbs, ScoreKind::Probs];

fn fit(method: impl Into<Method>, classes: usize) -> Model {
    let data = overconfident_data(400, classes, 7);
    method.into().fit(&data).unwrap().model
}

fn export(model: &Model, kind: ScoreKind, input_type: InputType) -> ModelProto {
    let bytes = onnx_bytes(model, kind, input_type).unwrap();
    ModelProto::decode(bytes.as_slice()).unwrap()
}

/// The name, element type and dimensions of an input or output.
fn described(value: &ValueInfoProto) -> (&str, i32, Vec<Length>) {
    let tensor = value.r#type.as_ref().unwrap().tensor_type.as_ref().unwrap();
    let dims = tensor.shape.as_ref().unwrap().dim.iter();
    let dims = dims.map(|dim| dim.value.clone().unwrap()).collect();
    (&value.name, tensor.elem_type, dims)
}

/// Every value is computed once, before it is read; the file describes its input and outputs.
fn check(file: &ModelProto, classes: usize, kind: ScoreKind, input_type: i32) {
    let graph: &GraphProto = file.graph.as_ref().unwrap();
    let mut known: Vec<&str> = graph.initializer.iter().map(|c| c.name.as_str()).collect();
    known.push("scores");
    for constant in &graph.initializer {
        let count: i64 = constant.dims.iter().product();
        let size = match constant.data_type {
            proto::FLOAT => 4,
            proto::DOUBLE | proto::INT64 => 8,
            other => panic!("a constant of type {other}"),
        };
        assert_eq!(constant.raw_data.len() as i64, count * size);
    }
    let mut known: std::collections::HashSet<&str> = known.into_iter().collect();
    for node in &graph.node {
        for input in &node.input {
            assert!(known.contains(input.as_str()), "{}: {input}", node.name);
        }
        for output in &node.output {
            assert!(known.insert(output), "{output} is computed twice");
        }
    }
    let shape = vec![Length::Named("N".to_owned()), Length::Known(classes as i64)];
    let inputs: Vec<_> = graph.input.iter().map(described).collect();
    assert_eq!(inputs, [("scores", input_type, shape.clone())]);
    let outputs: Vec<_> = graph.output.iter().map(described).collect();
    let expected = ["probabilities", "logits"].map(|name| (name, proto::FLOAT, shape.clone()));
    assert_eq!(outputs, expected);
    assert!(expected.iter().all(|(name, ..)| known.contains(name)));
    assert_eq!((file.ir_version, file.opset_import[0].version), (8, 18));
    let metadata = |key: &str| {
        let found = file.metadata_props.iter().find(|entry| entry.key == key);
        found.map(|entry| entry.value.clone())
    };
    assert_eq!(metadata("classes"), Some(classes.to_string()));
    assert_eq!(metadata("kind"), Some(kind.to_string()));
}

fn order_preserving(file: &ModelProto) -> bool {
    let mut metadata = file.metadata_props.iter();
    let entry = metadata.find(|entry| entry.key == "order_preserving");
    entry.unwrap().value == "true"
}

#[test]
fn every_method_has_a_graph() {
    for method in Method::all() {
        for classes in [2, 3, 26] {
            for method in [method.clone(), method.clone().keep_order()] {
                let model = fit(method, classes);
                for kind in KINDS {
                    let file = export(&model, kind, InputType::F32);
                    check(&file, classes, kind, proto::FLOAT);
                    assert_eq!(order_preserving(&file), model.order_preserving());
                }
            }
        }
    }
}

#[test]
fn graphs_of_half_precision_scores_say_so() {
    let model = fit(Method::from_key("sms+order").unwrap(), 5);
    for kind in KINDS {
        check(
            &export(&model, kind, InputType::F16),
            5,
            kind,
            proto::FLOAT16,
        );
    }
    assert_eq!("f16".parse(), Ok(InputType::F16));
    assert!("f8".parse::<InputType>().is_err());
}

#[test]
fn composites_and_models_nobody_would_fit_have_graphs() {
    let model = |key: &str| fit(Method::from_key(key).unwrap(), 6);
    let folds = MixtureModel::average(vec![model("oi"), model("ts"), model("diag")]).unwrap();
    let chain = ChainModel::new(model("sms"), model("oi")).unwrap();
    let projected = OrderedModel::new(chain.clone().into(), 0.7).unwrap();
    let members = vec![(0.5, folds.into()), (0.3, projected.into())];
    let mixture = MixtureModel::new(members).unwrap();
    let mut models = extreme(6, &mut Rng::new(3));
    models.push(ChainModel::new(mixture, model("ts")).unwrap().into());
    for model in &models {
        let file = export(model, ScoreKind::Logits, InputType::F32);
        check(&file, 6, ScoreKind::Logits, proto::FLOAT);
    }
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let model = fit(Method::from_key("oi").unwrap(), 5);
    let bytes = || onnx_bytes(&model, ScoreKind::Logits, InputType::F32).unwrap();
    assert!(bytes() == bytes());
}

#[test]
fn a_model_of_the_users_own_has_no_graph() {
    struct Uniform;
    impl Transform for Uniform {
        fn classes(&self) -> usize {
            2
        }

        fn probabilities(&self, _: &[f32], probs: &mut [f64]) {
            probs.fill(0.5);
        }
    }
    let projected = OrderedModel::new(Model::custom(Uniform), 1.0).unwrap();
    let refused = onnx_bytes(&projected.into(), ScoreKind::Logits, InputType::F32);
    assert_eq!(refused, Err(OnnxError::NotExportable));
}

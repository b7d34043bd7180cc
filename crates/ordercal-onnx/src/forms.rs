//! One file per form of model: scores in, 64-bit logits out.
//!
//! A graph computes in 64 bits what the library computes in 64 bits, and networks in 32 bits as the library
//! does. Every form that the library has must implement [`ToGraph`] in a file here, or
//! this crate does not compile.

mod chain;
mod curves;
mod custom;
mod diag;
mod ets;
mod kernel;
mod linear;
mod logistic;
mod mixture;
mod network;
mod one_vs_rest;
mod ordered;
mod ts;
mod uncalibrated;

use ordercal::Model;

use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

/// A model that can be written as a graph.
pub trait ToGraph {
    /// Adds the nodes that compute the N×K logits of the model, `-inf` where a class is masked.
    ///
    /// # Errors
    /// [`OnnxError::NotExportable`] if a model inside this one has no graph.
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError>;
}

macro_rules! dispatch {
    ($($(#[$doc:meta])* $variant:ident($form:ident) $name:literal,)*) => {
        impl ToGraph for Model {
            fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
                match self {
                    $(Self::$variant(model) => model.to_graph(graph, scores),)*
                    _ => Err(OnnxError::NotExportable),
                }
            }
        }
    };
}

ordercal::for_each_form!(dispatch);

#[cfg(test)]
mod tests {
    use ndarray::ArrayView2;
    use ordercal::{Method, ScoreKind, Scores};
    use ordercal_testkit::rows::overconfident_data;

    use super::*;
    use crate::InputType;
    use crate::check::sample_rows;
    use crate::interpreter::{self, Tensor};

    /// The probabilities of a graph before they are rounded to 32 bits.
    fn probabilities(model: &Model, rows: &[f32]) -> Vec<f64> {
        let classes = model.classes();
        let mut graph = Graph::default();
        let input = Value::input("scores");
        let scores = GraphScores::read(&mut graph, &input, ScoreKind::Logits, classes);
        let logits = model.to_graph(&mut graph, &scores).unwrap();
        let probabilities = graph.softmax(&logits);
        graph.output(&probabilities, "probabilities");
        graph.output(&logits, "logits");
        let input = Tensor::matrix(rows.len() / classes, classes, rows.to_vec());
        let outputs =
            interpreter::run(&graph.into_model(classes, InputType::F32, "", &[]), input).unwrap();
        outputs["probabilities"].as_f64().unwrap().to_vec()
    }

    #[test]
    fn graphs_agree_with_the_library_in_64_bits() {
        for method in Method::all() {
            for classes in [2, 3, 26] {
                let key = method.key();
                let data = overconfident_data(400, classes, 7);
                let model = method.fit(&data).unwrap().model;
                let rows = sample_rows(classes, ScoreKind::Logits, 2000);
                let found = probabilities(&model, &rows);
                let view = ArrayView2::from_shape((rows.len() / classes, classes), &rows).unwrap();
                let scores = Scores::new(ScoreKind::Logits, view).unwrap();
                let expected = model.apply::<f64>(&scores, ScoreKind::Probs).unwrap();
                for (cell, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let apart = (found - expected).abs();
                    let row = &rows[cell / classes * classes..][..classes];
                    assert!(apart <= 1e-6, "{key}: {found}, not {expected} of {row:?}");
                }
            }
        }
    }
}

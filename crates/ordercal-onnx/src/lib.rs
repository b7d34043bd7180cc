//! Fitted models as ONNX files, to be run wherever the classifier runs.
//!
//! The graph has one input, `scores` (N×K floats of 32 bits, or of 16 by request, N free), and two outputs of the same
//! shape and 32 bits, `probabilities` and `logits`. A score of `-inf` masks a class. The graph of an order-preserving model keeps
//! every prediction: the top class of a row stays strictly on top, and no two classes change places. Classes
//! whose results are closer than 32 bits can tell apart may come out equal, which [`Model::apply`] avoids.
//!
//! ```
//! use ordercal::models::TsModel;
//! use ordercal::{Model, ScoreKind};
//! use ordercal_onnx::{InputType, onnx_bytes};
//!
//! let model = Model::from(TsModel::new(10, 0.5)?);
//! let bytes = onnx_bytes(&model, ScoreKind::Logits, InputType::F32)?;
//! // Write `bytes` to a file such as `calibrator.onnx`.
//! assert!(bytes.len() > 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod forms;
mod functions;
mod graph;
mod proto;
mod scores;

use std::str::FromStr;

use ordercal::{Model, ScoreKind};
use prost::Message;
use thiserror::Error;

use forms::ToGraph;
use graph::{Graph, Value};
use scores::{GraphScores, write_outputs};

/// Why a model cannot be exported.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The model, or one inside it, was not made by a method of the library.
    #[error("models of calibrators that are not built in cannot be exported as ONNX")]
    NotExportable,
}

/// The type of the scores that a graph reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputType {
    /// 32-bit floats.
    #[default]
    F32,
    /// Half-precision floats, for networks that compute in them.
    F16,
}

impl FromStr for InputType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            _ => Err(format!(
                "there is no input type `{name}`; the scores of a graph are `f32` or `f16`"
            )),
        }
    }
}

/// Returns the bytes of an ONNX file that computes what the model does.
///
/// `kind` is what the graph's input will be: logits, log-probabilities or probabilities.
///
/// # Errors
/// [`OnnxError::NotExportable`] for a model that is not the library's own.
pub fn onnx_bytes(
    model: &Model,
    kind: ScoreKind,
    input_type: InputType,
) -> Result<Vec<u8>, OnnxError> {
    let classes = model.classes();
    let keep_order = model.order_preserving();
    let mut graph = Graph::default();
    let mut input = Value::input("scores");
    if input_type == InputType::F16 {
        input = graph.cast_f32(&input);
    }
    let scores = GraphScores::read(&mut graph, &input, kind, classes);
    let logits = model.to_graph(&mut graph, &scores)?;
    write_outputs(&mut graph, &input, &scores, &logits, keep_order);
    let about = format!("Calibrates {kind} of {classes} classes");
    let metadata = [
        ("classes", classes.to_string()),
        ("kind", kind.to_string()),
        ("order_preserving", keep_order.to_string()),
    ];
    let file = graph.into_model(classes, input_type, &about, &metadata);
    Ok(file.encode_to_vec())
}

//! Fitted models as ONNX files, to be run wherever the classifier runs.
//!
//! The graph has one input, `scores` (N×K, 32-bit floats, N free), and two outputs of the same shape,
//! `probabilities` and `logits`. Scores may be masked with `-inf`. Order-preserving models keep every
//! prediction: the top class of a row stays strictly on top, and no two classes change places; classes
//! whose results differ by less than 32 bits can show may come out equal, which [`Model::apply`] avoids.
//!
//! Nothing is written unchecked: the bytes are read back and run node by node on sample rows, and must
//! give what the model gives.

mod check;
mod forms;
mod graph;
mod interpreter;
mod proto;

use ordercal::{Model, ScoreKind};
use prost::Message;
use thiserror::Error;

use graph::{Graph, Value};

/// The largest difference between a probability from the graph and from the model.
pub const TOLERANCE: f32 = 1e-5;

/// Why a model cannot be written as ONNX.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// A form of model that has no graph.
    #[error(
        "models of the form `{form}` cannot be written as ONNX; those of ts, ets, diag, oi, op, vs, ms-odir, \
         dir-odir, svs, sms and unconstrained can"
    )]
    NoForm {
        /// The form.
        form: &'static str,
    },
    /// The graph and the model disagree.
    #[error("the graph does not pass its check, so nothing was written: {what}")]
    CheckFailed {
        /// Where.
        what: String,
    },
    /// The model cannot be applied to the sample rows.
    #[error("the model cannot be applied: {0}")]
    Model(#[from] ordercal::Error),
}

/// The bytes of an ONNX file for a model whose input are scores of the given kind, checked.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores};
///
/// let logits = array![[4.0_f32, 1.0], [0.5, 3.0], [2.0, 1.0]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &[0, 1, 1])?;
/// let fitted = Method::from_key("ts")?.fit(&data)?;
/// let bytes = ordercal_onnx::onnx_bytes(&fitted.model, ScoreKind::Logits)?;
/// assert!(!bytes.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the model has no such form, or its graph does not pass the check.
pub fn onnx_bytes(model: &Model, kind: ScoreKind) -> Result<Vec<u8>, OnnxError> {
    let classes = model.classes();
    let keep_order = model.order_preserving();
    let mut graph = Graph::default();
    let input = Value::input("scores");
    let rows = forms::read(&mut graph, &input, kind, classes);
    let logits = forms::logits(&mut graph, &model.to_parts(), &rows)?;
    forms::finish(&mut graph, &input, &rows, &logits, keep_order);
    let about = format!("Calibrates {kind} of {classes} classes");
    let metadata = [
        ("classes", classes.to_string()),
        ("kind", kind.to_string()),
        ("order_preserving", keep_order.to_string()),
    ];
    let bytes = graph.into_model(classes, &about, &metadata).encode_to_vec();
    check::check(&bytes, model, kind)?;
    Ok(bytes)
}

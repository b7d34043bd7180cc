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

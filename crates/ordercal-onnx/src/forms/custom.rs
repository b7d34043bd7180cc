//! A model of the user's own, which has no graph.

use ordercal::models::CustomModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for CustomModel {
    fn to_graph(&self, _: &mut Graph, _: &GraphScores) -> Result<Value, OnnxError> {
        Err(OnnxError::NotExportable)
    }
}

//! Temperature scaling: βx.

use ordercal::models::TsModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for TsModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        Ok(graph.scale(&scores.scores, self.inverse_temperature()))
    }
}

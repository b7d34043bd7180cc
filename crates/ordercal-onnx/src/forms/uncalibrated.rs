//! The identity.

use ordercal::models::UncalibratedModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for UncalibratedModel {
    fn to_graph(&self, _: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        Ok(scores.scores.clone())
    }
}

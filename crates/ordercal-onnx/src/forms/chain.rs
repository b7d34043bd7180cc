//! Chains: g(ln softmax(f(x))).

use ordercal::models::ChainModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for ChainModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let logits = self.first().to_graph(graph, scores)?;
        let logs = graph.log_softmax(&logits);
        let between = GraphScores::new(graph, logs, scores.classes);
        self.then().to_graph(graph, &between)
    }
}

//! Mixtures: ln Σ wᵢ softmax(fᵢ(x)) over the members fᵢ.

use ordercal::models::MixtureModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for MixtureModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let mut terms = Vec::new();
        for (weight, member) in self.members() {
            let logits = member.to_graph(graph, scores)?;
            let logs = graph.log_softmax(&logits);
            terms.push(graph.offset(&logs, weight.ln()));
        }
        let mixed = graph.log_sum_exp(&terms);
        Ok(scores.mask(graph, &mixed))
    }
}

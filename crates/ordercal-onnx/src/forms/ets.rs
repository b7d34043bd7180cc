//! Ensemble temperature scaling: ln(w₁ softmax(βx) + w₂ softmax(x) + w₃ uniform).

use ordercal::models::EtsModel;

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for EtsModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let [tempered, original, uniform] = self.weights();
        let mut terms = Vec::new();
        for (weight, beta) in [(tempered, self.inverse_temperature()), (original, 1.0)] {
            if weight > 0.0 {
                let logs = scores.tempered(graph, beta);
                terms.push(graph.offset(&logs, weight.ln()));
            }
        }
        if uniform > 0.0 {
            let count = scores.possible(graph);
            let log_count = graph.op("Log", &[&count]);
            let log_weight = graph.double(uniform.ln());
            terms.push(graph.sub(&log_weight, &log_count));
        }
        let mixed = graph.log_sum_exp(&terms);
        Ok(scores.mask(graph, &mixed))
    }
}

//! A logistic map per class: σ(a ln p − b ln(1 − p) + c).

use ordercal::models::LogisticModel;

use super::{ToGraph, one_vs_rest};
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for LogisticModel {
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let parts = self.to_parts();
        let [a, b, c] = [0, 1, 2].map(|offset| {
            let values: Vec<f64> = parts
                .coefficients
                .iter()
                .copied()
                .skip(offset)
                .step_by(3)
                .collect();
            graph.doubles(&values, &[values.len()])
        });
        Ok(one_vs_rest::logits(
            graph,
            scores,
            parts.share,
            |graph, log_odds| {
                // ln p = −softplus(−ℓ), −ln(1 − p) = softplus(ℓ).
                let minus = graph.op("Neg", &[log_odds]);
                let minus_log_p = graph.softplus(&minus);
                let minus_log_rest = graph.softplus(log_odds);
                let from_p = graph.mul(&a, &minus_log_p);
                let from_rest = graph.mul(&b, &minus_log_rest);
                let z = graph.sub(&from_rest, &from_p);
                let z = graph.add(&z, &c);
                graph.logistic(&z)
            },
        ))
    }
}

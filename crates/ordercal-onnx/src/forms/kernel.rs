//! Kernel models: ln p + b + k(p)V, with k(p) the Gaussian kernel between √p and every centre.

use ordercal::models::{KernelModel, KernelParts};

use super::ToGraph;
use crate::OnnxError;
use crate::graph::{Graph, Value};
use crate::scores::GraphScores;

impl ToGraph for KernelModel {
    /// Kernel values and the products are in 32 bits, as in the library.
    fn to_graph(&self, graph: &mut Graph, scores: &GraphScores) -> Result<Value, OnnxError> {
        let parts = self.to_parts();
        let classes = parts.classes;
        let count = parts.centres.len() / classes;
        let logs = graph.log_softmax(&scores.scores);
        let lowest = graph.double(f64::from(KernelParts::LOWEST_LOG));
        // Masked classes read that as well.
        let logs = graph.op("Max", &[&logs, &lowest]);
        let narrow = graph.cast_f32(&logs);
        let half = graph.float(0.5);
        let halves = graph.mul(&narrow, &half);
        let roots = graph.op("Exp", &[&halves]);
        let mut columns = vec![0.0; parts.centres.len()];
        for (centre, row) in parts.centres.chunks_exact(classes).enumerate() {
            for (class, &root) in row.iter().enumerate() {
                columns[class * count + centre] = root;
            }
        }
        let columns = graph.floats(&columns, &[classes, count]);
        let products = graph.op("MatMul", &[&roots, &columns]);
        let squares = graph.mul(&roots, &roots);
        let norms = graph.reduce("ReduceSum", &squares);
        let centre_norms: Vec<f32> = parts
            .centres
            .chunks_exact(classes)
            .map(|row| row.iter().map(|root| root * root).sum())
            .collect();
        let centre_norms = graph.floats(&centre_norms, &[count]);
        let sums = graph.add(&norms, &centre_norms);
        let two = graph.float(2.0);
        let doubled = graph.mul(&products, &two);
        let distances = graph.sub(&sums, &doubled);
        let zero = graph.float(0.0);
        let distances = graph.op("Max", &[&distances, &zero]);
        let scale = graph.float(-parts.scale as f32);
        let exponents = graph.mul(&distances, &scale);
        let values = graph.op("Exp", &[&exponents]);
        let coefficients = graph.floats(&parts.coefficients, &[count, classes]);
        let changes = graph.op("MatMul", &[&values, &coefficients]);
        let (logs, changes) = (graph.cast_f64(&narrow), graph.cast_f64(&changes));
        let sum = graph.add(&logs, &changes);
        let bias: Vec<f64> = parts.bias.iter().map(|&b| f64::from(b)).collect();
        let bias = graph.doubles(&bias, &[classes]);
        let sum = graph.add(&sum, &bias);
        Ok(scores.mask(graph, &sum))
    }
}

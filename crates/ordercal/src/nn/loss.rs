//! The data of a fit: what a network reads and what its outputs are compared with.

use super::mlp::Shape;

/// The weighted NLL of a network on N rows.
pub(crate) struct NetworkLoss {
    pub shape: Shape,
    /// The network's inputs, row by row.
    pub inputs: Vec<f32>,
    pub classes: usize,
    pub head: Head,
    /// Row weights with mean 1.
    pub weights: Option<Vec<f64>>,
}

/// What the outputs of a network are.
pub(crate) enum Head {
    /// Multipliers of the gaps between sorted scores.
    Sorted(SortedTargets),
    /// The logits.
    Free(FreeTargets),
}

/// Gaps and labels in sorted space.
pub(crate) struct SortedTargets {
    /// The sorted scores in units of the inputs, N×K, if they are not the inputs themselves.
    pub sorted: Option<Vec<f32>>,
    /// The logit per unit of the inputs where the network's output is 0.
    pub unit: f32,
    /// The position of each row's label in the sorted row.
    pub label_ranks: Vec<u32>,
    /// How many classes of each row are not masked.
    pub possible: Vec<u32>,
}

/// Labels in class order.
pub(crate) struct FreeTargets {
    /// The scores, N×K: `-inf` marks masked classes.
    pub scores: Vec<f32>,
    pub labels: Vec<u32>,
}

impl NetworkLoss {
    pub(super) fn rows(&self) -> usize {
        self.inputs.len() / self.shape.inputs()
    }

    pub(super) fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[row])
    }

    pub(super) fn total_weight(&self, rows: &[u32]) -> f64 {
        let sum: f64 = rows.iter().map(|&row| self.weight(row as usize)).sum();
        sum.max(f64::MIN_POSITIVE)
    }
}

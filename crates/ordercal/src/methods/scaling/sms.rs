//! Structured matrix scaling: matrix scaling shrunk to temperature scaling (Berta et al., 2025).

use super::svs::Structured;

/// Structured matrix scaling: softmax(z(I + D) + b) on the log-probabilities z after temperature scaling, with a K×K matrix
/// D and K biases b. Predictions may change.
///
/// As [`Svs`](crate::Svs), with a full matrix: D and b minimise the
/// mean NLL + λ K/n (Σ D_ii² + ‖b‖²) + λ K(K−1)/n Σ_{i≠j} D_ij². The off-diagonal weights are many and are penalised more,
/// so the method can be used with any number of rows and classes. A fit stores three numbers per score and about 30 per
/// weight: half a gigabyte for 25,000 rows of 1000 classes.
pub type Sms = Structured<true>;

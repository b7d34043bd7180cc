//! Structured matrix scaling: matrix scaling shrunk to temperature scaling (Berta et al., 2025).

use serde::{Deserialize, Serialize};

use super::svs::structured;
use crate::data::Dataset;
use crate::error::Result;
use crate::methods::{Calibrator, Describe, Fitted, check_non_negative};
use crate::models::LinearShape;
use crate::optim::Lbfgs;
use crate::watch::Watch;

/// Structured matrix scaling: softmax(z(I + D) + b) on the log-probabilities z after temperature scaling, with a K×K matrix
/// D and K biases b. Predictions may change.
///
/// As [`Svs`](crate::Svs), with a full matrix: D and b minimise the
/// mean NLL + λ K/n (Σ D_ii² + ‖b‖²) + λ K(K−1)/n Σ_{i≠j} D_ij². The off-diagonal weights are many and are penalised more,
/// so the method can be used with any number of rows and classes. A fit stores three numbers per score and about 30 per
/// weight: half a gigabyte for 25,000 rows of 1000 classes.
///
/// E. Berta, D. Holzmüller, M. I. Jordan, F. Bach: *Structured Matrix Scaling for Multi-Class Calibration*,
/// 2025.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Sms, Svs};
///
/// let logits = array![[2.0_f32, 1.0, 0.0], [1.5, 1.0, 0.3], [0.0, 2.0, 1.0], [1.0, 0.9, 2.0]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 0, 1, 0])?;
/// let vector = Method::from(Svs::default()).fit(&data)?;
/// let matrix = Method::from(Sms::default()).fit(&data)?;
/// assert!(matrix.report.loss <= vector.report.loss + 1e-6);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sms {
    /// λ ≥ 0, the weight of the penalty.
    pub lambda: f64,
    /// The settings of the optimiser.
    pub optimizer: Lbfgs,
}

impl Default for Sms {
    fn default() -> Self {
        Self {
            lambda: 1.0,
            optimizer: Lbfgs::default(),
        }
    }
}

impl Sms {
    /// Sets the weight of the penalty.
    #[must_use]
    pub fn with_lambda(mut self, lambda: f64) -> Self {
        self.lambda = lambda;
        self
    }

    /// Sets the optimiser.
    #[must_use]
    pub fn with_optimizer(mut self, optimizer: Lbfgs) -> Self {
        self.optimizer = optimizer;
        self
    }
}

impl Describe for Sms {
    const BRIEF: &'static str =
        "structured matrix scaling: penalties shrink it to temperature scaling";
    const PYTHON_CLASS: &'static str = "StructuredMatrixScaling";
    const READS_LOGARITHMS: bool = true;
}

impl Calibrator for Sms {
    fn validate(&self) -> Result<()> {
        check_non_negative("lambda", self.lambda)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        structured(
            data,
            LinearShape::Matrix,
            self.lambda,
            &self.optimizer,
            watch,
        )
    }
}

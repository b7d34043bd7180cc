//! Structured vector scaling: vector scaling shrunk to temperature scaling (Berta et al., 2025).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::linear::{LinearFit, Ridge};
use crate::methods::rows::{FitRows, Rows};
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, Fitted, check_non_negative};
use crate::models::{Features, LinearShape};
use crate::optim::Lbfgs;
use crate::watch::{Unwatched, Watch};

/// Structured vector scaling: softmax((1 + v) ⊙ z + b) on the log-probabilities z after temperature scaling, with K weights v
/// and K biases b. Predictions may change.
///
/// The temperature is fitted first, without a penalty. Then z = ln((1 − s)·softmax(βx) + s/K) with s = 1/(n + 1), where n is
/// the total weight of the rows, and v and b minimise the mean NLL + λ K/n (‖v‖² + ‖b‖²). The penalty decreases with the
/// number of rows per class.
///
/// E. Berta, D. Holzmüller, M. I. Jordan, F. Bach: *Structured Matrix Scaling for Multi-Class Calibration*,
/// 2025.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Svs};
///
/// let logits = array![[2.0_f32, 1.0, 0.0], [1.5, 1.0, 0.3], [0.0, 2.0, 1.0], [1.0, 0.9, 2.0]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 0, 1, 0])?;
/// let strong = Method::from(Svs::default().with_lambda(1e6)).fit(&data)?;
/// let weak = Method::from(Svs::default().with_lambda(1e-2)).fit(&data)?;
/// assert!(weak.report.nll_after < strong.report.nll_after);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Svs {
    /// λ ≥ 0, the weight of the penalty.
    pub lambda: f64,
    /// The settings of the optimiser.
    pub optimizer: Lbfgs,
}

impl Default for Svs {
    fn default() -> Self {
        Self {
            lambda: 1.0,
            optimizer: Lbfgs::default(),
        }
    }
}

impl Svs {
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

impl Describe for Svs {
    const BRIEF: &'static str =
        "structured vector scaling: penalties shrink it to temperature scaling";
    const PYTHON_CLASS: &'static str = "StructuredVectorScaling";
    const READS_LOGARITHMS: bool = true;

    fn by_sums(&self) -> Option<&dyn FitRows> {
        Some(self)
    }
}

impl Calibrator for Svs {
    fn validate(&self) -> Result<()> {
        check_non_negative("lambda", self.lambda)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.fit_rows(data, watch)
    }
}

impl FitRows for Svs {
    fn fit_rows(&self, rows: &dyn Rows, watch: &dyn Watch) -> Result<Fitted> {
        structured(
            rows,
            LinearShape::Vector,
            self.lambda,
            &self.optimizer,
            watch,
        )
    }
}

/// The fit of [`Svs`] and [`Sms`](crate::Sms).
pub(super) fn structured(
    data: &dyn Rows,
    shape: LinearShape,
    lambda: f64,
    optimizer: &Lbfgs,
    watch: &dyn Watch,
) -> Result<Fitted> {
    let (beta, start) = fit_beta(data, &Unwatched)?;
    let (rows, classes) = (data.total_weight(), data.classes() as f64);
    let per_class = lambda * classes / rows;
    let fit = LinearFit {
        features: Features::Mixed {
            beta,
            share: 1.0 / (rows + 1.0),
        },
        shape,
        ridge: Ridge {
            bias: per_class,
            diagonal: per_class,
            off_diagonal: per_class * (classes - 1.0),
        },
        optimizer,
    };
    fit.run(data, &start, watch)
}

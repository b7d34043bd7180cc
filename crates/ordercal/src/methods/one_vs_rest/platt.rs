//! Platt scaling, one class against the rest.

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::binary::{check_smoothing, fit_maps, fitted, uniform_weight};
use crate::methods::likelihood::plain_nll;
use crate::methods::regression::{Examples, Targets, regress};
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::LogisticModel;
use crate::watch::Watch;

/// Platt scaling: σ(aℓ + c) of each class's log-odds ℓ = ln(p/(1 − p)); then rows are normalised. Predictions may change.
///
/// a and c are learned by logistic regression of the class against the rest, with Platt's targets by default. For two
/// classes there is a single regression, on ℓ = x₂ − x₁. The normalised row is mixed with the uniform distribution of weight
/// `smoothing`/(n + 1) for n rows.
///
/// J. Platt: *Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood
/// Methods*, 1999.
///
/// ```
/// use ndarray::array;
/// use ordercal::methods::Targets;
/// use ordercal::{Dataset, Method, Platt, ScoreKind, Scores};
///
/// let logits = array![[3.0_f32, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 4.0], [1.0, 0.0]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 1, 0, 1, 0])?;
/// let fitted = Method::from(Platt::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// let method = Platt::default().with_targets(Targets::Labels).with_smoothing(0.5);
/// assert_eq!((method.targets, method.smoothing), (Targets::Labels, 0.5));
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Platt {
    /// The targets of the regression.
    pub targets: Targets,
    /// The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.
    pub smoothing: f64,
}

impl Default for Platt {
    fn default() -> Self {
        Self {
            targets: Targets::Platt,
            smoothing: 1.0,
        }
    }
}

impl Platt {
    /// Sets the targets of the regression.
    #[must_use]
    pub fn with_targets(mut self, targets: Targets) -> Self {
        self.targets = targets;
        self
    }

    /// Sets the smoothing.
    #[must_use]
    pub fn with_smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }
}

impl Describe for Platt {
    const BRIEF: &'static str = "a logistic curve per class, one against the rest";
    const PYTHON_CLASS: &'static str = "Platt";
}

impl Calibrator for Platt {
    fn validate(&self) -> Result<()> {
        check_smoothing(self.smoothing)
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let before = plain_nll(data);
        let coefficients = fit_maps(data, before, watch, |cases| {
            let examples = Examples::of_log_odds(cases, self.targets);
            let ([a, _, c], _) = regress(&examples, [true, false]);
            [a, a, c]
        })?;
        let weight = uniform_weight(self.smoothing, data);
        let model = LogisticModel::new(data.classes(), weight, coefficients);
        Ok(fitted(model, data, before))
    }
}

//! Matrix scaling and Dirichlet calibration with off-diagonal and intercept regularisation (Kull et al., 2019).

use serde::{Deserialize, Serialize};

use super::linear::{Features, LinearModel, Plan, Ridge, Shape, check_weight};
use super::ts;
use crate::data::Dataset;
use crate::error::Result;
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::traits::{Calibrator, FitReport, Unwatched, Watch};

/// Matrix scaling: softmax(Wx + b) on the logits x, with ODIR. Predictions may change.
///
/// Minimises mean NLL + λ/(K(K−1)) Σ_{i≠j} W_ij² + μ/K Σ b_i². The penalties are means over weights and
/// biases, not sums, so that λ and μ transfer across numbers of classes; the diagonal is free. (They do not
/// transfer all the way: the number of weights grows with K², and so does what they can overfit. Choose λ
/// for your data.) The fit starts at temperature scaling, W = βI. [`select::choose`](crate::select::choose) picks λ and μ by cross validation among
/// [`grid`](Self::grid).
///
/// M. Kull et al.: *Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
/// Dirichlet calibration*, NeurIPS 2019.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, MsOdir, ScoreKind, Scores};
///
/// let logits = array![[2.0_f32, 1.0], [1.5, 1.0], [0.0, 2.0], [1.0, 0.9]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 1, 1, 0])?;
/// let fitted = Method::from(MsOdir::default().with_lambda(1.0).with_mu(1.0)).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MsOdir {
    /// λ: the weight of the mean square of the weights off the diagonal.
    pub lambda: f64,
    /// μ: the weight of the mean square of the biases.
    pub mu: f64,
    /// The shift of a row before it is weighted.
    pub input: InputKind,
    /// The optimiser's settings.
    pub optimizer: Lbfgs,
}

/// Dirichlet calibration: softmax(W ln p + b) on the log-probabilities ln p = ln softmax(x), with ODIR.
/// Predictions may change.
///
/// The same objective as [`MsOdir`]. If the scores of each class are Dirichlet distributed, this is the
/// form of the true map. A row's shift does not matter, since ln p does not change with it.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, DirOdir, Method, ScoreKind, Scores};
///
/// let probs = array![[0.9_f32, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]];
/// let data = Dataset::new(Scores::new(ScoreKind::Probs, probs.view())?, &[0, 1, 1, 0])?;
/// let fitted = Method::from(DirOdir::default()).fit(&data)?;
/// assert!(fitted.report.nll_after < fitted.report.nll_before);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DirOdir {
    /// λ: the weight of the mean square of the weights off the diagonal.
    pub lambda: f64,
    /// μ: the weight of the mean square of the biases.
    pub mu: f64,
    /// The optimiser's settings.
    pub optimizer: Lbfgs,
}

/// Weights that did no harm on any of the sets measured, two of 10 and two of 100 classes. The best λ is
/// smaller for fewer classes and larger for more, see `grid`.
const LAMBDA: f64 = 1e4;
const MU: f64 = 0.1;

/// The weights that cross validation looks at.
const LAMBDAS: [f64; 10] = [1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];
const MUS: [f64; 3] = [1e-3, 1e-1, 1e1];

impl Default for MsOdir {
    fn default() -> Self {
        Self {
            lambda: LAMBDA,
            mu: MU,
            input: InputKind::Raw,
            optimizer: optimizer(),
        }
    }
}

impl Default for DirOdir {
    fn default() -> Self {
        Self {
            lambda: LAMBDA,
            mu: MU,
            optimizer: optimizer(),
        }
    }
}

fn optimizer() -> Lbfgs {
    Lbfgs::default().with_max_iterations(200)
}

macro_rules! odir_setters {
    ($method:ident) => {
        impl $method {
            /// Sets the weight of the penalty off the diagonal.
            #[must_use]
            pub fn with_lambda(mut self, lambda: f64) -> Self {
                self.lambda = lambda;
                self
            }

            /// Sets the weight of the penalty on the biases.
            #[must_use]
            pub fn with_mu(mut self, mu: f64) -> Self {
                self.mu = mu;
                self
            }

            /// Sets the optimiser.
            #[must_use]
            pub fn with_optimizer(mut self, optimizer: Lbfgs) -> Self {
                self.optimizer = optimizer;
                self
            }

            /// This method with λ from 0.1 to 1e8 in steps of 10 and μ of 0.001, 0.1 and 10: candidates for
            /// [`select::choose`](crate::select::choose). The more classes, the larger the best λ.
            pub fn grid(&self) -> Vec<Self> {
                let pairs = LAMBDAS
                    .iter()
                    .flat_map(|&lambda| MUS.map(|mu| (lambda, mu)));
                pairs
                    .map(|(lambda, mu)| self.clone().with_lambda(lambda).with_mu(mu))
                    .collect()
            }
        }
    };
}

odir_setters!(MsOdir);
odir_setters!(DirOdir);

impl MsOdir {
    /// Sets the shift of a row before it is weighted.
    #[must_use]
    pub fn with_input(mut self, input: InputKind) -> Self {
        self.input = input;
        self
    }
}

impl Calibrator for MsOdir {
    type Model = LinearModel;

    fn key(&self) -> &'static str {
        "ms-odir"
    }

    fn validate(&self) -> Result<()> {
        check_weight("lambda", self.lambda)?;
        check_weight("mu", self.mu)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(LinearModel, FitReport)> {
        let weights = (self.lambda, self.mu);
        fit(data, self.input, weights, &self.optimizer, watch)
    }
}

impl Calibrator for DirOdir {
    type Model = LinearModel;

    fn key(&self) -> &'static str {
        "dir-odir"
    }

    fn validate(&self) -> Result<()> {
        check_weight("lambda", self.lambda)?;
        check_weight("mu", self.mu)?;
        self.optimizer.validate()
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<(LinearModel, FitReport)> {
        let weights = (self.lambda, self.mu);
        fit(data, InputKind::LogSoftmax, weights, &self.optimizer, watch)
    }
}

fn fit(
    data: &Dataset<'_>,
    input: InputKind,
    (lambda, mu): (f64, f64),
    optimizer: &Lbfgs,
    watch: &dyn Watch,
) -> Result<(LinearModel, FitReport)> {
    let (beta, start) = ts::fit_beta(data, &Unwatched)?;
    let classes = data.classes() as f64;
    let plan = Plan {
        features: Features::tempered(input, beta, data),
        shape: Shape::Matrix,
        ridge: Ridge {
            bias: mu / classes,
            diagonal: 0.0,
            // The features are β times what W weights: W = β(I + D).
            off_diagonal: (lambda * beta * beta / (classes * (classes - 1.0))).min(f64::MAX),
        },
        optimizer,
    };
    plan.fit(data, &start, watch)
}

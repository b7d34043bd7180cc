//! Off-diagonal and intercept regularisation (ODIR), for `ms-odir` and `dir-odir`.

use super::{LinearFit, Ridge, tempered};
use crate::data::Dataset;
use crate::error::Result;
use crate::methods::Fitted;
use crate::methods::temperature::fit_beta;
use crate::models::LinearShape;
use crate::nn::input::InputKind;
use crate::optim::Lbfgs;
use crate::watch::{Unwatched, Watch};

/// The default λ. It did not worsen the NLL on any of four datasets, two of 10 and two of 100 classes. The best λ increases
/// with the number of classes.
pub(crate) const LAMBDA: f64 = 1e4;
/// The default μ.
pub(crate) const MU: f64 = 0.1;

/// The λ and μ that a search tries.
pub(crate) const LAMBDAS: [f64; 10] = [1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];
pub(crate) const MUS: [f64; 3] = [1e-3, 1e-1, 1e1];

/// Implements what ODIR methods share. `$input` may depend on the hyperparameters,
/// `$settings`. A further hyperparameter follows with its default.
macro_rules! odir_method {
    (
        $method:ident, $brief:literal, $python:literal, |$settings:ident| $input:expr
        $(, $field:ident: $default:expr)?
    ) => {
        impl Default for $method {
            fn default() -> Self {
                Self {
                    lambda: odir::LAMBDA,
                    mu: odir::MU,
                    $($field: $default,)?
                    optimizer: Lbfgs::default().with_max_iterations(200),
                }
            }
        }

        impl Describe for $method {
            const BRIEF: &'static str = $brief;
            const PYTHON_CLASS: &'static str = $python;
            const READS_LOGARITHMS: bool = true;

            fn space(&self, _classes: usize) -> Vec<Self> {
                self.grid()
            }

            fn cheaper(&self) -> Self {
                let mut cheap = self.clone();
                cheap.optimizer.max_iterations = cheap.optimizer.max_iterations.min(15);
                cheap
            }
        }

        impl Calibrator for $method {
            fn validate(&self) -> Result<()> {
                check_non_negative("lambda", self.lambda)?;
                check_non_negative("mu", self.mu)?;
                self.optimizer.validate()
            }

            fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
                let ($settings, weights) = (self, (self.lambda, self.mu));
                odir::fit_odir(data, $input, weights, &$settings.optimizer, watch)
            }
        }

        impl $method {
            /// Candidates for [`select::choose`](crate::select::choose): this method with λ from 0.1 to 1e8 in factors of
            /// 10, and μ of 0.001, 0.1 and 10. The best λ increases with the number of classes.
            pub fn grid(&self) -> Vec<Self> {
                let pairs = odir::LAMBDAS
                    .iter()
                    .flat_map(|&lambda| odir::MUS.map(|mu| (lambda, mu)));
                pairs
                    .map(|(lambda, mu)| self.clone().with_lambda(lambda).with_mu(mu))
                    .collect()
            }
        }
    };
}

pub(crate) use odir_method;

/// Fits a full matrix and biases to the scores after a shift.
pub(crate) fn fit_odir(
    data: &Dataset<'_>,
    input: InputKind,
    (lambda, mu): (f64, f64),
    optimizer: &Lbfgs,
    watch: &dyn Watch,
) -> Result<Fitted> {
    let (beta, start) = fit_beta(data, &Unwatched)?;
    let classes = data.classes() as f64;
    let fit = LinearFit {
        features: tempered(input, beta, data),
        shape: LinearShape::Matrix,
        ridge: Ridge {
            bias: mu / classes,
            diagonal: 0.0,
            // The penalty is on W = β(I + D), because the features are scaled by β.
            off_diagonal: (lambda * beta * beta / (classes * (classes - 1.0))).min(f64::MAX),
        },
        optimizer,
    };
    fit.run(data, &start, watch)
}

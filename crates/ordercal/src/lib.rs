//! Calibrate the probabilities of any multi-class classifier without changing its predictions.

mod calibrate;
mod data;
mod error;
mod math;
pub mod nn;
pub mod optim;
pub mod rank;
mod real;
mod rng;
mod traits;

pub use calibrate::{Diag, DiagModel, Fitted, Method, Model, Network, NetworkModel, Oi, Op, Ts, TsModel, Uncalibrated, Unconstrained};
pub use calibrate::*;
pub use data::{Dataset, NORMALISATION_TOLERANCE, ScoreArray, ScoreKind, Scores};
pub use error::{Error, Result};
pub use real::Real;
pub use rng::Rng;
pub use traits::{Calibrator, FitReport, Progress, Transform, Unwatched, Watch};

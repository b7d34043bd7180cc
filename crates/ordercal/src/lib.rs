//! Calibrate the probabilities of any multi-class classifier without changing its predictions.
//!
//! The predictions to which a network assigns a probability of 0.98 may be right only 85 times in 100. From a few
//! thousand held-out scores and labels, ordercal learns a map after which 0.98 means 98 in 100. The maps belong to the
//! *intra order-preserving* function families of Rahimi et al. (NeurIPS 2020): whatever is learned, the ranking of the
//! classes in every row stays the same, ties included, also after rounding to the float type of the result.
//!
//! ```
//! use ndarray::array;
//! use ordercal::{Dataset, Method, Oi, ScoreKind, Scores};
//!
//! // Held-out logits of a classifier, one row per example, and the true classes.
//! let logits = array![[4.0_f32, 1.0, 0.0], [0.5, 3.0, 1.0], [2.5, 0.0, 2.0], [0.0, 1.0, 3.5]];
//! let calib = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 1, 2, 2])?;
//!
//! let method = Method::from(Oi::default().with_hidden([10]));
//! let fitted = method.fit(&calib)?;
//!
//! // Any other logits of the same classifier.
//! let fresh = Scores::new(ScoreKind::Logits, array![[1.0_f32, 3.0, 2.0]])?;
//! let probs = fitted.model.apply::<f32>(&fresh, ScoreKind::Probs)?;
//! assert!((probs.sum() - 1.0).abs() < 1e-6);
//! assert!(probs[[0, 1]] > probs[[0, 2]] && probs[[0, 2]] > probs[[0, 0]]);
//! # Ok::<(), ordercal::Error>(())
//! ```
//!
//! # Where to look
//! - [`Dataset`] and [`Scores`]: the input, validated once.
//! - [`Method`]: hyperparameters and [`fit`](Method::fit); one struct per method, [`Method::all`] lists them.
//!   [`Ordered`] makes any other method order-preserving.
//! - [`Model`]: a fitted calibration map, and [`apply`](Model::apply).
//! - [`metrics`]: how good probabilities are, with confidence intervals and tests.
//! - [`decide`]: thresholds and prediction sets with a guarantee; [`decompose`](decompose()): which part of the NLL is
//!   miscalibration.
//! - [`select`]: choosing among methods and hyperparameters by cross validation.
//! - [`compare`]: methods fitted on calibration rows and measured on test rows.
//! - [`curve`]: metrics against the number of calibration rows, or against a penalty.
//! - [`grouped`]: a calibrator per group of rows, shrunk towards that of all rows.
//! - [`monitor`]: a sequential test of whether a stream is still calibrated.
//! - [`diagnose`]: warnings about data, fits and evaluations.
//! - [`Watch`]: progress and cancellation.
//! - [`Calibrator`] and [`Transform`]: traits for a method of your own; [`Method::custom`] makes a [`Method`] of it, and
//!   [`keep_order`] projects any probabilities onto the order of the scores.
//! - [`rank`]: sorting, ties, and rounding that keeps the order.
//!
//! # Instruction sets
//! Inner loops are compiled for AVX-512, AVX2 and the target's baseline, and the best that the processor has is used.
//! The environment variable `ORDERCAL_SIMD` (`portable`, `avx2` or `avx512`) sets an upper limit. Results are the
//! same bytes at every level; only matrix products may differ in the last digits between processors.

// Tests compare floats exactly where exact results are promised.
#![cfg_attr(test, allow(clippy::float_cmp))]

pub mod combine;
pub mod compare;
pub mod curve;
mod data;
pub mod decide;
mod decompose;
pub mod diagnose;
mod error;
pub mod grouped;
#[doc(hidden)]
pub mod kernels;
mod math;
pub mod memory;
pub mod methods;
pub mod metrics;
pub mod models;
pub mod monitor;
mod nn;
pub mod optim;
pub mod prelude;
pub mod rank;
mod real;
mod registry;
mod rng;
pub mod select;
mod watch;
pub mod words;

pub use half;
pub use ndarray;

pub use combine::{Auto, AutoEffort, AutoFree, keep_order};
pub use data::{
    Dataset, Fingerprint, NORMALISATION_TOLERANCE, ScoreArray, ScoreKind, Scores, match_class_names,
};
pub use decompose::{Decomposition, decompose};
pub use error::{Error, Result};
pub use methods::listed::*;
pub use methods::{Calibrator, Estimate, FitReport, Fitted};
pub use models::{Model, Transform};
pub use nn::input::InputKind;
pub use real::Real;
pub use registry::{CustomMethod, Method, Ordered};
pub use rng::Rng;
pub use watch::{Progress, Unwatched, Watch, report_progress};

//! Scores, labels and weights, validated once on construction, and the folds that rows are divided into.

mod array;
mod dataset;
mod fingerprint;
mod folds;
mod kind;
mod names;
mod scores;

pub use array::ScoreArray;
pub use dataset::Dataset;
pub(crate) use dataset::{check_labels, check_weights};
pub use fingerprint::Fingerprint;
pub use folds::Folds;
pub use kind::ScoreKind;
pub use names::match_class_names;
pub use scores::{NORMALISATION_TOLERANCE, Scores};

//! Decisions with a guarantee: how sure is sure enough, and which classes to keep.
//!
//! [`threshold()`]: the confidence above which at most a given share of the predictions is wrong. [`PredictionSets`]:
//! sets of classes that contain the label as often as asked. Both promises hold for a finite number of rows and for any
//! classifier, if the rows to come are drawn from the same distribution as the labelled ones, and if those were not
//! used to train or calibrate the classifier.

mod binomial;
mod sets;
mod threshold;

pub use sets::{PredictionSets, SetMethod, SetReport};
pub use threshold::{Threshold, ThresholdOptions, threshold};

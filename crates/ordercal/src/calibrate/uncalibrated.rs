//! The scores as they are: the line that every table starts with.

use serde::{Deserialize, Serialize};

use super::apply::Block;
use super::ts;
use crate::data::Dataset;
use crate::error::Result;
use crate::optim::StopReason;
use crate::rank::Elementwise;
use crate::traits::{Calibrator, FitReport, Transform, Watch};

/// Leaves scores as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Uncalibrated {}

/// The identity.
#[derive(Debug, Clone, PartialEq)]
pub struct UncalibratedModel {
    classes: usize,
}

impl UncalibratedModel {
    /// The identity for rows of `classes` scores.
    pub fn new(classes: usize) -> Self {
        Self { classes }
    }
}

impl Transform for UncalibratedModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn reads_order(&self) -> bool {
        false
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise {
            min_slope: 1.0,
            max_slope: 1.0,
            max_offset: 0.0,
        })
    }

    fn logits(&self, block: &Block<'_>, logits: &mut [f64]) {
        for (logit, &score) in logits.iter_mut().zip(block.scores) {
            *logit = f64::from(score);
        }
    }
}

impl Calibrator for Uncalibrated {
    type Model = UncalibratedModel;

    fn key(&self) -> &'static str {
        "uncalibrated"
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn fit(&self, data: &Dataset<'_>, _: &dyn Watch) -> Result<(UncalibratedModel, FitReport)> {
        let nll = ts::plain_nll(data);
        let report = FitReport {
            iterations: 0,
            evaluations: 1,
            loss: nll,
            nll_before: nll,
            nll_after: nll,
            stop: StopReason::Nothing,
            notes: Vec::new(),
        };
        let classes = data.classes();
        Ok((UncalibratedModel { classes }, report))
    }
}

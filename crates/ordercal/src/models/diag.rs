//! One increasing function f̄ for all classes, tabulated on a grid.

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_classes};
use crate::error::Result;
use crate::math::grid::{Grid, Increasing};
use crate::math::tile::{self, Lanes};
use crate::nn::input::InputKind;
use crate::rank::Elementwise;

/// A fitted increasing function f̄ with f̄(0) = 0: the logits are f̄(x_k − shift), with the same f̄ for all K classes.
///
/// f̄′ is linear between the nodes of an even grid and constant outside, so f̄ is piecewise quadratic.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagModel {
    classes: usize,
    input: InputKind,
    range: (f64, f64),
    slopes: Vec<f64>,
    function: Increasing,
    /// The tabulated value at 0, which is subtracted so that f̄(0) = 0.
    origin: f64,
    elementwise: Elementwise,
}

/// The settings in a model file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiagSettings {
    classes: usize,
    input: InputKind,
    range: (f64, f64),
}

impl DiagModel {
    /// Builds f̄ from its slopes at evenly spaced nodes from `low` to `high`; outside this range f̄ is linear.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if there are fewer than two slopes, a slope is not positive, or the
    /// range is empty.
    pub fn from_slopes(
        classes: usize,
        input: InputKind,
        (low, high): (f64, f64),
        slopes: Vec<f64>,
    ) -> Result<Self> {
        check_classes(classes)?;
        let good = low < high && low.is_finite() && high.is_finite();
        check(
            good,
            "range",
            format!("{low}..{high}"),
            "two finite numbers in order",
        )?;
        check(slopes.len() >= 2, "slopes", slopes.len(), "at least 2")?;
        if let Some(slope) = slopes.iter().find(|s| !(**s > 0.0 && s.is_finite())) {
            check(false, "slopes", slope, "positive numbers")?;
        }
        Ok(Self::new(classes, input, (low, high), slopes))
    }

    pub(crate) fn new(
        classes: usize,
        input: InputKind,
        range: (f64, f64),
        slopes: Vec<f64>,
    ) -> Self {
        let grid = Grid::new(range.0, range.1, slopes.len() - 1);
        let function = Increasing::new(grid, &slopes);
        let origin = function.at(0.0);
        let elementwise = Elementwise {
            min_slope: slopes.iter().copied().fold(f64::INFINITY, f64::min),
            max_slope: slopes.iter().copied().fold(0.0, f64::max),
            // The ends of the grid, and ln K: a row's shift lies at most that far outside the range of its scores.
            max_offset: range.0.abs() + range.1.abs() + (classes as f64).ln(),
        };
        Self {
            classes,
            input,
            range,
            slopes,
            function,
            origin,
            elementwise,
        }
    }

    /// f̄ at a score from which the row's shift was subtracted, see [`input`](Self::input).
    pub fn function(&self, score: f64) -> f64 {
        self.function.at(score) - self.origin
    }

    /// The shift that is subtracted from a row before f̄ is applied.
    pub fn input(&self) -> InputKind {
        self.input
    }

    /// The range of the grid; outside it f̄ is linear.
    pub fn range(&self) -> (f64, f64) {
        self.range
    }

    /// f̄′ at the nodes of the grid.
    pub fn slopes(&self) -> &[f64] {
        &self.slopes
    }
}

impl Form for DiagModel {
    fn classes(&self) -> usize {
        self.classes
    }

    fn order_preserving(&self) -> bool {
        true
    }

    fn reads_order(&self) -> bool {
        self.input.needs_order()
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(self.elementwise)
    }

    fn tile_logits(&self, scores: &[Lanes<f32>], logits: &mut [Lanes<f64>]) -> bool {
        let mut shifts = [0.0; tile::LANES];
        match self.input {
            InputKind::Raw => {}
            InputKind::LogSoftmax => tile::log_sums(scores, &mut shifts),
            // It needs the order of the classes.
            InputKind::Centred => return false,
        }
        self.function
            .read_tile(scores, &shifts, self.origin, logits);
        true
    }

    fn function(&self, score: f64) -> Option<f64> {
        Some(DiagModel::function(self, score))
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        let mut shifts = vec![0.0; block.rows()];
        self.input
            .shifts(block.scores, block.classes, block.order, &mut shifts);
        self.function
            .read_rows(block.scores, &shifts, self.origin, logits);
    }
}

impl Stored for DiagModel {
    fn write(&self, parts: &mut ModelParts) -> Result<()> {
        parts.set(&DiagSettings {
            classes: self.classes,
            input: self.input,
            range: self.range,
        });
        parts.tensor("slopes", self.slopes.clone());
        Ok(())
    }

    fn read(parts: &mut PartsReader<'_>) -> Result<Self> {
        let slopes = parts.tensor("slopes")?;
        let settings: DiagSettings = parts.settings()?;
        Self::from_slopes(settings.classes, settings.input, settings.range, slopes)
    }
}

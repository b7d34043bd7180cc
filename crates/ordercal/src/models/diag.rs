//! One increasing function f̄ for all classes, read off a table.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use super::form::{Form, RowBlock};
use super::parts::{ModelParts, PartsReader, Stored};
use super::{check, check_classes};
use crate::error::Result;
use crate::math::grid::{Grid, Increasing, Places};
use crate::math::softmax;
use crate::nn::input::InputKind;
use crate::rank::Steady;

/// A fitted f̄.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagModel {
    classes: usize,
    input: InputKind,
    range: (f64, f64),
    slopes: Vec<f64>,
    function: Increasing,
    /// f̄(0) as the table has it, taken off so that f̄(0) = 0.
    origin: f64,
    steady: Steady,
}

/// What a file says of the model beside its slopes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiagSettings {
    classes: usize,
    input: InputKind,
    range: (f64, f64),
}

impl DiagModel {
    /// Builds f̄ from its slopes at even nodes over a range; outside it is a straight line.
    ///
    /// # Errors
    /// [`Error::InvalidPart`](crate::Error::InvalidPart) if a slope is not positive or the range is empty.
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
        let function = Increasing::new(grid, &slopes).with_exponentials();
        let origin = function.at(0.0);
        let steady = Steady {
            least_slope: slopes.iter().copied().fold(f64::INFINITY, f64::min),
            most_slope: slopes.iter().copied().fold(0.0, f64::max),
            // Besides the ends of the grid, a row's shift: it lies within its scores and ln K of them.
            reach: range.0.abs() + range.1.abs() + (classes as f64).ln(),
        };
        Self {
            classes,
            input,
            range,
            slopes,
            function,
            origin,
            steady,
        }
    }

    /// f̄ at a score (after the row's shift, see [`Diag::input`]).
    pub fn function(&self, score: f64) -> f64 {
        self.function.at(score) - self.origin
    }

    /// The shift of a row before f̄.
    pub fn input(&self) -> InputKind {
        self.input
    }

    /// The range of the grid; outside it f̄ is a straight line.
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
        needs_order(self.input)
    }

    fn steady(&self) -> Option<Steady> {
        Some(self.steady)
    }

    fn function(&self, score: f64) -> Option<f64> {
        Some(DiagModel::function(self, score))
    }

    fn logits(&self, block: &RowBlock<'_>, logits: &mut [f64]) {
        self.by_groups(block, logits, |scores, shifts, places, logits| {
            self.function
                .read_all(scores, shifts, self.origin, places, logits);
        });
    }

    fn odds(&self, block: &RowBlock<'_>, odds: &mut [f64]) {
        self.by_groups(block, odds, |scores, shifts, places, odds| {
            self.function.odds(scores, shifts, places, odds);
        });
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

impl DiagModel {
    /// Works on a few rows at a time: `make` gets their scores, their shifts and room for their places.
    fn by_groups(
        &self,
        block: &RowBlock<'_>,
        values: &mut [f64],
        make: impl Fn(&[f32], &[f64], &mut Places, &mut [f64]),
    ) {
        thread_local! {
            static ROOM: RefCell<Room> = RefCell::default();
        }
        let classes = self.classes;
        let group = softmax::group(classes);
        ROOM.with_borrow_mut(|room| {
            room.places.resize(group * classes);
            room.exponentials.resize(group * classes, 0.0);
            room.shifts.resize(group, 0.0);
            let groups = block.scores.chunks(group * classes);
            let groups = groups.zip(values.chunks_mut(group * classes));
            for (place, (scores, values)) in groups.enumerate() {
                let shifts = &mut room.shifts[..scores.len() / classes];
                match self.input {
                    InputKind::Raw => shifts.fill(0.0),
                    InputKind::LogSoftmax => {
                        softmax::log_sums(scores, classes, &mut room.exponentials, shifts);
                    }
                    InputKind::Centred => {
                        for (row, shift) in shifts.iter_mut().enumerate() {
                            let row = place * group + row;
                            *shift = row_shift(self.input, block.row(row), block.row_order(row));
                        }
                    }
                }
                make(scores, shifts, &mut room.places, values);
            }
        });
    }
}

/// What a thread needs to work on a few rows, kept from call to call: to make it anew would take longer than some
/// of the work.
#[derive(Default)]
struct Room {
    places: Places,
    exponentials: Vec<f32>,
    shifts: Vec<f64>,
}

/// Whether a row's shift can only be computed from its sorted scores: a plain sum depends on the order of the
/// classes.
pub(crate) fn needs_order(kind: InputKind) -> bool {
    kind == InputKind::Centred
}

pub(crate) fn row_shift(kind: InputKind, scores: &[f32], order: &[u32]) -> f64 {
    let descending = order.iter().map(|&class| scores[class as usize]);
    let possible = descending.take_while(|&score| score > f32::NEG_INFINITY);
    kind.shift(&possible.collect::<Vec<f32>>())
}

//! Functions of a single score, as `ts` and `diag` learn them.

use super::histogram::ScoreHistogram;
use crate::chart::{Frame, Legend, trace};
use crate::error::{Error, Result};
use crate::scale::Scale;
use crate::svg::{Canvas, END, SMALL, Svg};
use crate::theme::Theme;

/// One function.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformCurve {
    /// The name in the legend.
    pub name: String,
    /// The index of its colour and dashes.
    pub slot: usize,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Functions of a score in one panel.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformFigure {
    /// The title.
    pub title: String,
    /// The label of the x axis.
    pub input: String,
    /// The functions.
    pub curves: Vec<TransformCurve>,
    /// The histogram of the scores, if known.
    pub scores: Option<ScoreHistogram>,
}

impl TransformFigure {
    /// Draws it.
    ///
    /// # Errors
    /// [`Error::Empty`] if there is no point.
    pub fn draw(&self, theme: Theme) -> Result<Svg> {
        const WIDTH: f64 = 560.0;
        const LEFT: f64 = 70.0;
        const MAIN: f64 = 330.0;
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        if points().next().is_none() {
            return Err(Error::Empty);
        }
        let inner = WIDTH - LEFT - 20.0;
        let names = self
            .curves
            .iter()
            .map(|curve| (curve.name.as_str(), curve.slot));
        let legend = Legend::new(names, inner);
        let top = 34.0 + legend.height() + 8.0;
        let strip = if self.scores.is_some() {
            16.0 + 76.0
        } else {
            0.0
        };
        let mut canvas = Canvas::new(theme, WIDTH, top + MAIN + strip + 62.0, &self.title);
        canvas.strong((LEFT, 22.0), &self.title);
        legend.draw(&mut canvas, (LEFT, 32.0), false);
        let mut frame = Frame {
            left: LEFT,
            top,
            width: inner,
            height: MAIN,
            x: Scale::around(points().map(|p| p.0)),
            y: Scale::around(points().map(|p| p.1)),
        };
        frame.draw(&mut canvas, 6);
        frame.name_y(&mut canvas, "calibrated score");
        for curve in &self.curves {
            let places = curve.points.iter().map(|(x, y)| frame.at(*x, *y));
            trace(&mut canvas, curve.slot, places);
        }
        let note = match &self.scores {
            Some(scores) => {
                frame = scores.draw(&mut canvas, &frame, 76.0, "scores");
                format!("{} scores, logarithmic counts", scores.total())
            }
            None => "drawn without data".to_owned(),
        };
        frame.number_x(&mut canvas, &frame.x.ticks(6));
        frame.name_x(&mut canvas, 36.0, &self.input);
        let at = (frame.right(), frame.bottom() + 53.0);
        canvas.text(at, END, theme.muted, SMALL, &note);
        Ok(canvas.finish())
    }
}

//! Lines with bands for the range over repetitions, in one or more panels.

use crate::chart::{Frame, Legend, marker, polygon, trace};
use crate::error::{Error, Result};
use crate::scale::Scale;
use crate::svg::{Canvas, END, SMALL, Svg};
use crate::theme::Theme;

/// One point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinePoint {
    /// The position on the x axis.
    pub x: f64,
    /// The mean over the repetitions.
    pub y: f64,
    /// The smallest of them.
    pub low: f64,
    /// The largest of them.
    pub high: f64,
    /// The number of repetitions.
    pub repetitions: usize,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSeries {
    /// The name in the legend.
    pub name: String,
    /// The index of its colour, marker and dashes.
    pub slot: usize,
    /// The points, from left to right.
    pub points: Vec<LinePoint>,
}

/// One panel.
#[derive(Debug, Clone, PartialEq)]
pub struct LinePanel {
    /// The quantity on the y axis.
    pub name: String,
    /// The lines.
    pub series: Vec<LineSeries>,
}

/// Panels with a common x axis.
#[derive(Debug, Clone, PartialEq)]
pub struct LineFigure {
    /// The title.
    pub title: String,
    /// The label of the x axis.
    pub x_name: String,
    /// Whether the x axis is logarithmic.
    pub logarithmic: bool,
    /// The ticks of the x axis with their labels.
    pub x_ticks: Vec<(f64, String)>,
    /// The panels.
    pub panels: Vec<LinePanel>,
    /// A note below the figure, such as the numbers of rows and repetitions.
    pub note: String,
}

impl LineFigure {
    /// Draws it.
    ///
    /// # Errors
    /// [`Error::Empty`] if there is no point.
    pub fn draw(&self, theme: Theme) -> Result<Svg> {
        const LEFT: f64 = 70.0;
        const INNER: f64 = 250.0;
        const HEIGHT: f64 = 230.0;
        let all = || self.panels.iter().flat_map(|panel| &panel.series);
        let points = || all().flat_map(|series| &series.points);
        if points().next().is_none() {
            return Err(Error::Empty);
        }
        let cell = LEFT + INNER + 14.0;
        let width = (cell * self.panels.len() as f64 + 10.0).max(480.0);
        let legends = self.legends(width - LEFT - 20.0, INNER);
        let height = legends.iter().map(Legend::height).fold(0.0, f64::max);
        let top = 34.0 + height + 30.0;
        let mut canvas = Canvas::new(theme, width, top + HEIGHT + 66.0, &self.title);
        canvas.strong((LEFT, 22.0), &self.title);
        if let [shared] = &legends[..] {
            shared.draw(&mut canvas, (LEFT, 32.0), true);
        }
        for (place, panel) in self.panels.iter().enumerate() {
            let spread = panel.series.iter().flat_map(|s| &s.points);
            let frame = Frame {
                left: LEFT + cell * place as f64,
                top,
                width: INNER,
                height: HEIGHT,
                x: self.across(points().map(|p| p.x)),
                y: Scale::around(spread.flat_map(|p| [p.low, p.high, p.y])),
            };
            frame.draw(&mut canvas, 5);
            // The name is above the panel's own legend, or below the common one.
            let mut name_at = top - 10.0;
            if legends.len() > 1 {
                name_at = 48.0;
                legends[place].draw(&mut canvas, (frame.left, 54.0), true);
            }
            canvas.strong((frame.left, name_at), &panel.name);
            for series in &panel.series {
                band(&mut canvas, &frame, series);
            }
            for series in &panel.series {
                draw_series(&mut canvas, &frame, series, &panel.name);
            }
            frame.number_x(&mut canvas, &self.x_ticks);
            frame.name_x(&mut canvas, 37.0, &self.x_name);
        }
        let at = (width - 20.0, top + HEIGHT + 56.0);
        canvas.text(at, END, theme.muted, SMALL, &self.note);
        Ok(canvas.finish())
    }
}

impl LinePanel {
    /// The names of its lines, with the indices of their styles.
    fn names(&self) -> Vec<(&str, usize)> {
        let lines = self.series.iter();
        lines.map(|line| (line.name.as_str(), line.slot)).collect()
    }
}

impl LineFigure {
    fn across(&self, values: impl Iterator<Item = f64>) -> Scale {
        if !self.logarithmic {
            return Scale::around(values);
        }
        let Scale::Linear { low, high } = Scale::around(values.map(f64::ln)) else {
            unreachable!("`around` gives a linear scale");
        };
        Scale::Log {
            low: low.exp(),
            high: high.exp(),
        }
    }

    /// One legend if all panels have the same lines, otherwise one for each panel.
    fn legends(&self, width: f64, panel_width: f64) -> Vec<Legend<'_>> {
        let names: Vec<_> = self.panels.iter().map(LinePanel::names).collect();
        if names.windows(2).all(|pair| pair[0] == pair[1]) {
            return vec![Legend::new(names[0].iter().copied(), width)];
        }
        let each = names.into_iter();
        each.map(|names| Legend::new(names, panel_width)).collect()
    }
}

/// The band from the smallest to the largest of the repetitions.
fn band(canvas: &mut Canvas, frame: &Frame, series: &LineSeries) {
    let finite = || {
        series
            .points
            .iter()
            .filter(|p| p.low.is_finite() && p.high.is_finite())
    };
    if finite().all(|p| p.high <= p.low) {
        return;
    }
    let upper = finite().map(|p| frame.at(p.x, p.high));
    let lower = finite().rev().map(|p| frame.at(p.x, p.low));
    let corners: Vec<(f64, f64)> = upper.chain(lower).collect();
    let tag = polygon(&corners)
        .attr("fill", canvas.theme.of(series.slot))
        .attr("fill-opacity", "0.14");
    canvas.add(tag);
}

fn draw_series(canvas: &mut Canvas, frame: &Frame, series: &LineSeries, what: &str) {
    let finite = || series.points.iter().filter(|p| p.y.is_finite());
    trace(canvas, series.slot, finite().map(|p| frame.at(p.x, p.y)));
    for point in finite() {
        let tip = format!(
            "{}: {what} {:.4} at {:.4} ({:.4} to {:.4} in {} repetitions)",
            series.name, point.y, point.x, point.low, point.high, point.repetitions
        );
        let tag = marker(canvas, series.slot, frame.at(point.x, point.y), false);
        canvas.add_with_tooltip(tag, &tip);
    }
}

//! Ratios as bars from 1 on a logarithmic axis.

use crate::chart::Frame;
use crate::error::{Error, Result};
use crate::scale::Scale;
use crate::svg::{Anchor, Canvas, SMALL, Svg, TEXT, line, rect, text_width};
use crate::theme::Theme;

/// One ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The label of the bar.
    pub name: String,
    /// What it is compared with.
    pub note: String,
    /// The ratio; below 1 the bar goes to the left.
    pub value: f64,
}

/// Ratios as horizontal bars.
#[derive(Debug, Clone, PartialEq)]
pub struct BarFigure {
    /// The title.
    pub title: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
    /// A note below the figure.
    pub note: String,
}

impl BarFigure {
    /// Draws it.
    ///
    /// # Errors
    /// [`Error::Empty`] if there is no bar.
    pub fn draw(&self, theme: Theme) -> Result<Svg> {
        const ROW: f64 = 24.0;
        const INNER: f64 = 380.0;
        let values = || self.bars.iter().map(|bar| bar.value);
        let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max))
        else {
            return Err(Error::Empty);
        };
        let widest = |text: fn(&Bar) -> &str, size: f64| {
            let widths = self.bars.iter().map(|bar| text_width(text(bar), size));
            widths.fold(0.0, f64::max)
        };
        let names = widest(|bar| &bar.name, TEXT);
        let notes = widest(|bar| &bar.note, SMALL);
        let left = 16.0 + names + 12.0 + notes + 12.0;
        let height = ROW * self.bars.len() as f64;
        let mut canvas = Canvas::new(
            theme,
            left + INNER + 70.0,
            44.0 + height + 62.0,
            &self.title,
        );
        canvas.strong((16.0, 24.0), Anchor::Start, &self.title);
        let frame = Frame {
            left,
            top: 40.0,
            width: INNER,
            height,
            x: Scale::Log {
                low: least.min(1.0) * 0.9,
                high: most.max(10.0) * 1.1,
            },
            y: Scale::linear(0.0, 1.0),
        };
        canvas.rect((frame.left, frame.top), (INNER, height), theme.panel);
        let ticks = frame.x.ticks(6);
        for (value, _) in &ticks {
            let x = frame.across(*value);
            canvas.line((x, frame.top), (x, frame.bottom()), theme.grid, 1.0);
        }
        for (place, bar) in self.bars.iter().enumerate() {
            let middle = frame.top + ROW * (place as f64 + 0.5);
            let (from, to) = (frame.across(1.0), frame.across(bar.value));
            let (start, width) = (from.min(to), (to - from).abs().max(1.0));
            let slot = if bar.value >= 1.0 { 1 } else { 2 };
            let tag = rect((start, middle - 7.0), (width, 14.0)).attr("fill", theme.of(slot));
            let shown = shown(bar.value);
            canvas.add_with_tooltip(tag, &format!("{} against {}: {shown}", bar.name, bar.note));
            let text = (start + width + 6.0, middle + 4.0);
            canvas.text(text, Anchor::Start, theme.ink, SMALL, &shown);
            canvas.text(
                (16.0, middle + 4.5),
                Anchor::Start,
                theme.ink,
                TEXT,
                &bar.name,
            );
            let note = (left - 12.0, middle + 4.0);
            canvas.text(note, Anchor::End, theme.muted, SMALL, &bar.note);
        }
        let one = frame.across(1.0);
        let tag = line((one, frame.top), (one, frame.bottom()))
            .attr("stroke", theme.ink)
            .num("stroke-width", 1.2);
        canvas.add(tag);
        frame.number_x(&mut canvas, &ticks);
        let at = (left + INNER, frame.bottom() + 42.0);
        canvas.text(at, Anchor::End, theme.muted, SMALL, &self.note);
        Ok(canvas.finish())
    }
}

fn shown(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0}×")
    } else {
        format!("{value:.1}×")
    }
}

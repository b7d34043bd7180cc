//! The common parts of figures: panels with axes, markers and legends.

use crate::scale::Scale;
use crate::svg::{
    Canvas, END, MIDDLE, SMALL, START, TEXT, Tag, line, number, path, rect, text_width,
};

/// Dash patterns of the series, so that lines differ without colour.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];
/// The side of a marker.
const MARKER: f64 = 4.2;
/// The height of a line of the legend.
const LEGEND_LINE: f64 = 20.0;

/// A panel with its two axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Frame {
    pub(crate) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.across(x), self.up(y))
    }

    pub(crate) fn across(&self, x: f64) -> f64 {
        self.left + self.width * self.x.unit(x)
    }

    pub(crate) fn up(&self, y: f64) -> f64 {
        self.top + self.height * (1.0 - self.y.unit(y))
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Draws the panel, the y axis with about `wanted` ticks, and grid lines.
    pub(crate) fn draw(&self, canvas: &mut Canvas, wanted: usize) {
        let theme = canvas.theme;
        let size = (self.width, self.height);
        canvas.rect((self.left, self.top), size, theme.panel);
        for (value, label) in self.y.ticks(wanted) {
            let y = self.up(value);
            canvas.line((self.left, y), (self.right(), y), theme.grid, 1.0);
            let at = (self.left - 7.0, y + 4.0);
            canvas.text(at, END, theme.muted, SMALL, &label);
        }
        let corner = (self.left, self.bottom());
        canvas.line((self.left, self.top), corner, theme.muted, 1.0);
        canvas.line(corner, (self.right(), self.bottom()), theme.muted, 1.0);
    }

    /// Draws a panel below this one, for counts, and returns it.
    pub(crate) fn counts_below(
        &self,
        canvas: &mut Canvas,
        (gap, height): (f64, f64),
        counts: impl Iterator<Item = u64>,
        (wanted, what): (usize, &str),
    ) -> Self {
        let frame = Self {
            top: self.bottom() + gap,
            height,
            y: Scale::counts(counts.max().unwrap_or(0) as f64),
            ..*self
        };
        frame.draw(canvas, wanted);
        frame.name_y(canvas, what);
        frame
    }

    /// The bar of a count.
    pub(crate) fn bar(&self, left: f64, width: f64, count: u64) -> Tag {
        let y = self.up(count as f64);
        rect((left, y), (width.max(0.5), self.bottom() - y))
    }

    /// Draws the ticks of the x axis.
    pub(crate) fn number_x(&self, canvas: &mut Canvas, ticks: &[(f64, String)]) {
        let theme = canvas.theme;
        for (value, label) in ticks {
            let x = self.across(*value);
            let y = self.bottom();
            canvas.line((x, y), (x, y + 4.0), theme.muted, 1.0);
            canvas.text((x, y + 17.0), MIDDLE, theme.muted, SMALL, label);
        }
    }

    pub(crate) fn name_x(&self, canvas: &mut Canvas, below: f64, name: &str) {
        let at = (self.left + self.width / 2.0, self.bottom() + below);
        canvas.text(at, MIDDLE, canvas.theme.ink, TEXT, name);
    }

    pub(crate) fn name_y(&self, canvas: &mut Canvas, name: &str) {
        let middle = self.top + self.height / 2.0;
        canvas.upright((self.left - 46.0, middle), canvas.theme.ink, name);
    }

    /// Draws the dashed line of perfect calibration.
    pub(crate) fn dashed(&self, canvas: &mut Canvas, from: (f64, f64), to: (f64, f64)) {
        let tag = line(self.at(from.0, from.1), self.at(to.0, to.1))
            .attr("stroke", canvas.theme.ink)
            .num("stroke-width", 1.2)
            .attr("stroke-dasharray", "5 4");
        canvas.add(tag);
    }
}

/// Draws the line of a series through points of the canvas.
pub(crate) fn trace(
    canvas: &mut Canvas,
    slot: usize,
    points: impl IntoIterator<Item = (f64, f64)>,
) {
    let tag = path(points)
        .attr("fill", "none")
        .attr("stroke", canvas.theme.of(slot))
        .num("stroke-width", 2.0)
        .attr("stroke-linejoin", "round");
    canvas.add(dashed(tag, slot));
}

fn dashed(tag: Tag, slot: usize) -> Tag {
    match DASHES[slot % DASHES.len()] {
        "" => tag,
        dashes => tag.attr("stroke-dasharray", dashes),
    }
}

/// The marker of a series; hollow ones are for bins with few rows.
pub(crate) fn marker(canvas: &Canvas, slot: usize, (x, y): (f64, f64), hollow: bool) -> Tag {
    let theme = canvas.theme;
    let r = MARKER;
    let shape = match slot % 6 {
        0 => Tag::new("circle").nums([("cx", x), ("cy", y), ("r", r)]),
        1 => rect((x - r * 0.9, y - r * 0.9), (r * 1.8, r * 1.8)),
        2 => polygon(&[
            (x, y - r * 1.3),
            (x + r * 1.3, y),
            (x, y + r * 1.3),
            (x - r * 1.3, y),
        ]),
        3 => polygon(&[(x, y - r * 1.2), (x + r * 1.2, y + r), (x - r * 1.2, y + r)]),
        4 => polygon(&[(x, y + r * 1.2), (x + r * 1.2, y - r), (x - r * 1.2, y - r)]),
        _ => {
            let (a, b) = (r * 0.45, r * 1.2);
            let around = [(a, b), (a, a), (b, a)];
            let mut points = Vec::new();
            // A plus sign: the same three corners in each quadrant.
            for (sx, sy, turned) in [
                (1.0, -1.0, false),
                (1.0, 1.0, true),
                (-1.0, 1.0, false),
                (-1.0, -1.0, true),
            ] {
                let mut corners = around.map(|(dx, dy)| (x + sx * dx, y + sy * dy));
                if turned {
                    corners.reverse();
                }
                points.extend(corners);
            }
            polygon(&points)
        }
    };
    let fill = if hollow { theme.panel } else { theme.of(slot) };
    shape
        .attr("fill", fill)
        .attr("stroke", theme.of(slot))
        .num("stroke-width", 1.4)
}

pub(crate) fn polygon(corners: &[(f64, f64)]) -> Tag {
    let points: Vec<String> = corners
        .iter()
        .map(|(x, y)| format!("{},{}", number(*x), number(*y)))
        .collect();
    Tag::new("polygon").attr("points", &points.join(" "))
}

/// A legend, in as many lines as needed.
pub(crate) struct Legend<'a> {
    lines: Vec<Vec<(f64, &'a str, usize)>>,
}

impl<'a> Legend<'a> {
    /// Arranges names, each with the index of its style, within a width.
    pub(crate) fn new(entries: impl IntoIterator<Item = (&'a str, usize)>, width: f64) -> Self {
        let mut lines = vec![Vec::new()];
        let mut x = 0.0;
        for (name, slot) in entries {
            let own = 34.0 + text_width(name, TEXT) + 18.0;
            if x > 0.0 && x + own - 18.0 > width {
                lines.push(Vec::new());
                x = 0.0;
            }
            lines
                .last_mut()
                .expect("there is a line")
                .push((x, name, slot));
            x += own;
        }
        Self { lines }
    }

    pub(crate) fn height(&self) -> f64 {
        LEGEND_LINE * self.lines.len() as f64
    }

    /// Draws the legend, with markers if the lines of the figure have them.
    pub(crate) fn draw(&self, canvas: &mut Canvas, (left, top): (f64, f64), marked: bool) {
        for (row, entries) in self.lines.iter().enumerate() {
            let y = top + LEGEND_LINE * (row as f64 + 0.5);
            for (x, name, slot) in entries {
                let x = left + x;
                trace(canvas, *slot, [(x, y), (x + 26.0, y)]);
                if marked {
                    canvas.add(marker(canvas, *slot, (x + 13.0, y), false));
                }
                let at = (x + 33.0, y + 4.5);
                canvas.text(at, START, canvas.theme.ink, TEXT, name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legends_break_where_the_width_ends() {
        let names = [
            "uncalibrated",
            "ts",
            "diag",
            "a rather long name of a model",
        ];
        let entries = || names.iter().enumerate().map(|(slot, name)| (*name, slot));
        assert_eq!(Legend::new(entries(), 2000.0).lines.len(), 1);
        let narrow = Legend::new(entries(), 300.0);
        assert!(narrow.lines.len() > 1);
        let kept: usize = narrow.lines.iter().map(Vec::len).sum();
        assert_eq!(kept, names.len());
        for line in &narrow.lines {
            let (x, name, _) = line.last().unwrap();
            assert!(line.len() == 1 || x + 34.0 + text_width(name, TEXT) <= 300.0);
        }
    }

    #[test]
    fn neighbouring_series_differ_in_marker_and_dashes() {
        for slot in 0..12 {
            assert_ne!(slot % 6, (slot + 1) % 6);
            assert_ne!(DASHES[slot % 4], DASHES[(slot + 1) % 4]);
        }
    }
}

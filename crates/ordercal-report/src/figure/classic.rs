//! The classic reliability diagram: accuracy as bars against the diagonal.

use super::reliability::ReliabilitySeries;
use super::{NOISE, describe, rows};
use crate::chart::Frame;
use crate::scale::Scale;
use crate::svg::{Canvas, SMALL, START, Svg, TEXT, line, rect, text_width};
use crate::theme::Theme;

/// The side of a panel, the margin on its left, and the height of the counts below.
const SIDE: f64 = 250.0;
const LEFT: f64 = 66.0;
const COUNTS: f64 = 58.0;
/// The size of a panel with its margins.
const CELL: (f64, f64) = (LEFT + SIDE + 14.0, 46.0 + SIDE + 14.0 + COUNTS + 48.0);
/// The number of panels in a row.
const ACROSS: usize = 3;
/// The height of the title and of a line of the legend.
const TOP: f64 = 30.0;
const LINE: f64 = 18.0;

pub(super) fn draw(title: &str, series: &[ReliabilitySeries], theme: Theme) -> Svg {
    let across = series.len().min(ACROSS);
    let down = series.len().div_ceil(ACROSS);
    let width = CELL.0 * across as f64 + 10.0;
    let legend = legend(theme, width);
    let lines = legend.last().map_or(0.0, |entry| entry.y) + LINE;
    let height = TOP + CELL.1 * down as f64 + lines + 6.0;
    let mut canvas = Canvas::new(theme, width, height, title);
    canvas.strong((16.0, 22.0), title);
    for (place, one) in series.iter().enumerate() {
        let column = (place % ACROSS) as f64;
        let row = (place / ACROSS) as f64;
        panel(&mut canvas, (column * CELL.0, TOP + row * CELL.1), one);
    }
    for entry in legend {
        let y = height - lines + entry.y + 6.0;
        if let Some((colour, opacity)) = entry.square {
            let square = rect((entry.x, y - 10.0), (11.0, 11.0)).attr("fill", colour);
            canvas.add(square.attr("fill-opacity", opacity));
        }
        let at = (entry.x + entry.indent(), y);
        canvas.text(at, START, theme.ink, SMALL, entry.words);
    }
    canvas.finish()
}

/// An entry of the legend, placed within it.
struct Entry {
    words: &'static str,
    /// Colour and opacity of its square.
    square: Option<(&'static str, &'static str)>,
    x: f64,
    y: f64,
}

impl Entry {
    fn indent(&self) -> f64 {
        if self.square.is_some() { 16.0 } else { 0.0 }
    }
}

/// The entries, in as many lines as the width needs.
fn legend(theme: Theme, width: f64) -> Vec<Entry> {
    let (mut x, mut y) = (16.0, 0.0);
    let entries = [
        ("accuracy", Some((theme.series[1], "1"))),
        ("gap to the mean confidence", Some((theme.series[2], "0.7"))),
        (NOISE, Some((theme.muted, "0.2"))),
        ("dashed: perfect calibration", None),
    ];
    let place = |(words, square): (&'static str, _)| {
        let mut entry = Entry {
            words,
            square,
            x,
            y,
        };
        let own = entry.indent() + text_width(words, SMALL);
        if x > 16.0 && x + own > width {
            (entry.x, entry.y) = (16.0, y + LINE);
        }
        (x, y) = (entry.x + own + 16.0, entry.y);
        entry
    };
    entries.map(place).into()
}

fn panel(canvas: &mut Canvas, (left, top): (f64, f64), series: &ReliabilitySeries) {
    let theme = canvas.theme;
    let frame = Frame {
        left: left + LEFT,
        top: top + 46.0,
        width: SIDE,
        height: SIDE,
        x: Scale::linear(0.0, 1.0),
        y: Scale::linear(0.0, 1.0),
    };
    canvas.strong((frame.left, top + 20.0), &series.name);
    let total: u64 = series.diagram.bins.iter().map(|bin| bin.count).sum();
    let about = format!("ECE {:.4}, {}", series.diagram.error(), rows(total));
    let at = (frame.left, top + 38.0);
    canvas.text(at, START, theme.muted, TEXT, &about);
    frame.draw(canvas, 5);
    frame.name_y(canvas, "accuracy");
    // Whatever is drawn in a bin, its whole height answers to the pointer: small bars are hard to hit.
    let mut targets = Vec::new();
    for bin in &series.diagram.bins {
        let Some(filled) = bin.filled else { continue };
        let (from, to) = (
            frame.across(bin.lower) + 0.75,
            frame.across(bin.upper) - 0.75,
        );
        let size = |low: f64, high: f64| ((to - from).max(0.5), frame.up(low) - frame.up(high));
        let tip = format!("{}: {}", rows(bin.count), describe(&filled));
        let bar = rect(
            (from, frame.up(filled.accuracy)),
            size(0.0, filled.accuracy),
        );
        canvas.add(bar.attr("fill", theme.series[1]));
        let low = filled.accuracy.min(filled.confidence);
        let high = filled.accuracy.max(filled.confidence);
        let gap = rect((from, frame.up(high)), size(low, high))
            .attr("fill", theme.series[2])
            .attr("fill-opacity", "0.7");
        canvas.add(gap);
        let (low, high) = filled.consistency;
        canvas.noise((from, frame.up(high)), size(low, high));
        let middle = (from + to) / 2.0;
        let whisker = line(
            (middle, frame.up(filled.interval.0)),
            (middle, frame.up(filled.interval.1)),
        );
        canvas.add(whisker.attr("stroke", theme.ink).num("stroke-width", 1.0));
        targets.push((rect((from, frame.top), size(0.0, 1.0)), tip));
    }
    frame.dashed(canvas, (0.0, 0.0), (1.0, 1.0));
    for (target, tip) in targets {
        canvas.add_bin(
            target.attr("fill", "none").attr("pointer-events", "all"),
            &tip,
        );
    }
    counts(canvas, &frame, series);
}

fn counts(canvas: &mut Canvas, above: &Frame, series: &ReliabilitySeries) {
    let bins = &series.diagram.bins;
    let counts = bins.iter().map(|bin| bin.count);
    let frame = above.counts_below(canvas, (14.0, COUNTS), counts, (3, "rows"));
    for bin in bins.iter().filter(|bin| bin.count > 0) {
        let (from, to) = (
            frame.across(bin.lower) + 0.75,
            frame.across(bin.upper) - 0.75,
        );
        let bar = frame.bar(from, to - from, bin.count);
        let bar = bar.attr("fill", canvas.theme.series[0]);
        canvas.add_with_tooltip(bar, &rows(bin.count));
    }
    frame.number_x(canvas, &frame.x.ticks(5));
    frame.name_x(canvas, 34.0, "confidence");
}

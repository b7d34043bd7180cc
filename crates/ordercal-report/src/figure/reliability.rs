//! Reliability diagrams: confidence against accuracy, bin by bin.

use ordercal::metrics::{Reliability, ReliabilityBin};

use super::{NOISE, classic, describe, rows};
use crate::chart::{Frame, Legend, marker, trace};
use crate::error::{Error, Result};
use crate::scale::Scale;
use crate::svg::{Canvas, END, SMALL, START, Svg, Tag, line};
use crate::theme::Theme;

/// Bins with fewer rows have a hollow marker: their gaps are mostly noise.
const FEW: u64 = 20;

/// The form of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReliabilityForm {
    /// Confidence − accuracy over confidence, with a dashed line at 0: above it is overconfident. As in
    /// Maddox et al. (2019) and the figures of the paper.
    #[default]
    Gap,
    /// The same times the bin's share of the rows, so that the absolute heights add up to the ECE.
    Weighted,
    /// Accuracy as bars against the diagonal, one panel for each series.
    Classic,
}

/// One set of probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct ReliabilitySeries {
    /// The name in the legend.
    pub name: String,
    /// The index of its colour and marker, the same in every figure; 0 is for the uncalibrated scores.
    pub slot: usize,
    /// The bins.
    pub diagram: Reliability,
}

/// A reliability diagram of one or several sets of probabilities of the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ReliabilityFigure {
    /// The title.
    pub title: String,
    /// The sets of probabilities.
    pub series: Vec<ReliabilitySeries>,
    /// The form.
    pub form: ReliabilityForm,
}

impl ReliabilityFigure {
    /// Draws it.
    ///
    /// # Errors
    /// [`Error::Empty`] if there is no series.
    pub fn draw(&self, theme: Theme) -> Result<Svg> {
        if self.series.is_empty() {
            return Err(Error::Empty);
        }
        Ok(match self.form {
            ReliabilityForm::Classic => classic::draw(&self.title, &self.series, theme),
            ReliabilityForm::Gap | ReliabilityForm::Weighted => self.draw_gaps(theme),
        })
    }

    fn draw_gaps(&self, theme: Theme) -> Svg {
        const WIDTH: f64 = 640.0;
        const LEFT: f64 = 70.0;
        let inner = WIDTH - LEFT - 20.0;
        let names = self.series.iter().map(|s| (s.name.as_str(), s.slot));
        let legend = Legend::new(names, inner);
        let top = 34.0 + legend.height() + 8.0;
        let (main, counts) = (270.0, 84.0);
        let height = top + main + 18.0 + counts + 58.0;
        let mut canvas = Canvas::new(theme, WIDTH, height, &self.title);
        canvas.strong((LEFT, 22.0), &self.title);
        legend.draw(&mut canvas, (LEFT, 32.0), true);

        let frame = Frame {
            left: LEFT,
            top,
            width: inner,
            height: main,
            x: Scale::linear(0.0, 1.0),
            y: self.vertical(),
        };
        frame.draw(&mut canvas, 5);
        self.noise(&mut canvas, &frame);
        frame.dashed(&mut canvas, (0.0, 0.0), (1.0, 0.0));
        frame.name_y(
            &mut canvas,
            match self.form {
                ReliabilityForm::Weighted => "(confidence − accuracy) × share",
                _ => "confidence − accuracy",
            },
        );
        // On the left are few points, because small confidences are rare.
        let (above, below) = (frame.top + 15.0, frame.bottom() - 8.0);
        for (y, word) in [(above, "overconfident"), (below, "underconfident")] {
            let at = (frame.left + 8.0, y);
            canvas.text(at, START, theme.muted, SMALL, word);
        }
        // Intervals of more than two series would cover each other.
        let with_intervals = self.series.len() <= 2 && self.form == ReliabilityForm::Gap;
        for series in &self.series {
            let open = Tag::new("g").attr("data-method", &series.name);
            canvas.group(open, |canvas| {
                if with_intervals {
                    intervals(canvas, &frame, series);
                }
                self.points(canvas, &frame, series);
            });
        }
        self.counts(&mut canvas, &frame, counts);
        canvas.finish()
    }

    /// The y value of a bin, if it has rows.
    fn value(&self, bin: &ReliabilityBin) -> Option<f64> {
        Some(bin.filled?.gap * self.weight(bin))
    }

    /// What heights are multiplied by.
    fn weight(&self, bin: &ReliabilityBin) -> f64 {
        match self.form {
            ReliabilityForm::Weighted => bin.share,
            _ => 1.0,
        }
    }

    /// The noise floor around 0, bin by bin. Where series differ in their rows, the widest: what is outside of it is not
    /// noise for any of them.
    fn noise(&self, canvas: &mut Canvas, frame: &Frame) {
        let most = self.series.iter().map(|s| s.diagram.bins.len()).max();
        for place in 0..most.unwrap_or(0) {
            let bins = self.series.iter().filter_map(|s| s.diagram.bins.get(place));
            let bands = bins.filter_map(|bin| {
                let (low, high) = bin.filled?.consistency;
                let confidence = bin.filled?.confidence;
                let scale = self.weight(bin);
                let band = (scale * (confidence - high), scale * (confidence - low));
                Some((bin, band))
            });
            let widest = bands.max_by(|(_, a), (_, b)| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
            if let Some((bin, (low, high))) = widest {
                // Few rows may have a band that is taller than the panel.
                let inside = |y: f64| frame.up(y).clamp(frame.top, frame.bottom());
                let (left, right) = (frame.across(bin.lower), frame.across(bin.upper));
                let size = (right - left, inside(low) - inside(high));
                canvas.noise((left, inside(high)), size);
            }
        }
    }

    fn vertical(&self) -> Scale {
        let bins = self.series.iter().flat_map(|s| &s.diagram.bins);
        let values = bins.filter_map(|bin| self.value(bin)).chain([0.0]);
        // A minimal range, so that the tiny gaps of a good classifier do not look large.
        let least = match self.form {
            ReliabilityForm::Weighted => 0.005,
            _ => 0.05,
        };
        Scale::around(values.chain([-least, least]))
    }

    fn points(&self, canvas: &mut Canvas, frame: &Frame, series: &ReliabilitySeries) {
        let points: Vec<_> = series
            .diagram
            .bins
            .iter()
            .filter_map(|bin| {
                let filled = bin.filled?;
                let value = self.value(bin)?;
                Some((frame.at(filled.confidence, value), bin, filled))
            })
            .collect();
        trace(canvas, series.slot, points.iter().map(|(at, ..)| *at));
        for (at, bin, filled) in points {
            let (name, rows) = (&series.name, rows(bin.count));
            let tip = format!("{name}: {rows} with {}", describe(&filled));
            let tag = marker(canvas, series.slot, at, bin.count < FEW);
            canvas.add_bin(tag, &tip);
        }
    }

    /// The strip below: the number of rows in each bin, for each series.
    fn counts(&self, canvas: &mut Canvas, above: &Frame, height: f64) {
        let bins = self.series.iter().flat_map(|s| &s.diagram.bins);
        let counts = bins.map(|bin| bin.count);
        let frame = above.counts_below(canvas, (18.0, height), counts, (4, "rows"));
        let share = 0.86 / self.series.len() as f64;
        for (place, series) in self.series.iter().enumerate() {
            let open = Tag::new("g").attr("data-method", &series.name);
            let filled = || series.diagram.bins.iter().filter(|bin| bin.count > 0);
            canvas.group(open, |canvas| {
                for bin in filled() {
                    let (from, to) = (frame.across(bin.lower), frame.across(bin.upper));
                    let width = (to - from) * share;
                    let left = from + (to - from) * 0.07 + width * place as f64;
                    let tag = frame.bar(left, width, bin.count);
                    let tag = tag.attr("fill", canvas.theme.of(series.slot));
                    let tip = format!(
                        "{}: {} with confidence {:.3} to {:.3}",
                        series.name,
                        rows(bin.count),
                        bin.lower,
                        bin.upper
                    );
                    canvas.add_with_tooltip(tag, &tip);
                }
            });
        }
        frame.number_x(canvas, &frame.x.ticks(5));
        frame.name_x(canvas, 36.0, "confidence");
        let counts = self.series[0].diagram.bins.iter().map(|bin| bin.count);
        let note = format!(
            "{}; logarithmic counts; hollow markers: fewer than {FEW} rows; {NOISE}",
            rows(counts.sum())
        );
        let at = (frame.right(), frame.bottom() + 52.0);
        canvas.text(at, END, canvas.theme.muted, SMALL, &note);
    }
}

fn intervals(canvas: &mut Canvas, frame: &Frame, series: &ReliabilitySeries) {
    for filled in series.diagram.bins.iter().filter_map(|bin| bin.filled) {
        let x = filled.confidence;
        let (low, high) = filled.interval;
        let tag = line(frame.at(x, x - high), frame.at(x, x - low))
            .attr("stroke", canvas.theme.of(series.slot))
            .num("stroke-width", 1.2)
            .attr("stroke-opacity", "0.55");
        canvas.add(tag);
    }
}

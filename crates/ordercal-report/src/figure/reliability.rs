//! Reliability diagrams: confidence against accuracy, bin by bin.

use ordercal::metrics::{Reliability, ReliabilityBin};

use super::{classic, rows};
use crate::chart::{Frame, Legend, marker, polygon, trace};
use crate::error::{Error, Result};
use crate::scale::Scale;
use crate::svg::{Anchor, Canvas, SMALL, Svg, line, rect};
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
        canvas.strong((LEFT, 22.0), Anchor::Start, &self.title);
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
            canvas.text(
                (frame.left + 8.0, y),
                Anchor::Start,
                theme.muted,
                SMALL,
                word,
            );
        }
        // Intervals of more than two series would cover each other.
        if self.series.len() <= 2 && self.form == ReliabilityForm::Gap {
            for series in &self.series {
                consistency(&mut canvas, &frame, series);
                intervals(&mut canvas, &frame, series);
            }
        }
        for series in &self.series {
            self.points(&mut canvas, &frame, series);
        }
        self.counts(&mut canvas, &frame, frame.bottom() + 18.0, counts);
        canvas.finish()
    }

    /// The y value of a bin, if it has rows.
    fn value(&self, bin: &ReliabilityBin) -> Option<f64> {
        let filled = bin.filled?;
        Some(match self.form {
            ReliabilityForm::Weighted => filled.gap * bin.share,
            _ => filled.gap,
        })
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
            let tip = format!(
                "{}: {} with confidence {:.3} on average, accuracy {:.3} (95% interval {:.3} to {:.3})",
                series.name,
                rows(bin.count),
                filled.confidence,
                filled.accuracy,
                filled.interval.0,
                filled.interval.1
            );
            let tag = marker(canvas, series.slot, at, bin.count < FEW);
            canvas.add_with_tooltip(tag, &tip);
        }
    }

    /// The strip below: the number of rows in each bin, for each series.
    fn counts(&self, canvas: &mut Canvas, above: &Frame, top: f64, height: f64) {
        let bins = || self.series.iter().flat_map(|s| &s.diagram.bins);
        let largest = bins().map(|bin| bin.count).max().unwrap_or(0);
        let frame = Frame {
            top,
            height,
            y: Scale::counts(largest as f64),
            ..*above
        };
        frame.draw(canvas, 4);
        frame.name_y(canvas, "rows");
        let share = 0.86 / self.series.len() as f64;
        for (place, series) in self.series.iter().enumerate() {
            for bin in series.diagram.bins.iter().filter(|bin| bin.count > 0) {
                let (from, to) = (frame.across(bin.lower), frame.across(bin.upper));
                let width = (to - from) * share;
                let left = from + (to - from) * 0.07 + width * place as f64;
                let y = frame.up(bin.count as f64);
                let tag = rect((left, y), (width.max(0.5), frame.bottom() - y))
                    .attr("fill", canvas.theme.of(series.slot));
                let tip = format!(
                    "{}: {} with confidence {:.3} to {:.3}",
                    series.name,
                    rows(bin.count),
                    bin.lower,
                    bin.upper
                );
                canvas.add_with_tooltip(tag, &tip);
            }
        }
        frame.number_x(canvas, &frame.x.ticks(5));
        frame.name_x(canvas, 36.0, "confidence");
        let total: u64 = self.series[0]
            .diagram
            .bins
            .iter()
            .map(|bin| bin.count)
            .sum();
        let note = format!(
            "{}; logarithmic counts; hollow markers: fewer than {FEW} rows",
            rows(total)
        );
        let at = (frame.right(), frame.bottom() + 52.0);
        canvas.text(at, Anchor::End, canvas.theme.muted, SMALL, &note);
    }
}

/// What chance alone would show of a calibrated classifier: a band around 0, clipped to the frame.
fn consistency(canvas: &mut Canvas, frame: &Frame, series: &ReliabilitySeries) {
    let filled = || series.diagram.bins.iter().filter_map(|bin| bin.filled);
    let at = |confidence: f64, accuracy: f64| {
        let (x, y) = frame.at(confidence, confidence - accuracy);
        (x, y.clamp(frame.top, frame.bottom()))
    };
    let low = filled().map(|bin| at(bin.confidence, bin.consistency.1));
    let high = filled()
        .rev()
        .map(|bin| at(bin.confidence, bin.consistency.0));
    let corners: Vec<(f64, f64)> = low.chain(high).collect();
    // A band needs two bins.
    if corners.len() >= 4 {
        let band = polygon(&corners)
            .attr("fill", canvas.theme.of(series.slot))
            .attr("fill-opacity", "0.12");
        let tip = format!(
            "{}: where a calibrated classifier would lie by chance alone (95%)",
            series.name
        );
        canvas.add_with_tooltip(band, &tip);
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

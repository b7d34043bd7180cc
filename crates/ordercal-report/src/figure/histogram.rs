//! Counts of scores, as a strip below another panel.

use super::rows;
use crate::chart::Frame;
use crate::svg::Canvas;

/// Counts in bins of equal width.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreHistogram {
    /// The lower end of the first bin.
    pub low: f64,
    /// The upper end of the last bin.
    pub high: f64,
    /// The counts.
    pub counts: Vec<u64>,
}

impl ScoreHistogram {
    /// Counts the values within the range.
    pub fn new(
        values: impl IntoIterator<Item = f64>,
        (low, high): (f64, f64),
        bins: usize,
    ) -> Self {
        let mut counts = vec![0; bins];
        for value in values {
            let place = (value - low) / (high - low);
            if (0.0..=1.0).contains(&place) {
                let bin = (place * bins as f64) as usize;
                counts[bin.min(bins - 1)] += 1;
            }
        }
        Self { low, high, counts }
    }

    /// The number of counted values.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Draws a strip below a frame, and returns the frame of the strip.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas,
        above: &Frame,
        height: f64,
        what: &str,
    ) -> Frame {
        let counts = self.counts.iter().copied();
        let frame = above.counts_below(canvas, (16.0, height), counts, (3, what));
        let width = (self.high - self.low) / self.counts.len() as f64;
        for (place, &count) in self.counts.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let low = self.low + width * place as f64;
            let (from, to) = (frame.across(low), frame.across(low + width));
            let bar = frame.bar(from, to - from - 0.5, count);
            let bar = bar.attr("fill", canvas.theme.series[0]);
            let tip = format!(
                "{} from {low:.2} to {:.2}",
                rows(count).replace("row", what.trim_end_matches('s')),
                low + width
            );
            canvas.add_with_tooltip(bar, &tip);
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_within_is_counted_once() {
        let values = [-0.1, 0.0, 0.1, 0.49, 0.5, 0.99, 1.0, 1.1, f64::NAN];
        let histogram = ScoreHistogram::new(values, (0.0, 1.0), 2);
        assert_eq!(histogram.counts, [3, 3]);
        assert_eq!(histogram.total(), 6);
    }
}

//! The figures. Each shows how many rows its numbers come from.

mod classic;
mod histogram;
mod lines;
mod reliability;
mod simplex;
mod transform;

use ordercal::metrics::FilledBin;

pub use histogram::ScoreHistogram;
pub use lines::{LineFigure, LinePanel, LinePoint, LineSeries};
pub use reliability::{ReliabilityFigure, ReliabilityForm, ReliabilitySeries};
pub use simplex::{Arrow, SimplexFigure, region_of};
pub use transform::{TransformCurve, TransformFigure};

/// The words in legends for the band of what chance alone would show (`FilledBin::consistency`).
pub(crate) const NOISE: &str = "band: chance alone (95%)";

/// What is known of a bin with rows.
fn describe(bin: &FilledBin) -> String {
    format!(
        "confidence {:.3} on average, accuracy {:.3} (95% interval {:.3} to {:.3})",
        bin.confidence, bin.accuracy, bin.interval.0, bin.interval.1
    )
}

/// A count with separated thousands: 12 345 rows.
pub(crate) fn rows(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    match count {
        1 => "1 row".to_owned(),
        _ => format!("{text} rows"),
    }
}

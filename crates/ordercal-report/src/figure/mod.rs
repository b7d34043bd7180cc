//! The figures. Each shows how many rows its numbers come from.

mod bars;
mod classic;
mod histogram;
mod lines;
mod reliability;
mod simplex;
mod transform;

pub use bars::{Bar, BarFigure};
pub use histogram::ScoreHistogram;
pub use lines::{LineFigure, LinePanel, LinePoint, LineSeries};
pub use reliability::{ReliabilityFigure, ReliabilityForm, ReliabilitySeries};
pub use simplex::{Arrow, SimplexFigure, region_of};
pub use transform::{TransformCurve, TransformFigure};

/// The words in legends for the band of what chance alone would show (`FilledBin::consistency`).
pub(crate) const NOISE: &str = "band: chance alone (95%)";

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

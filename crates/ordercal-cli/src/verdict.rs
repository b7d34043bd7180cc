//! The result of an evaluation in one sentence.

use ordercal::metrics::Reliability;

/// How far confidence is from accuracy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// The expected calibration error.
    pub ece: f64,
    /// Mean confidence minus accuracy.
    pub excess: f64,
}

impl Gap {
    /// The gap over equal-width bins of the predicted class.
    pub fn of(diagram: &Reliability) -> Self {
        let bins = diagram.bins.iter();
        let gaps = bins.filter_map(|bin| Some(bin.share * bin.filled?.gap));
        Self {
            ece: diagram.error(),
            excess: gaps.sum(),
        }
    }

    /// As in "5.1 points too high"; neither high nor low if errors of both signs cancel.
    fn in_words(self) -> String {
        let points = points(self.ece);
        if self.excess.abs() < self.ece / 2.0 {
            format!("off by {points} points")
        } else if self.excess > 0.0 {
            format!("{points} points too high")
        } else {
            format!("{points} points too low")
        }
    }
}

fn points(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A sentence about the scores alone.
pub fn alone(gap: Gap, interval: Option<[f64; 2]>) -> String {
    format!("confidence is {}{}", gap.in_words(), spread(interval))
}

/// A sentence about before and after.
pub fn compared(
    before: Gap,
    after: Gap,
    interval: Option<[f64; 2]>,
    changed: u64,
    rows: usize,
) -> String {
    format!(
        "confidence was {}; now within {}{}; {}",
        before.in_words(),
        points(after.ece),
        spread(interval),
        changes(changed, rows)
    )
}

fn spread(interval: Option<[f64; 2]>) -> String {
    interval.map_or(String::new(), |[low, high]| {
        format!(" (95% interval {}–{})", points(low), points(high))
    })
}

fn changes(changed: u64, rows: usize) -> String {
    match changed {
        0 => "no prediction changed".to_owned(),
        1 => format!("1 of {rows} predictions changed"),
        _ => format!("{changed} of {rows} predictions changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_read_as_promised() {
        let before = Gap {
            ece: 0.051,
            excess: 0.0509,
        };
        let after = Gap {
            ece: 0.009,
            excess: -0.001,
        };
        assert_eq!(
            compared(before, after, Some([0.005, 0.016]), 0, 100),
            "confidence was 5.1 points too high; now within 0.9 (95% interval 0.5–1.6); \
             no prediction changed"
        );
        assert_eq!(
            compared(before, after, None, 3, 100),
            "confidence was 5.1 points too high; now within 0.9; 3 of 100 predictions changed"
        );
        assert_eq!(alone(after, None), "confidence is off by 0.9 points");
        let low = Gap {
            ece: 0.02,
            excess: -0.02,
        };
        assert_eq!(alone(low, None), "confidence is 2.0 points too low");
    }
}

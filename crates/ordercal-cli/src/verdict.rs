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

    /// As in "5.1 points too high on average"; neither high nor low if errors of both signs cancel.
    fn in_words(self) -> String {
        let points = points(self.ece);
        if points == "0.0" {
            "right to within 0.1 points on average".to_owned()
        } else if self.excess.abs() < self.ece / 2.0 {
            format!("off by {points} points on average")
        } else if self.excess > 0.0 {
            format!("{points} points too high on average")
        } else {
            format!("{points} points too low on average")
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
    let worse = after.ece > before.ece && points(after.ece) != points(before.ece);
    format!(
        "confidence was {}; now it is {}{}{}; {}",
        before.in_words(),
        if worse { "worse, " } else { "" },
        after.in_words(),
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
            "confidence was 5.1 points too high on average; now it is off by 0.9 points on average (95% interval \
             0.5–1.6); no prediction changed"
        );
        assert_eq!(
            compared(before, after, None, 3, 100),
            "confidence was 5.1 points too high on average; now it is off by 0.9 points on average; 3 of 100 \
             predictions changed"
        );
        assert_eq!(
            compared(after, before, None, 0, 100),
            "confidence was off by 0.9 points on average; now it is worse, 5.1 points too high on average; no \
             prediction changed"
        );
        assert_eq!(
            alone(after, None),
            "confidence is off by 0.9 points on average"
        );
        let low = Gap {
            ece: 0.02,
            excess: -0.02,
        };
        assert_eq!(
            alone(low, None),
            "confidence is 2.0 points too low on average"
        );
        let none = Gap {
            ece: 0.0001,
            excess: -0.0001,
        };
        assert_eq!(
            alone(none, None),
            "confidence is right to within 0.1 points on average"
        );
    }
}

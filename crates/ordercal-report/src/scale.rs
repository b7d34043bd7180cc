//! Axis scales and ticks.

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Linear.
    Linear { low: f64, high: f64 },
    /// Logarithmic.
    Log { low: f64, high: f64 },
}

impl Scale {
    pub(crate) fn linear(low: f64, high: f64) -> Self {
        Self::Linear { low, high }
    }

    /// A linear scale for all finite values, with a margin.
    pub(crate) fn around(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|v| v.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            return Self::linear(0.0, 1.0);
        }
        if high - low <= 1e-12 * high.abs().max(1e-12) {
            let room = 0.05 * high.abs().max(1e-3);
            (low, high) = (low - room, high + room);
        }
        let room = 0.04 * (high - low);
        Self::linear(low - room, high + room)
    }

    /// A logarithmic scale for counts; it begins below 1, so that a count of 1 is visible.
    pub(crate) fn counts(largest: f64) -> Self {
        Self::Log {
            low: 0.7,
            high: largest.max(10.0) * 1.3,
        }
    }

    /// The position of a value, from 0 to 1; values outside are clamped.
    pub(crate) fn unit(self, value: f64) -> f64 {
        let unit = match self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { low, high } => {
                (value.max(f64::MIN_POSITIVE).ln() - low.ln()) / (high.ln() - low.ln())
            }
        };
        unit.clamp(0.0, 1.0)
    }

    /// About `wanted` round values with their labels.
    pub(crate) fn ticks(self, wanted: usize) -> Vec<(f64, String)> {
        match self {
            Self::Linear { low, high } => linear_ticks(low, high, wanted),
            Self::Log { low, high } => {
                let (first, last) = (
                    (low.log10() - 1e-9).ceil() as i32,
                    (high.log10() + 1e-9).floor() as i32,
                );
                let step = 1 + (last - first).max(0) / wanted.max(1) as i32;
                let powers = (first..=last).step_by(step as usize);
                powers.map(|p| (10_f64.powi(p), power_label(p))).collect()
            }
        }
    }
}

fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    // The number of decimals that write a step exactly.
    let decimals = (0..12)
        .find(|&d| {
            let scaled = step * 10_f64.powi(d);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
        })
        .unwrap_or(12) as usize;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last)
        .map(|i| {
            let value = i as f64 * step;
            (value, label(value, decimals))
        })
        .collect()
}

/// A number with a typographic minus sign.
fn label(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

fn power_label(power: i32) -> String {
    match power {
        0..=3 => 10_u32.pow(power as u32).to_string(),
        4..=5 => format!("{}k", 10_u32.pow(power as u32 - 3)),
        6..=8 => format!("{}M", 10_u32.pow(power as u32 - 6)),
        -3..=-1 => label(10_f64.powi(power), -power as usize),
        _ => format!("1e{power}").replace('-', "−"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, wanted: usize) -> Vec<String> {
        scale.ticks(wanted).into_iter().map(|(_, l)| l).collect()
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        assert_eq!(
            labels(Scale::linear(0.0, 1.0), 5),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(
            labels(Scale::linear(0.0, 1.0), 4),
            ["0.00", "0.25", "0.50", "0.75", "1.00"]
        );
        assert_eq!(
            labels(Scale::linear(-0.12, 0.07), 4),
            ["−0.10", "−0.05", "0.00", "0.05"]
        );
        assert_eq!(
            labels(Scale::linear(-30.0, 4.0), 4),
            ["−30", "−20", "−10", "0"]
        );
        for (low, high) in [(1.003, 1.0047), (-5e-7, 3e-7), (0.0, 8e9)] {
            let ticks = Scale::linear(low, high).ticks(5);
            assert!((3..=7).contains(&ticks.len()), "{ticks:?}");
            assert!(
                ticks
                    .iter()
                    .all(|(v, _)| *v >= low - 1e-9 && *v <= high + 1e-9 * high)
            );
        }
    }

    #[test]
    fn counts_are_written_as_powers_of_ten() {
        assert_eq!(labels(Scale::counts(7000.0), 5), ["1", "10", "100", "1000"]);
        assert_eq!(labels(Scale::counts(2e5), 3), ["1", "100", "10k"]);
        assert!(Scale::counts(50.0).unit(1.0) > 0.0);
        assert!(Scale::counts(50.0).unit(0.0) <= 0.0);
    }

    #[test]
    fn one_value_or_none_still_makes_an_axis() {
        for values in [vec![], vec![0.0], vec![0.25, 0.25], vec![f64::NAN, -3.0]] {
            let scale = Scale::around(values.clone());
            assert!(!scale.ticks(4).is_empty(), "{values:?}");
            assert!(
                values
                    .iter()
                    .all(|v| v.is_nan() || (0.0..=1.0).contains(&scale.unit(*v)))
            );
        }
    }
}

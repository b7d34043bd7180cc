//! Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;

use super::{METRICS, Segment, Window};

/// The last window of each segment.
pub fn text(segments: &[Segment]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, value: &dyn Fn(&Window) -> f64| {
        let _ = writeln!(
            text,
            "# HELP ordercal_{name} {help}\n# TYPE ordercal_{name} gauge"
        );
        for segment in segments {
            let Some(last) = segment.windows.last() else {
                continue;
            };
            let _ = writeln!(
                text,
                "ordercal_{name}{{segment=\"{}\",window=\"{}\"}} {}",
                escape(&segment.name),
                escape(&last.name),
                number(value(last))
            );
        }
    };
    family("rows", "Rows in the window.", &|w| w.rows as f64);
    for (place, metric) in METRICS.iter().enumerate() {
        family(metric.key(), "A metric of the window.", &|w| {
            w.metrics[place].1
        });
    }
    family(
        "p_value",
        "Anytime-valid p-value of the test of calibration.",
        &|w| w.verdict.p_value,
    );
    family("alarm", "1 after an alarm.", &|w| {
        f64::from(u8::from(w.verdict.alarm.is_some()))
    });
    text
}

/// A label's value as it is quoted.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A number as the format spells it.
fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_numbers_are_written_as_prometheus_reads_them() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(number(f64::INFINITY), "+Inf");
        assert_eq!(number(f64::NAN), "NaN");
        assert_eq!(number(0.25), "0.25");
    }
}

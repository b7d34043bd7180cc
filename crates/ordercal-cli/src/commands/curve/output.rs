//! A curve as JSON, CSV, tables and a figure.

use std::fs;
use std::path::Path;

use anyhow::Result;
use ordercal::curve::{CurveAxis, CurvePoint};
use ordercal::metrics::Metric;
use ordercal::words::count;
use ordercal_io::write_atomically;
use ordercal_report::{LineFigure, LinePanel, LinePoint, LineSeries, Theme, UNCALIBRATED, to_png};
use serde_json::{Map, Value, json};

use super::CurveResult;
use crate::input::at;
use crate::printer;

/// Pixels of the PNG per unit of the drawing.
const SCALE: f64 = 2.0;
/// The number of methods that fit side by side into 80 columns.
const AT_ONCE: usize = 5;

/// Writes the data and the figure.
pub fn write(folder: &Path, curve: &CurveResult) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
    let file = |name: &str, bytes: &[u8]| write_atomically(&folder.join(name), bytes);
    file(
        "curve.json",
        serde_json::to_string_pretty(&json(curve))?.as_bytes(),
    )?;
    file("curve.csv", csv(curve).as_bytes())?;
    let svg = figure(curve).draw(Theme::LIGHT)?;
    file("curve.svg", svg.as_str().as_bytes())?;
    file("curve.png", &to_png(&svg, SCALE)?)?;
    Ok(())
}

/// As `--json` prints it.
pub fn json(curve: &CurveResult) -> Value {
    let points = curve.points.iter().map(|point| {
        let metrics: Map<String, Value> = point
            .metrics
            .iter()
            .map(|(metric, value)| (metric.key().to_owned(), json!(value)))
            .collect();
        json!({
            "method": point.method,
            "x": point.x,
            "rows": point.rows,
            "seed": point.seed,
            "metrics": metrics,
        })
    });
    json!({
        "dataset": curve.name,
        "over": curve.axis.key(),
        "n_calib": curve.n_calib,
        "n_test": curve.n_test,
        "classes": curve.classes,
        "points": points.collect::<Vec<_>>(),
    })
}

fn csv(curve: &CurveResult) -> String {
    let mut text = String::from("method,x,rows,seed");
    for metric in &curve.metrics {
        text.push_str(&format!(",{metric}"));
    }
    text.push('\n');
    for point in &curve.points {
        let seed = point.seed.map_or(String::new(), |seed| seed.to_string());
        text.push_str(&format!(
            "{},{},{},{seed}",
            point.method, point.x, point.rows
        ));
        for metric in &curve.metrics {
            text.push_str(&format!(",{}", point.metrics[metric]));
        }
        text.push('\n');
    }
    text
}

/// The line of a method: at each x the mean over the seeds, and their range.
fn along(curve: &CurveResult, method: &str, metric: Metric) -> Vec<LinePoint> {
    let own = || curve.points.iter().filter(|p| p.method == method);
    let mut line: Vec<LinePoint> = Vec::new();
    for point in own() {
        let same = |x: f64| (x - point.x).abs() <= 1e-12 * x.abs();
        if line.last().is_some_and(|last| same(last.x)) {
            continue;
        }
        let values: Vec<f64> = own()
            .filter(|p| same(p.x))
            .map(|p| p.metrics[&metric])
            .collect();
        line.push(LinePoint {
            x: point.x,
            y: values.iter().sum::<f64>() / values.len() as f64,
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            repetitions: values.len(),
        });
    }
    line
}

fn methods(curve: &CurveResult) -> Vec<&str> {
    let mut methods: Vec<&str> = Vec::new();
    for point in &curve.points {
        if !methods.contains(&point.method.as_str()) {
            methods.push(&point.method);
        }
    }
    methods
}

fn figure(curve: &CurveResult) -> LineFigure {
    let panels = curve.metrics.iter().map(|&metric| LinePanel {
        name: metric.name().to_owned(),
        series: methods(curve)
            .into_iter()
            .enumerate()
            // A constant line far above the others would flatten them; data and tables have it.
            .filter(|(_, method)| curve.axis == CurveAxis::CalibSize || *method != UNCALIBRATED)
            .map(|(slot, method)| LineSeries {
                name: method.to_owned(),
                slot,
                points: along(curve, method, metric),
            })
            .collect(),
    });
    let rows = |tenth: usize| (curve.n_calib * tenth).div_ceil(10);
    let (title, x_name, x_ticks) = match curve.axis {
        CurveAxis::CalibSize => (
            format!("Effect of the number of calibration rows: {}", curve.name),
            "calibration rows",
            [2, 4, 6, 8, 10]
                .map(|t| (t as f64 / 10.0, rows(t).to_string()))
                .to_vec(),
        ),
        CurveAxis::OdirLambda => (
            format!("Effect of the off-diagonal penalty: {}", curve.name),
            "penalty λ",
            [-4, -1, 2, 5, 8]
                .map(|p| (10_f64.powi(p), format!("1e{p}").replace('-', "−")))
                .to_vec(),
        ),
    };
    let seeds = curve.points.iter().filter_map(|p| p.seed);
    let (first, last) = (seeds.clone().min(), seeds.max());
    let drawn = match (first, last) {
        (Some(a), Some(b)) if a == b => format!("; rows drawn with seed {a}"),
        (Some(a), Some(b)) => format!("; mean and range over seeds {a} to {b}"),
        _ => String::new(),
    };
    LineFigure {
        title,
        x_name: x_name.to_owned(),
        logarithmic: curve.axis == CurveAxis::OdirLambda,
        x_ticks,
        panels: panels.collect(),
        note: format!(
            "measured on {} of {} classes{drawn}",
            count(curve.n_test, "row", "rows"),
            curve.classes
        ),
    }
}

/// Tables of the means over the seeds, within 80 columns.
pub fn tables(curve: &CurveResult) -> String {
    let methods = methods(curve);
    let mut text = Vec::new();
    for &metric in &curve.metrics {
        for group in methods.chunks(AT_ONCE) {
            let mut header = vec![metric.to_string()];
            header.extend(group.iter().map(|&m| m.to_owned()));
            let lines: Vec<Vec<LinePoint>> =
                group.iter().map(|m| along(curve, m, metric)).collect();
            let rows = (0..lines[0].len()).map(|place| {
                let mut row = vec![label(curve, lines[0][place].x)];
                row.extend(lines.iter().map(|line| format!("{:.4}", line[place].y)));
                row
            });
            text.push(printer::table(header, rows.collect()));
        }
    }
    text.join("\n")
}

fn label(curve: &CurveResult, x: f64) -> String {
    match curve.axis {
        CurveAxis::CalibSize => {
            let near = |p: &&CurvePoint| (p.x - x).abs() < 1e-9;
            let rows = curve.points.iter().find(near).map_or(0, |p| p.rows);
            format!("{:.0}% ({rows})", 100.0 * x)
        }
        CurveAxis::OdirLambda => format!("λ = {x:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn curve() -> CurveResult {
        let point = |method: &str, x: f64, seed: u64, nll: f64| CurvePoint {
            method: method.to_owned(),
            x,
            rows: (100.0 * x) as usize,
            seed: Some(seed),
            metrics: BTreeMap::from([(Metric::Nll, nll)]),
        };
        CurveResult {
            name: "set".to_owned(),
            axis: CurveAxis::CalibSize,
            n_calib: 100,
            n_test: 50,
            classes: 3,
            metrics: vec![Metric::Nll],
            points: vec![
                point("ts", 0.1, 1, 0.5),
                point("ts", 0.1, 2, 0.7),
                point("ts", 0.2, 1, 0.4),
                point("ts", 0.2, 2, 0.4),
                point("oi", 0.1, 1, 0.9),
                point("oi", 0.2, 1, 0.3),
            ],
        }
    }

    #[test]
    fn curves_are_means_over_seeds_with_their_range() {
        let line = along(&curve(), "ts", Metric::Nll);
        assert_eq!(line.len(), 2);
        assert!((line[0].y - 0.6).abs() < 1e-12 && line[0].repetitions == 2);
        assert!((line[0].low - 0.5).abs() < 1e-12 && (line[0].high - 0.7).abs() < 1e-12);
        assert_eq!(methods(&curve()), ["ts", "oi"]);
    }

    #[test]
    fn data_hold_every_fit() {
        let text = csv(&curve());
        assert_eq!(text.lines().count(), 7);
        assert!(text.contains("ts,0.1,10,2,0.7\n"), "{text}");
        assert_eq!(json(&curve())["points"].as_array().unwrap().len(), 6);
        let svg = figure(&curve()).draw(Theme::LIGHT).unwrap();
        assert!(svg.as_str().contains("mean and range over seeds 1 to 2"));
    }
}

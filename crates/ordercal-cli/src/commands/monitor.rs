//! `ordercal monitor`: calibration over time.

mod prometheus;
mod windows;

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use ordercal::metrics::{BootstrapOptions, Metric, MetricState, Target};
use ordercal::monitor::{Alarm, Monitor, Verdict};
use ordercal_io::write_atomically;
use ordercal_report::{LineFigure, LinePanel, LinePoint, LineSeries, Theme};
use serde_json::{Value, json};

use crate::args::MonitorArgs;
use crate::exit::Exit;
use crate::output::{check_distinct, is_png, write_figure};
use crate::printer::{self, Printer};
use windows::Windows;

/// The metrics of a window.
const METRICS: [Metric; 3] = [Metric::Accuracy, Metric::Nll, Metric::Ece];

pub fn run(args: &MonitorArgs, printer: Printer) -> Result<Exit> {
    for output in [&args.output, &args.prometheus].into_iter().flatten() {
        let others = args
            .inputs
            .iter()
            .chain(&args.model)
            .map(|path| path.as_path());
        check_distinct(output, others)?;
    }
    if let Some(path) = &args.output {
        is_png(path)?;
    }
    let printer = match &args.prometheus {
        Some(path) => printer.beside(path)?,
        None => printer,
    };
    // A wrong number is told before the data is read.
    Monitor::new(2, args.alpha)?;
    let windows = Windows::read(args, printer)?;
    // The segments share the chance of a false alarm.
    let alpha = args.alpha / windows.segments.len() as f64;
    let names = &windows.names;
    let watched = windows.segments.into_iter().map(|(name, states)| {
        Segment::watch(name, names, states, alpha, windows.classes.as_deref())
    });
    let watched = watched.collect::<Result<Vec<Segment>>>()?;
    let alarms = watched.iter().any(|segment| segment.alarm.is_some());
    if let Some(path) = &args.output {
        let svg = figure(&watched, names, args).draw(Theme::LIGHT)?;
        write_figure(path, &svg, None)?;
    }
    if let Some(path) = &args.prometheus {
        write_atomically(path, prometheus::text(&watched).as_bytes())?;
    }
    printer.json(&json!({
        "alpha": args.alpha,
        "alarm": alarms,
        "segments": watched.iter().map(Segment::to_json).collect::<Vec<_>>(),
    }));
    for segment in &watched {
        segment.print(printer, args.alpha);
    }
    Ok(if alarms {
        Exit::ThresholdFailed
    } else {
        Exit::Done
    })
}

/// A segment after all windows.
struct Segment {
    name: String,
    windows: Vec<Window>,
    /// The place of the window of the first alarm, and what is not calibrated.
    alarm: Option<(usize, String)>,
}

struct Window {
    name: String,
    /// Its place among the windows of all segments.
    place: usize,
    rows: u64,
    /// Value and, where it can be told, interval of each metric.
    metrics: Vec<(Metric, f64, Option<[f64; 2]>)>,
    verdict: Verdict,
}

impl Segment {
    fn watch(
        name: String,
        names: &[String],
        states: Vec<(usize, MetricState)>,
        alpha: f64,
        classes: Option<&[String]>,
    ) -> Result<Self> {
        let Some((_, first)) = states.first() else {
            bail!("{name}: there are no windows");
        };
        let mut monitor = Monitor::new(first.classes(), alpha)?;
        let how = BootstrapOptions::default().with_resamples(200);
        let windows = states.into_iter().map(|(place, state)| {
            let window = &names[place];
            let wrong = |e: ordercal::Error| anyhow!("{name}, window {window}: {e}");
            let verdict = monitor.push(&state).map_err(wrong)?;
            let values = state.finalize().map_err(wrong)?;
            let intervals = state.intervals(&how).map_err(wrong)?;
            let metrics = METRICS.map(|metric| {
                let interval = intervals.get(&metric).map(|i| [i.lower, i.upper]);
                (metric, values[&metric].value, interval)
            });
            Ok(Window {
                rows: state.rows(),
                metrics: metrics.to_vec(),
                name: window.clone(),
                place,
                verdict,
            })
        });
        let windows = windows.collect::<Result<Vec<_>>>()?;
        let alarm = windows.last().and_then(|window| window.verdict.alarm);
        let alarm = alarm.map(|Alarm { window, target, .. }| (window, describe(target, classes)));
        Ok(Self {
            name,
            windows,
            alarm,
        })
    }

    fn to_json(&self) -> Value {
        let windows = self.windows.iter().map(|window| {
            let metrics = window.metrics.iter();
            let values: BTreeMap<&str, f64> =
                metrics.clone().map(|(m, v, _)| (m.key(), *v)).collect();
            let intervals = metrics.filter_map(|(m, _, i)| Some((m.key(), (*i)?)));
            json!({
                "window": window.name,
                "n": window.rows,
                "metrics": values,
                "interval": intervals.collect::<BTreeMap<_, _>>(),
                "p_value": window.verdict.p_value,
                "log_wealth": window.verdict.log_wealth,
            })
        });
        let alarm = self.alarm.as_ref();
        let alarm = alarm.map(|(place, of)| json!({"window": self.windows[*place].name, "of": of}));
        json!({
            "segment": self.name,
            "alarm": alarm,
            "windows": windows.collect::<Vec<_>>(),
        })
    }

    fn print(&self, printer: Printer, alpha: f64) {
        let [accuracy, nll, ece] = METRICS.map(Metric::key);
        let header = [&self.name, "rows", accuracy, nll, ece, "p-value"];
        let lines = self.windows.iter().enumerate().map(|(place, window)| {
            let mut line = vec![window.name.clone(), window.rows.to_string()];
            line.extend(
                window
                    .metrics
                    .iter()
                    .map(|(_, value, interval)| match interval {
                        Some([low, high]) => format!("{value:.4} ({low:.3}\u{2013}{high:.3})"),
                        None => format!("{value:.4}"),
                    }),
            );
            let alarm = self.alarm.as_ref();
            let here = alarm.is_some_and(|(alarm, _)| *alarm == place);
            let mark = if here { " alarm" } else { "" };
            line.push(format!("{:.2e}{mark}", window.verdict.p_value));
            line
        });
        printer.result(printer::table(header, lines.collect()));
        match &self.alarm {
            Some((place, of)) => printer::failure(format_args!(
                "alarm: {}: {of} is not calibrated any more, from window {} on at the latest",
                self.name, self.windows[*place].name
            )),
            None => printer.remark(format_args!(
                "{}: no sign of miscalibration (the chance of a false alarm is at most {alpha} in all)",
                self.name
            )),
        }
    }
}

fn describe(target: Target, classes: Option<&[String]>) -> String {
    let Target::Class(class) = target else {
        return "the predicted class".to_owned();
    };
    match classes.and_then(|names| names.get(class)) {
        Some(name) => format!("class {name}"),
        None => format!("class {class}"),
    }
}

fn figure(segments: &[Segment], names: &[String], args: &MonitorArgs) -> LineFigure {
    let step = names.len().div_ceil(4).max(1);
    let series = |value: &dyn Fn(&Window) -> (f64, f64, f64)| -> Vec<LineSeries> {
        let lines = segments
            .iter()
            .enumerate()
            .map(|(slot, segment)| LineSeries {
                name: segment.name.clone(),
                slot,
                points: segment
                    .windows
                    .iter()
                    .map(|window| {
                        let (y, low, high) = value(window);
                        LinePoint {
                            x: window.place as f64,
                            y,
                            low,
                            high,
                            repetitions: 1,
                        }
                    })
                    .collect(),
            });
        lines.collect()
    };
    let metric = |place: usize| LinePanel {
        name: METRICS[place].to_string(),
        series: series(&|window| {
            let (_, value, interval) = window.metrics[place];
            let [low, high] = interval.unwrap_or([value, value]);
            (value, low, high)
        }),
    };
    let evidence = LinePanel {
        name: "evidence, −log₁₀ p".to_owned(),
        series: series(&|window| {
            let evidence = -window.verdict.p_value.log10();
            (evidence, evidence, evidence)
        }),
    };
    LineFigure {
        title: "Calibration over time".to_owned(),
        x_name: args.by.clone().unwrap_or_else(|| "window".to_owned()),
        logarithmic: false,
        x_ticks: names
            .iter()
            .enumerate()
            .step_by(step)
            .map(|(x, name)| (x as f64, name.clone()))
            .collect(),
        panels: vec![metric(0), metric(2), evidence],
        note: format!(
            "{} windows; the chance of a false alarm is at most {} over all of them",
            names.len(),
            args.alpha
        ),
    }
}

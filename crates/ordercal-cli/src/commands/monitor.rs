//! `ordercal monitor`: calibration over time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use ordercal::compare::predictions;
use ordercal::metrics::{
    BootstrapOptions, Metric, MetricOptions, MetricState, Predictions, Target,
};
use ordercal::monitor::{Alarm, Monitor, Verdict};
use ordercal::{Dataset, ScoreKind};
use ordercal_io::{DataRef, IdValues, LabelNeed, RowReader, write_atomically};
use ordercal_report::{LineFigure, LinePanel, LinePoint, LineSeries, Theme, to_png};
use serde_json::{Value, json};

use super::merge::read;
use crate::args::MonitorArgs;
use crate::exit::Exit;
use crate::input::at;
use crate::models::{AnyModel, match_classes};
use crate::output::check_distinct;
use crate::printer::{self, Printer};

/// The metrics of a window.
const METRICS: [Metric; 3] = [Metric::Accuracy, Metric::Nll, Metric::Ece];

/// The segment of rows that are not divided.
const ALL: &str = "all rows";

/// Runs the command.
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
    let segments = match &args.by {
        Some(by) => from_table(args, by)?,
        None => BTreeMap::from([(ALL.to_owned(), from_states(args)?)]),
    };
    // The segments share the chance of a false alarm.
    let alpha = args.alpha / segments.len().max(1) as f64;
    let watched = segments
        .into_iter()
        .map(|(name, windows)| Segment::watch(name, windows, alpha));
    let watched = watched.collect::<Result<Vec<Segment>>>()?;
    let alarms = watched.iter().any(|segment| segment.alarm().is_some());
    if let Some(path) = &args.output {
        let svg = figure(&watched, args).draw(Theme::LIGHT)?;
        match is_png(path)? {
            true => write_atomically(path, &to_png(&svg, 2.0)?)?,
            false => write_atomically(path, svg.as_str().as_bytes())?,
        }
    }
    if let Some(path) = &args.prometheus {
        write_atomically(path, prometheus(&watched).as_bytes())?;
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

/// Whether a figure is written as pixels.
fn is_png(path: &Path) -> Result<bool> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("png") => Ok(true),
        Some("svg") => Ok(false),
        _ => bail!(
            "{}: a figure is written as .svg or .png: use one of these endings",
            path.display()
        ),
    }
}

/// The windows of a segment, by name.
type Windows = Vec<(String, MetricState)>;

fn from_states(args: &MonitorArgs) -> Result<Windows> {
    let states = args.inputs.iter().map(|path| {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        let state = read(path).map_err(|e| {
            anyhow::anyhow!("{e}; a table of scores needs --by with the column of the window")
        })?;
        Ok((name.to_string_lossy().into_owned(), state))
    });
    states.collect()
}

/// A value of the column of windows, in its order: numbers by size, texts by letter.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct WindowKey(i64, String);

impl WindowKey {
    fn of(values: &IdValues, row: usize) -> Self {
        match values {
            IdValues::Integer(values) => Self(values[row], values[row].to_string()),
            values => Self(0, values.text(row)),
        }
    }
}

fn from_table(args: &MonitorArgs, by: &str) -> Result<BTreeMap<String, Windows>> {
    let [path] = &args.inputs[..] else {
        bail!(
            "--by is for one file with a column of windows, and {} were given",
            args.inputs.len()
        );
    };
    let model = args.model.as_deref().map(AnyModel::load).transpose()?;
    let mut ids: Vec<String> = vec![by.to_owned()];
    ids.extend(args.segment.clone());
    ids.extend(model.iter().flat_map(|model| model.by().iter().cloned()));
    let mut options = args
        .read
        .options()
        .with_kind(args.kind)
        .with_class_names(args.classes.names())
        .with_labels(LabelNeed::Required);
    options.columns = options.columns.with_ids(&ids);
    let mut reader = RowReader::open(&DataRef::parse(path), options)?;
    if let (Some(model), Some(file)) = (&model, &args.model) {
        match_classes(&mut reader, [(file.as_path(), model.pooled())])?;
    }
    let empty = MetricState::new(reader.classes(), MetricOptions::default())?;
    let mut found: BTreeMap<String, BTreeMap<WindowKey, MetricState>> = BTreeMap::new();
    for chunk in reader {
        let chunk = chunk?;
        let data = chunk.dataset()?;
        let mut rows: BTreeMap<(String, WindowKey), Vec<usize>> = BTreeMap::new();
        for row in 0..chunk.len() {
            let segment = args
                .segment
                .as_ref()
                .map_or(ALL.to_owned(), |_| chunk.ids[1].text(row));
            let key = (segment, WindowKey::of(&chunk.ids[0], row));
            rows.entry(key).or_default().push(row);
        }
        for ((segment, window), rows) in rows {
            let windows = found.entry(segment).or_default();
            let state = windows.entry(window).or_insert_with(|| empty.clone());
            let ids: Vec<IdValues> = chunk.ids.iter().map(|ids| ids.keep(&rows)).collect();
            let updated = update(state, &data.select(&rows), model.as_ref(), &ids);
            updated.map_err(|e| chunk.locate(e))?;
        }
    }
    if found.is_empty() {
        return Err(at(path, "there are no rows"));
    }
    let named = |(key, state): (WindowKey, MetricState)| (key.1, state);
    let segments = found.into_iter();
    Ok(segments
        .map(|(name, windows)| (name, windows.into_iter().map(named).collect()))
        .collect())
}

fn update(
    state: &mut MetricState,
    data: &Dataset<'_>,
    model: Option<&AnyModel>,
    ids: &[IdValues],
) -> ordercal::Result<()> {
    let Some(model) = model else {
        return state.update(&Predictions::from(data));
    };
    let probs = model.apply::<f64>(data.scores(), ids, ScoreKind::Probs)?;
    state.update(&predictions(probs.view(), data)?)
}

/// A segment after all windows.
struct Segment {
    name: String,
    windows: Vec<Window>,
}

struct Window {
    name: String,
    rows: u64,
    /// Value and, where it can be told, interval of each metric.
    metrics: Vec<(Metric, f64, Option<[f64; 2]>)>,
    verdict: Verdict,
}

impl Segment {
    fn watch(name: String, windows: Windows, alpha: f64) -> Result<Self> {
        let Some((_, first)) = windows.first() else {
            bail!("{name}: there are no windows");
        };
        let mut monitor = Monitor::new(first.classes(), alpha)?;
        let how = BootstrapOptions::default().with_resamples(200);
        let windows = windows.into_iter().map(|(window, state)| {
            let wrong = |e: ordercal::Error| anyhow::anyhow!("{name}, window {window}: {e}");
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
                name: window,
                verdict,
            })
        });
        let windows = windows.collect::<Result<Vec<_>>>()?;
        Ok(Self { name, windows })
    }

    fn alarm(&self) -> Option<Alarm> {
        self.windows.last().and_then(|window| window.verdict.alarm)
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
        let alarm = self.alarm().map(|alarm| {
            json!({"window": self.windows[alarm.window].name, "of": describe(alarm.target)})
        });
        json!({
            "segment": self.name,
            "alarm": alarm,
            "windows": windows.collect::<Vec<_>>(),
        })
    }

    fn print(&self, printer: Printer, alpha: f64) {
        let mut header: Vec<String> = [self.name.as_str(), "rows"].map(str::to_owned).to_vec();
        header.extend(METRICS.iter().map(ToString::to_string));
        header.push("p-value".to_owned());
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
            let here = self.alarm().is_some_and(|alarm| alarm.window == place);
            let mark = if here { " alarm" } else { "" };
            line.push(format!("{:.2e}{mark}", window.verdict.p_value.min(1.0)));
            line
        });
        printer.result(printer::table(header, lines.collect()));
        match self.alarm() {
            Some(alarm) => printer::failure(format_args!(
                "alarm: {}: {} not calibrated any more, from window {} on at the latest",
                self.name,
                describe(alarm.target),
                self.windows[alarm.window].name
            )),
            None => printer.remark(format_args!(
                "{}: no sign of miscalibration (the chance of a false alarm is at most {alpha} in all)",
                self.name
            )),
        }
    }
}

fn describe(target: Target) -> String {
    match target {
        Target::Class(class) => format!("class {class} is"),
        _ => "the predicted class is".to_owned(),
    }
}

fn figure(segments: &[Segment], args: &MonitorArgs) -> LineFigure {
    let names: BTreeSet<&str> = segments
        .iter()
        .flat_map(|segment| segment.windows.iter().map(|w| w.name.as_str()))
        .collect();
    let longest = segments.iter().max_by_key(|segment| segment.windows.len());
    let ticks: Vec<&str> = longest.map_or(Vec::new(), |s| {
        s.windows.iter().map(|w| w.name.as_str()).collect()
    });
    let step = ticks.len().div_ceil(4).max(1);
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
                    .enumerate()
                    .map(|(x, window)| {
                        let (y, low, high) = value(window);
                        LinePoint {
                            x: x as f64,
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
            let evidence = -window.verdict.p_value.min(1.0).log10();
            (evidence, evidence, evidence)
        }),
    };
    LineFigure {
        title: "Calibration over time".to_owned(),
        x_name: args.by.clone().unwrap_or_else(|| "window".to_owned()),
        logarithmic: false,
        logarithmic_y: false,
        x_ticks: ticks
            .iter()
            .enumerate()
            .step_by(step)
            .map(|(x, name)| (x as f64, (*name).to_owned()))
            .collect(),
        panels: vec![metric(0), metric(2), evidence],
        note: format!(
            "{} windows; the chance of a false alarm is at most {} over all of them",
            names.len(),
            args.alpha
        ),
    }
}

/// The last window of each segment in Prometheus' text format.
fn prometheus(segments: &[Segment]) -> String {
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
            let (segment, window) = (escape(&segment.name), escape(&last.name));
            let _ = writeln!(
                text,
                "ordercal_{name}{{segment=\"{segment}\",window=\"{window}\"}} {}",
                value(last)
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
        &|w| w.verdict.p_value.min(1.0),
    );
    family("alarm", "1 after an alarm.", &|w| {
        f64::from(u8::from(w.verdict.alarm.is_some()))
    });
    text
}

/// A label's value, as Prometheus wants it quoted.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted_as_prometheus_reads_them() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn windows_are_in_the_order_of_their_numbers() {
        let values = IdValues::Integer(vec![10, 9]);
        assert!(WindowKey::of(&values, 1) < WindowKey::of(&values, 0));
        let values = IdValues::Text(vec!["2026-02-01".into(), "2026-01-31".into()]);
        assert!(WindowKey::of(&values, 1) < WindowKey::of(&values, 0));
    }
}

//! Metrics of scores and of what models make of them.

use std::collections::BTreeMap;

use anyhow::Result;
use ordercal::compare::{Measures, changed_predictions, predictions};
use ordercal::metrics::{Metric, MetricOptions, MetricState, Predictions, bootstrap, evaluate};
use ordercal::{Dataset, Model, ScoreKind};
use serde_json::{Map, Value, json};

use crate::printer;
use crate::verdict::Gap;

/// Only what the verdict needs.
pub fn headline() -> Measures {
    Measures {
        metrics: vec![Metric::Ece],
        options: MetricOptions::default(),
        bootstrap: None,
    }
}

/// The metrics to compute: those to report, and the one that the verdict is about.
fn computed(measures: &Measures) -> Vec<Metric> {
    let mut metrics = measures.metrics.clone();
    if !metrics.contains(&Metric::Ece) {
        metrics.push(Metric::Ece);
    }
    metrics
}

/// How good one set of probabilities is.
#[derive(Debug, Clone)]
pub struct Measured {
    /// `uncalibrated`, or the model's name.
    pub name: String,
    /// N.
    pub rows: usize,
    /// Every metric that was computed.
    pub values: BTreeMap<Metric, f64>,
    /// How far a value may be from the exact one, where it is not exact.
    pub bounds: BTreeMap<Metric, f64>,
    /// 95% intervals, if they were asked for.
    pub intervals: BTreeMap<Metric, [f64; 2]>,
    /// How many predictions differ from those of the scores.
    pub changed: usize,
    /// How far confidence is from accuracy.
    pub gap: Gap,
}

impl Measured {
    /// As in `evaluate --json`.
    pub fn to_json(&self, metrics: &[Metric]) -> Value {
        let pick = |value: &dyn Fn(Metric) -> Option<Value>| -> Map<String, Value> {
            let entries = metrics.iter().filter_map(|m| Some((m.key(), value(*m)?)));
            entries.map(|(key, v)| (key.to_owned(), v)).collect()
        };
        let mut value = json!({
            "name": self.name,
            "metrics": pick(&|m| self.values.get(&m).map(|v| json!(v))),
            "interval": pick(&|m| self.intervals.get(&m).map(|v| json!(v))),
            "changed_predictions": self.changed,
        });
        if !self.bounds.is_empty() {
            value["error_bound"] = pick(&|m| self.bounds.get(&m).map(|v| json!(v))).into();
        }
        value
    }
}

/// Scores and models measured on rows that are in memory.
pub fn measure_whole(
    data: &Dataset<'_>,
    models: &[(String, &Model)],
    plan: &Measures,
) -> Result<Vec<Measured>> {
    let mut rows = vec![measure("uncalibrated", &Predictions::from(data), 0, plan)?];
    for (name, model) in models {
        let probs = model.apply::<f64>(data.scores(), ScoreKind::Probs)?;
        let predictions = predictions(probs.view(), data)?;
        let changed = changed_predictions(data, probs.view());
        rows.push(measure(name, &predictions, changed, plan)?);
    }
    Ok(rows)
}

/// The state of scores, or of what a model makes of them.
pub fn state_of(
    data: &Dataset<'_>,
    model: Option<&Model>,
    options: &MetricOptions,
) -> ordercal::Result<MetricState> {
    let mut state = MetricState::new(data.classes(), options.clone())?;
    match model {
        None => state.update(&Predictions::from(data))?,
        Some(model) => {
            let probs = model.apply::<f64>(data.scores(), ScoreKind::Probs)?;
            state.update(&predictions(probs.view(), data)?)?;
        }
    }
    Ok(state)
}

fn measure(
    name: &str,
    predictions: &Predictions<'_>,
    changed: usize,
    plan: &Measures,
) -> Result<Measured> {
    let metrics = computed(plan);
    let values = evaluate(predictions, &metrics, &plan.options)?;
    let mut intervals = BTreeMap::new();
    if let Some(how) = &plan.bootstrap {
        for (metric, found) in bootstrap(predictions, &metrics, &plan.options, how)? {
            intervals.insert(metric, [found.lower, found.upper]);
        }
    }
    let gap = Gap::new(
        values[&Metric::Ece],
        &predictions.row_stats(),
        predictions.weights(),
    );
    Ok(Measured {
        name: name.to_owned(),
        rows: predictions.rows(),
        values,
        bounds: BTreeMap::new(),
        intervals,
        changed,
        gap,
    })
}

/// Tables with a metric in every row and what was measured side by side, as many as 80 columns hold.
pub fn tables(rows: &[Measured], metrics: &[Metric]) -> String {
    let Some((first, rest)) = rows.split_first() else {
        return String::new();
    };
    let at_once = match (first.intervals.is_empty(), first.bounds.is_empty()) {
        (true, true) => 5,
        (true, false) => 3,
        (false, _) => 2,
    };
    let groups: Vec<&[Measured]> = if rest.is_empty() {
        vec![rest]
    } else {
        rest.chunks(at_once).collect()
    };
    let tables = groups.into_iter().map(|group| {
        let columns: Vec<&Measured> = std::iter::once(first).chain(group).collect();
        let mut header = vec![String::new()];
        header.extend(columns.iter().map(|c| shorten(&c.name)));
        let mut lines: Vec<Vec<String>> = metrics
            .iter()
            .map(|&metric| {
                let mut line = vec![metric.to_string()];
                line.extend(columns.iter().map(|c| cell(c, metric)));
                line
            })
            .collect();
        if !group.is_empty() {
            let mut line = vec!["changed".to_owned()];
            line.extend(columns.iter().map(|c| c.changed.to_string()));
            lines.push(line);
        }
        printer::table(header, lines)
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn cell(measured: &Measured, metric: Metric) -> String {
    let value = measured.values.get(&metric).copied().unwrap_or(f64::NAN);
    if let Some([low, high]) = measured.intervals.get(&metric) {
        return format!("{value:.4} ({low:.3}–{high:.3})");
    }
    match measured.bounds.get(&metric) {
        // A bound for the worst case says nothing if it is larger than the value.
        Some(bound) if *bound > value => format!("≈ {value:.4}"),
        Some(bound) => format!("{value:.4} ± {bound:.4}"),
        None => format!("{value:.4}"),
    }
}

/// A name that leaves room for others; its end tells models apart.
fn shorten(name: &str) -> String {
    const LONGEST: usize = 16;
    let count = name.chars().count();
    if count <= LONGEST {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count - (LONGEST - 1)).collect();
    format!("…{tail}")
}

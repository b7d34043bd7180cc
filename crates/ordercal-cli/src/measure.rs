//! Metrics of scores and of models' probabilities, as tables and JSON.

use std::collections::BTreeMap;

use anyhow::Result;
use ordercal::compare::{self, Measured, Measures, changed_predictions};
use ordercal::metrics::{Metric, MetricState, Predictions};
use ordercal::models::UncalibratedModel;
use ordercal::{Dataset, Model, ScoreKind};
use serde_json::{Map, Value, json};

use crate::printer;
use crate::verdict::Gap;

/// The metrics of one set of probabilities.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// `uncalibrated`, or the model's name.
    pub name: String,
    /// N.
    pub rows: usize,
    /// The metrics.
    pub values: BTreeMap<Metric, f64>,
    /// Error bounds of the metrics that are not exact.
    pub bounds: BTreeMap<Metric, f64>,
    /// Bootstrap intervals, if requested.
    pub intervals: BTreeMap<Metric, [f64; 2]>,
    /// The number of predictions that differ from those of the scores.
    pub changed: u64,
    /// How far confidence is from accuracy.
    pub gap: Gap,
}

impl Evaluation {
    /// The evaluation of rows in memory.
    pub fn new(name: &str, rows: usize, measured: &Measured) -> Self {
        let intervals = measured.intervals.iter();
        Self {
            name: name.to_owned(),
            rows,
            values: measured.metrics.clone(),
            bounds: BTreeMap::new(),
            intervals: intervals
                .map(|(metric, found)| (*metric, [found.lower, found.upper]))
                .collect(),
            changed: measured.changed_predictions,
            gap: Gap::of(&measured.reliability),
        }
    }

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

/// Evaluates the scores and the models on rows in memory.
pub fn evaluate_in_memory(
    data: &Dataset<'_>,
    models: &[(String, &Model)],
    measures: &Measures,
) -> Result<Vec<Evaluation>> {
    let scores = Model::from(UncalibratedModel::new(data.classes())?);
    let models = models.iter().map(|(name, model)| (name.as_str(), *model));
    let all = std::iter::once(("uncalibrated", &scores)).chain(models);
    let evaluate = |(name, model): (&str, &Model)| {
        let measured = compare::measure(model, data, measures)?;
        Ok(Evaluation::new(name, data.examples(), &measured))
    };
    all.map(evaluate).collect()
}

/// Calls `work` with the predictions of a model, or of the scores themselves, and with the number of
/// predictions that the model changed.
pub fn with_predictions<T>(
    data: &Dataset<'_>,
    model: Option<&Model>,
    work: impl FnOnce(&Predictions<'_>, usize) -> ordercal::Result<T>,
) -> ordercal::Result<T> {
    let Some(model) = model else {
        return work(&Predictions::from(data), 0);
    };
    let probs = model.apply::<f64>(data.scores(), ScoreKind::Probs)?;
    let changed = changed_predictions(data, probs.view());
    work(&compare::predictions(probs.view(), data)?, changed)
}

/// Adds the rows of the scores, or of a model's probabilities, to a state.
pub fn state_of(
    data: &Dataset<'_>,
    model: Option<&Model>,
    mut empty: MetricState,
) -> ordercal::Result<MetricState> {
    with_predictions(data, model, |predictions, _| empty.update(predictions))?;
    Ok(empty)
}

/// Tables with a row for each metric and a column for each evaluation, as many as 80 characters hold. The
/// first evaluation is repeated in every table.
pub fn tables(evaluations: &[Evaluation], metrics: &[Metric]) -> String {
    let Some((first, rest)) = evaluations.split_first() else {
        return String::new();
    };
    let at_once = match (first.intervals.is_empty(), first.bounds.is_empty()) {
        (true, true) => 5,
        (true, false) => 3,
        (false, _) => 2,
    };
    let groups: Vec<&[Evaluation]> = if rest.is_empty() {
        vec![rest]
    } else {
        rest.chunks(at_once).collect()
    };
    let tables = groups.into_iter().map(|group| {
        let columns: Vec<&Evaluation> = std::iter::once(first).chain(group).collect();
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

fn cell(evaluation: &Evaluation, metric: Metric) -> String {
    let value = evaluation.values.get(&metric).copied().unwrap_or(f64::NAN);
    if let Some([low, high]) = evaluation.intervals.get(&metric) {
        return format!("{value:.4} ({low:.3}–{high:.3})");
    }
    match evaluation.bounds.get(&metric) {
        // A worst-case bound above the value itself would tell nothing.
        Some(bound) if *bound > value => format!("≈ {value:.4}"),
        Some(bound) => format!("{value:.4} ± {bound:.4}"),
        None => format!("{value:.4}"),
    }
}

/// Long names keep their ends, which tell models apart.
fn shorten(name: &str) -> String {
    const LONGEST: usize = 16;
    let count = name.chars().count();
    if count <= LONGEST {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count - (LONGEST - 1)).collect();
    format!("…{tail}")
}

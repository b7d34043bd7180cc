//! Metrics of scores and of models' probabilities, as tables and JSON.

use std::collections::BTreeMap;

use ordercal::compare::{self, Measured, Measures, changed_predictions};
use ordercal::grouped::GroupKey;
use ordercal::metrics::{Metric, MetricState, Predictions};
use ordercal::models::UncalibratedModel;
use ordercal::{Dataset, Model, ScoreKind};
use serde_json::{Map, Value, json};

use crate::models::{Applied, Columns};
use crate::printer::{self, MOST_GROUPS};
use crate::verdict::Gap;

/// The metrics of one set of probabilities.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// `uncalibrated`, or the model's name.
    pub name: String,
    pub rows: usize,
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

/// Evaluates the scores and the models on rows in memory; `columns` are those of the rows that tell their groups.
pub fn evaluate_in_memory(
    data: &Dataset<'_>,
    columns: Columns<'_>,
    models: &[(String, Applied<'_>)],
    measures: &Measures,
) -> ordercal::Result<Vec<Evaluation>> {
    let scores = Model::from(UncalibratedModel::new(data.classes())?);
    let models = models.iter().map(|(name, model)| (name.as_str(), *model));
    let all = std::iter::once(("uncalibrated", Applied::One(&scores))).chain(models);
    let evaluate = |(name, model): (&str, Applied<'_>)| {
        let measured = match model {
            Applied::One(model) => compare::measure(model, data, measures)?,
            Applied::Groups(..) => {
                let probs = model.apply::<f64>(data.scores(), columns, ScoreKind::Probs)?;
                compare::measure_probs(probs.view(), data, measures)?
            }
        };
        Ok(Evaluation::new(name, data.examples(), &measured))
    };
    all.map(evaluate).collect()
}

/// The evaluations of some rows: the scores themselves, and each of the models.
#[derive(Debug, Clone)]
pub struct Part {
    pub rows: usize,
    pub evaluations: Vec<Evaluation>,
}

/// Evaluates the scores and the models on the rows of each group by the columns `by`.
pub fn evaluate_parts(
    data: &Dataset<'_>,
    columns: Columns<'_>,
    by: &[String],
    models: &[(String, Applied<'_>)],
    measures: &Measures,
) -> ordercal::Result<BTreeMap<GroupKey, Part>> {
    let groups = columns.rows_of(by).into_iter();
    let evaluate = |(key, rows): (GroupKey, Vec<usize>)| {
        let values = columns.keep(&rows);
        let columns = Columns {
            values: &values,
            ..columns
        };
        let evaluations = evaluate_in_memory(&data.select(&rows), columns, models, measures)?;
        let rows = rows.len();
        Ok((key, Part { rows, evaluations }))
    };
    groups.map(evaluate).collect()
}

/// Calls `work` with the predictions of a model, or of the scores themselves, and with the number of
/// predictions that the model changed.
pub fn with_predictions<T>(
    data: &Dataset<'_>,
    columns: Columns<'_>,
    model: Option<Applied<'_>>,
    work: impl FnOnce(&Predictions<'_>, usize) -> ordercal::Result<T>,
) -> ordercal::Result<T> {
    let Some(model) = model else {
        return work(&Predictions::from(data), 0);
    };
    let probs = model.apply::<f64>(data.scores(), columns, ScoreKind::Probs)?;
    let changed = changed_predictions(data, probs.view());
    work(&compare::predictions(probs.view(), data)?, changed)
}

/// Adds the rows of the scores, or of a model's probabilities, to a state.
pub fn state_of(
    data: &Dataset<'_>,
    columns: Columns<'_>,
    model: Option<Applied<'_>>,
    mut empty: MetricState,
) -> ordercal::Result<MetricState> {
    let update = |predictions: &Predictions<'_>, _| empty.update(predictions);
    with_predictions(data, columns, model, update)?;
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

/// A table with a row for each group, of one evaluation in each: its metrics that fit in 80 characters.
pub fn group_table(groups: &BTreeMap<GroupKey, Part>, place: usize, metrics: &[Metric]) -> String {
    let with_intervals = |part: &Part| !part.evaluations[place].intervals.is_empty();
    let at_once = if groups.values().any(with_intervals) {
        2
    } else {
        4
    };
    let metrics = &metrics[..metrics.len().min(at_once)];
    let name = |part: &Part| shorten(&part.evaluations[place].name);
    let mut header = vec![groups.values().next().map_or(String::new(), name)];
    header.push("rows".to_owned());
    header.extend(metrics.iter().map(ToString::to_string));
    let lines = groups.iter().take(MOST_GROUPS).map(|(key, part)| {
        let mut line = vec![key.join(", "), part.rows.to_string()];
        let found = &part.evaluations[place];
        line.extend(metrics.iter().map(|&metric| cell(found, metric)));
        line
    });
    printer::table(header, lines.collect())
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

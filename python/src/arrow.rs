//! Tables of any library that speaks Arrow's C data interface: calibrated, or taken into metrics.

use std::collections::BTreeMap;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use ordercal::grouped::RowGroups;
use ordercal::metrics::{MetricState, Predictions};
use ordercal::ndarray::Array2;
use ordercal::{Real, ScoreKind, Scores};
use ordercal_io::{
    BatchReader, BatchResults, ColumnChoice, IdValues, LabelNeed, OutputType, ReadOptions, RowChunk,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::arrays::kind;
use crate::capsules::{ArrowBatch, ArrowStream, Batches, Given};
use crate::errors::{file, refuse};
use crate::groups::Groups;
use crate::model::Model;
use crate::pool::in_pool;
use crate::state::State;

/// Calibrates the rows of a table: an `ArrowBatch` for a batch, an `ArrowStream` for anything else, which is computed
/// while it is read if `lazy`.
///
/// `columns` are those of the scores, found by their names if empty. `classes` are the classes of those columns,
/// `known` those of the model.
#[pyfunction]
pub fn apply_arrow(
    py: Python<'_>,
    model: AnyModel,
    table: &Bound<'_, PyAny>,
    columns: Vec<String>,
    source: &str,
    target: &str,
    wide: Option<bool>,
    classes: Option<Vec<String>>,
    known: Option<Vec<String>>,
    name: Option<&str>,
    skip: bool,
    lazy: bool,
) -> PyResult<Py<PyAny>> {
    let given = Given::take(table)?;
    let options = ReadOptions::default()
        .with_kind(kind(source)?)
        .with_labels(LabelNeed::Ignored)
        .with_columns(
            ColumnChoice::default()
                .with_scores(columns)
                .with_ids(model.by()),
        )
        .with_class_names(classes);
    let mut reader = BatchReader::new(&given.schema(), options, None).map_err(file)?;
    let count = model.classes();
    reader
        .match_classes(count, known.as_deref(), "the model")
        .map_err(file)?;
    let dtype = match wide.unwrap_or(reader.is_double()) {
        true => OutputType::F64,
        false => OutputType::F32,
    };
    let kind = kind(target)?;
    let results = BatchResults::new(&reader, kind, dtype, count, known.as_deref(), name);
    let mut calibration = Calibration {
        reader: if skip {
            reader.with_missing_as_nan()
        } else {
            reader
        },
        model,
        results,
        kind,
        skip,
    };
    match given {
        Given::Batch(batch) => {
            let batch = py.detach(|| calibration.apply(&batch)).map_err(refuse)?;
            ArrowBatch::new(batch).into_py_any(py)
        }
        Given::Stream(batches) if lazy => {
            let stream: Batches = Box::new(Calibrated {
                batches,
                calibration,
            });
            ArrowStream::new(stream).into_py_any(py)
        }
        Given::Stream(mut batches) => {
            let all = py.detach(|| -> Result<Vec<RecordBatch>, String> {
                let batches = batches.by_ref().map(|batch| {
                    let batch = batch.map_err(|e| e.to_string())?;
                    calibration.apply(&batch)
                });
                batches.collect()
            });
            let schema = SchemaRef::clone(calibration.results.schema());
            ArrowStream::of(schema, all.map_err(refuse)?).into_py_any(py)
        }
    }
}

/// One model, or those of groups.
#[derive(FromPyObject)]
pub enum AnyModel {
    /// One model.
    One(Py<Model>),
    /// Those of groups.
    Groups(Py<Groups>),
}

impl AnyModel {
    fn classes(&self) -> usize {
        match self {
            Self::One(model) => model.get().saved().model.classes(),
            Self::Groups(groups) => groups.get().saved().model.classes(),
        }
    }

    /// The columns that say which group a row is of.
    fn by(&self) -> Vec<String> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Groups(groups) => groups.get().saved().by.clone(),
        }
    }

    fn apply<T: Real>(
        &self,
        scores: &Scores<'_>,
        ids: &[IdValues],
        kind: ScoreKind,
    ) -> ordercal::Result<Array2<T>> {
        match self {
            Self::One(model) => model.get().saved().model.apply(scores, kind),
            Self::Groups(groups) => {
                let key = |row| ids.iter().map(|ids| ids.text(row)).collect();
                let rows = RowGroups::new(scores.rows(), key);
                groups.get().saved().model.apply(scores, &rows, kind)
            }
        }
    }
}

/// What is done with each batch.
struct Calibration {
    reader: BatchReader,
    model: AnyModel,
    results: BatchResults,
    kind: ScoreKind,
    /// Whether rows that cannot be calibrated have no result, instead of being errors.
    skip: bool,
}

impl Calibration {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let rows = self.reader.read(batch).map_err(|e| e.to_string())?;
        Ok(match self.results.dtype() {
            OutputType::F32 => {
                let (results, without) = self.calibrate::<f32>(&rows)?;
                self.results.add::<Float32Type>(batch, results, &without)
            }
            OutputType::F64 => {
                let (results, without) = self.calibrate::<f64>(&rows)?;
                self.results.add::<Float64Type>(batch, results, &without)
            }
        })
    }

    /// Results, and the rows that have none.
    fn calibrate<T: Real>(&self, rows: &RowChunk) -> Result<(Array2<T>, Vec<usize>), String> {
        if rows.is_empty() {
            return Ok((Array2::default((0, self.model.classes())), Vec::new()));
        }
        in_pool(|| {
            let (scores, without) = if self.skip {
                let found = Scores::without_invalid(rows.kind, rows.scores.view());
                found.map_err(|e| rows.locate(e).to_string())?
            } else {
                let scores = rows.checked_scores().map_err(|e| e.to_string())?;
                (scores, Vec::new())
            };
            let results = self.model.apply::<T>(&scores, &rows.ids, self.kind);
            Ok((results.map_err(|e| rows.locate(e).to_string())?, without))
        })?
    }
}

/// The batches of a stream, calibrated.
struct Calibrated {
    batches: Batches,
    calibration: Calibration,
}

impl Iterator for Calibrated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.and_then(|batch| {
            let applied = self.calibration.apply(&batch);
            applied.map_err(ArrowError::ComputeError)
        }))
    }
}

impl RecordBatchReader for Calibrated {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.calibration.results.schema())
    }
}

/// Takes the rows of a table into a state, all or, after an error, none of them. With columns `by`, returns a state for
/// each combination of their values, too.
#[pyfunction]
pub fn update_arrow<'py>(
    py: Python<'py>,
    state: &State,
    table: &Bound<'py, PyAny>,
    columns: Vec<String>,
    source: &str,
    label: &str,
    weight: Option<&str>,
    classes: Option<Vec<String>>,
    by: Vec<String>,
) -> PyResult<Vec<(Vec<Bound<'py, PyAny>>, State)>> {
    let given = Given::take(table)?;
    let empty = py.detach(|| state.empty()).map_err(refuse)?;
    let choice = ColumnChoice::default()
        .with_label(label)
        .with_scores(columns)
        .with_ids(by.clone());
    let options = ReadOptions::default()
        .with_kind(kind(source)?)
        .with_labels(LabelNeed::Required)
        .with_columns(choice)
        .with_class_names(classes);
    let mut reader = BatchReader::new(&given.schema(), options, weight).map_err(file)?;
    reader
        .match_classes(empty.classes(), None, "the state")
        .map_err(file)?;
    let batches = given.into_stream();
    let groups = py
        .detach(|| in_pool(|| groups(&mut reader, batches, &empty)))
        .map_err(refuse)?
        .map_err(refuse)?;
    py.detach(|| -> ordercal::Result<()> {
        let mut all = empty.clone();
        for group in groups.values() {
            all.merge(&group.state)?;
        }
        state.take_in(&all)
    })
    .map_err(refuse)?;
    if by.is_empty() {
        return Ok(Vec::new());
    }
    let entries = groups.into_values().map(|group| {
        let key = group.key.iter().map(|part| match part {
            IdValues::Integer(value) => value[0].into_bound_py_any(py),
            IdValues::Float(value) => value[0].into_bound_py_any(py),
            IdValues::Text(value) => value[0].as_str().into_bound_py_any(py),
        });
        Ok((key.collect::<PyResult<_>>()?, State::with(group.state)))
    });
    entries.collect()
}

/// The rows of a combination of values.
struct Group {
    /// One value for each column.
    key: Vec<IdValues>,
    state: MetricState,
}

fn groups(
    reader: &mut BatchReader,
    batches: Batches,
    empty: &MetricState,
) -> Result<BTreeMap<Vec<String>, Group>, String> {
    let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
    for batch in batches {
        let batch = batch.map_err(|e| e.to_string())?;
        let rows = reader.read(&batch).map_err(|e| e.to_string())?;
        if rows.is_empty() {
            continue;
        }
        let data = rows.dataset().map_err(|e| e.to_string())?;
        let mut members: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        for row in 0..rows.len() {
            let key = rows.ids.iter().map(|ids| ids.text(row)).collect();
            members.entry(key).or_default().push(row);
        }
        for (key, members) in members {
            let first = members[0];
            let group = groups.entry(key).or_insert_with(|| Group {
                key: rows.ids.iter().map(|ids| ids.keep(&[first])).collect(),
                state: empty.clone(),
            });
            let updated = if members.len() == rows.len() {
                group.state.update(&Predictions::from(&data))
            } else {
                group
                    .state
                    .update(&Predictions::from(&data.select(&members)))
            };
            updated.map_err(|e| rows.locate(e).to_string())?;
        }
    }
    Ok(groups)
}

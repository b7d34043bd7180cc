//! Fits to rows that are divided over many places.

use std::sync::Mutex;
use std::time::Instant;

use ordercal::diagnose::check_report;
use ordercal::methods::divided::{Answer, DividedRows, Question};
use ordercal::{Error, Method, Unwatched};
use ordercal_io::{BatchReader, ClassType, ColumnChoice, LabelNeed, ReadOptions, SavedModel};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::kind;
use crate::capsules::{Batches, Given};
use crate::errors::{file, refuse, warn};
use crate::model::{Model, read_class_type};
use crate::pool::{detached, in_pool};

/// Fits a method, given as JSON, to all rows. `ask` is called with a question as text, and returns for each part of the rows
/// its number and what `answer` gave there.
#[pyfunction]
#[pyo3(signature = (method, ask, kind_name, class_names=None, class_type=None))]
pub fn fit_divided(
    py: Python<'_>,
    method: &str,
    ask: Py<PyAny>,
    kind_name: &str,
    class_names: Option<Vec<String>>,
    class_type: Option<&str>,
) -> PyResult<Model> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let kind = kind(kind_name)?;
    let class_type = class_type.map_or(Ok(ClassType::Text), read_class_type)?;
    // What Python raised, an interrupt for instance, is raised again at the end.
    let raised = Mutex::new(None);
    let start = Instant::now();
    let fitted = detached(py, || {
        let ask = |question: &Question| {
            let answers = Python::attach(|py| call(py, &ask, question));
            answers.map_err(|error| {
                let message = error.to_string();
                if let Ok(mut raised) = raised.lock() {
                    *raised = Some(error);
                }
                Error::Elsewhere { message }
            })
        };
        method.fit_divided(&DividedRows::new(&ask)?, &Unwatched)
    })?;
    if let Ok(Some(error)) = raised.into_inner() {
        return Err(error);
    }
    let fitted = fitted.map_err(refuse)?;
    let warnings = check_report(&fitted.report);
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    warn(py, &warnings)?;
    let saved = SavedModel::new(method, fitted)
        .with_class_names(class_names)
        .with_class_type(class_type)
        .with_kind(kind);
    Ok(Model::new(saved, start.elapsed().as_secs_f64()))
}

fn call(py: Python<'_>, ask: &Py<PyAny>, question: &Question) -> PyResult<Vec<(usize, Answer)>> {
    let text = serde_json::to_string(question).map_err(refuse)?;
    let answers: Vec<(usize, Vec<u8>)> = ask.call1(py, (text,))?.extract(py)?;
    let read = |(part, bytes): (usize, Vec<u8>)| Ok((part, Answer::from_bytes(&bytes)?));
    let answers = answers.into_iter().map(read);
    answers.collect::<ordercal::Result<_>>().map_err(refuse)
}

/// The answer to a question for the rows of a table, which are those of a part and have `count` classes. The other
/// parameters are those of `update_arrow`.
#[pyfunction]
#[pyo3(signature = (question, part, table, count, columns, source, label, weight=None, classes=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn answer<'py>(
    py: Python<'py>,
    question: &str,
    part: usize,
    table: &Bound<'py, PyAny>,
    count: usize,
    columns: Vec<String>,
    source: &str,
    label: &str,
    weight: Option<&str>,
    classes: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let question: Question = serde_json::from_str(question).map_err(refuse)?;
    let given = Given::take(table)?;
    let choice = ColumnChoice::default()
        .with_label(label)
        .with_scores(columns);
    let options = ReadOptions::default()
        .with_kind(kind(source)?)
        .with_labels(LabelNeed::Required)
        .with_columns(choice)
        .with_class_names(classes);
    let mut reader = BatchReader::new(&given.schema(), options, weight).map_err(file)?;
    reader.match_classes(count, None, "the fit").map_err(file)?;
    let batches = given.into_stream();
    let sums = py
        .detach(|| in_pool(|| add_up(&question, part, &mut reader, batches)))
        .map_err(refuse)?
        .map_err(refuse)?;
    Ok(PyBytes::new(py, &sums.to_bytes()))
}

fn add_up(
    question: &Question,
    part: usize,
    reader: &mut BatchReader,
    batches: Batches,
) -> Result<Answer, String> {
    let mut sums = Answer::default();
    let mut first = 0;
    for batch in batches {
        let batch = batch.map_err(|e| e.to_string())?;
        let rows = reader.read(&batch).map_err(|e| e.to_string())?;
        // Rows without weight add nothing, and a dataset of them alone is refused.
        let weightless = |weights: &Vec<f64>| weights.iter().all(|weight| *weight == 0.0);
        if rows.is_empty() || rows.weights.as_ref().is_some_and(weightless) {
            continue;
        }
        let data = rows.dataset().map_err(|e| e.to_string())?;
        let answer = question.answer(&data, part, first);
        question.add(&mut sums, answer.map_err(|e| rows.locate(e).to_string())?);
        first += data.rows();
    }
    Ok(sums)
}

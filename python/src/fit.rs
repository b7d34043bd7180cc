//! Fitting.

use std::time::Instant;

use numpy::PyReadonlyArray1;
use ordercal::Method;
use ordercal::diagnose::{RowChecks, check_report};
use ordercal_io::{ClassType, SavedModel};
use ordercal_report::UNCALIBRATED;
use pyo3::prelude::*;

use crate::arrays::{Labels, Matrix, Rows, kind};
use crate::errors::{refuse, warn};
use crate::model::{Model, read_class_type};
use crate::watch::beside;

/// Learns a model; `method` is JSON with its key under `method`.
#[pyfunction]
#[pyo3(signature = (
    method, scores, kind_name, labels, weights=None, class_names=None, class_type=None, groups=None, progress=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn fit(
    py: Python<'_>,
    method: &str,
    scores: Matrix<'_>,
    kind_name: &str,
    labels: Labels<'_>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    class_names: Option<Vec<String>>,
    class_type: Option<&str>,
    groups: Option<PyReadonlyArray1<'_, u32>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    let kind = kind(kind_name)?;
    let class_type = class_type.map_or(Ok(ClassType::Text), read_class_type)?;
    if groups.is_some() && !method.has_own_folds() {
        return Err(refuse(format!(
            "groups are about folds, and {} is fitted to all rows at once: leave them out",
            method.key()
        )));
    }
    let rows = Rows::with_soft_labels(&labels, weights.as_ref())
        .with_groups(groups.map(|groups| groups.as_array().to_vec()));
    let scores = scores.view();
    let fitted = beside(py, progress, |watch| {
        let start = Instant::now();
        let data = rows.dataset(kind, scores)?;
        let fitted = method.fit_watched(&data, watch)?;
        let seconds = start.elapsed().as_secs_f64();
        let warnings = RowChecks::of(&data)
            .of_classes(class_names.as_deref())
            .before_fit();
        Ok::<_, ordercal::Error>((fitted, seconds, warnings, data.fingerprint()))
    })?;
    let (fitted, seconds, mut warnings, fingerprint) = fitted.map_err(refuse)?;
    if method.key() != UNCALIBRATED {
        warnings.extend(check_report(&fitted.report));
    }
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    warn(py, &warnings)?;
    let saved = SavedModel::new(method, fitted)
        .with_class_names(class_names)
        .with_class_type(class_type)
        .with_kind(kind)
        .with_data(fingerprint);
    Ok(Model::new(saved, seconds))
}

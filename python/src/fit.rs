//! Fitting.

use std::time::Instant;

use ordercal::Method;
use ordercal::diagnose::{RowChecks, check_report};
use ordercal_io::SavedModel;
use ordercal_report::UNCALIBRATED;
use pyo3::prelude::*;

use crate::arrays::Rows;
use crate::errors::{refuse, warn};
use crate::model::{ClassNames, Model};
use crate::watch::beside;

/// Learns a model; `method` is JSON with its key under `method`.
#[pyfunction]
pub fn fit(
    py: Python<'_>,
    method: &str,
    rows: Rows<'_>,
    classes: ClassNames,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let method: Method = serde_json::from_str(method).map_err(refuse)?;
    if rows.has_groups() && !method.has_own_folds() {
        return Err(refuse(format!(
            "groups are about folds, and {} is fitted to all rows at once: leave them out",
            method.key()
        )));
    }
    let kind = rows.kind()?;
    let data = rows.data()?;
    let fitted = beside(py, progress, |watch| {
        let start = Instant::now();
        let data = data.dataset()?;
        let fitted = method.fit_watched(&data, watch)?;
        let seconds = start.elapsed().as_secs_f64();
        let warnings = RowChecks::of(&data)
            .of_classes(classes.names.as_deref())
            .before_fit();
        Ok::<_, ordercal::Error>((fitted, seconds, warnings, data.fingerprint()))
    })?;
    let (fitted, seconds, mut warnings, fingerprint) = fitted.map_err(refuse)?;
    if method.key() != UNCALIBRATED {
        warnings.extend(check_report(&fitted.report));
    }
    warn(py, &warnings)?;
    let saved = SavedModel::new(method, fitted)
        .with_class_names(classes.names)
        .with_class_type(classes.class_type)
        .with_kind(kind)
        .with_data(fingerprint);
    Ok(Model::new(saved, seconds))
}

//! What the Python package calls: arrays in, arrays out, everything else is the library's.
//!
//! Settings cross the border as JSON, in the form that configuration files have. The interpreter is free
//! while anything is computed.
#![allow(
    clippy::too_many_arguments,
    reason = "a function's parameters are the keywords of one Python call"
)]

mod arrays;
mod arrow;
mod capsules;
mod compare;
mod decide;
mod errors;
mod fit;
mod groups;
mod metrics;
mod model;
mod order;
mod pool;
mod state;
mod watch;

use pyo3::prelude::*;

/// The native part of `ordercal`.
#[pymodule]
mod _native {
    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use super::arrays::match_class_names;
    #[pymodule_export]
    use super::arrow::{apply_arrow, update_arrow};
    #[pymodule_export]
    use super::capsules::{ArrowBatch, ArrowStream};
    #[pymodule_export]
    use super::compare::{compare, comparison_defaults};
    #[pymodule_export]
    use super::decide::{Sets, decompose, threshold};
    #[pymodule_export]
    use super::fit::fit;
    #[pymodule_export]
    use super::groups::{GroupTree, Groups, fit_group, fit_groups};
    #[pymodule_export]
    use super::methods::{brief, defaults, estimate, keys, promises_order, python_class};
    #[pymodule_export]
    use super::metrics::{describe_metric, evaluate, metrics, reliability, top_label_metrics};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::order::keep_order;
    #[pymodule_export]
    use super::state::State;

    /// The same limit of memory as the tool's.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        if let Some(bytes) = ordercal_io::default_memory_limit() {
            ordercal::memory::set_limit(bytes);
        }
        Ok(())
    }
}

mod methods {
    use ordercal::Method;
    use pyo3::prelude::*;

    use crate::errors::{refuse, to_json};
    use crate::pool::in_pool;

    /// The keys of all methods, in the order of the tables.
    #[pyfunction]
    pub fn keys() -> Vec<String> {
        Method::all().iter().map(|m| m.key().to_owned()).collect()
    }

    /// A method with its default hyperparameters, as JSON.
    #[pyfunction]
    pub fn defaults(key: &str) -> PyResult<String> {
        let method = Method::from_key(key).map_err(refuse)?;
        to_json(&method)
    }

    /// Seconds and bytes that a fit is going to take, if the method says; `method` is JSON.
    #[pyfunction]
    pub fn estimate(method: &str, rows: usize, classes: usize) -> PyResult<Option<(f64, f64)>> {
        let method: Method = serde_json::from_str(method).map_err(refuse)?;
        let estimate = in_pool(|| method.estimate(rows, classes)).map_err(refuse)?;
        Ok(estimate.map(|estimate| (estimate.seconds, estimate.bytes)))
    }

    /// What a method learns, in a few words.
    #[pyfunction]
    pub fn brief(key: &str) -> PyResult<&'static str> {
        Ok(Method::from_key(key).map_err(refuse)?.brief())
    }

    /// The name of a method's class.
    #[pyfunction]
    pub fn python_class(key: &str) -> PyResult<&'static str> {
        let method = Method::from_key(key).map_err(refuse)?;
        Ok(method.python_class().unwrap_or("Calibrator"))
    }

    /// Whether a method keeps the ranking of every row.
    #[pyfunction]
    pub fn promises_order(key: &str) -> PyResult<bool> {
        Ok(Method::from_key(key).map_err(refuse)?.promises_order())
    }
}

//! Several methods on several datasets.

use std::time::Instant;

use numpy::PyReadonlyArray2;
use ordercal::compare::{METHODS, METRICS, Measures, RESAMPLES, line_up, measure, measure_probs};
use ordercal::diagnose::RowChecks;
use ordercal::metrics::Metric;
use ordercal::ndarray::ArrayView2;
use ordercal::select::{Search, search};
use ordercal::{Method, Watch};
use ordercal_report::{
    Comparison, DatasetResult, MethodResult, Table, summary, tables, to_html, to_json, to_latex,
};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::arrays::{RowData, Rows};
use crate::errors::{refuse, warn};
use crate::metrics::parse;
use crate::watch::beside;

/// A name, rows to fit on, rows to measure on, and for each calibrator of the user's own its name, whether it keeps the
/// order, the probabilities of the test rows and the seconds of the fit.
type Given<'py> = (
    String,
    Rows<'py>,
    Rows<'py>,
    Vec<(String, bool, PyReadonlyArray2<'py, f64>, f64)>,
);

/// What a comparison does if nobody says: the methods, the metrics and the number of resamples.
#[pyfunction]
pub fn comparison_defaults() -> (Vec<&'static str>, Vec<&'static str>, usize) {
    let metrics = METRICS.iter().map(|m| m.key()).collect();
    (METHODS.to_vec(), metrics, RESAMPLES)
}

/// Fits methods, each JSON with its key under `method`, and measures them: the comparison as JSON, and another object with
/// what else there is of it, its tables as text, LaTeX and HTML, and its marks.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    datasets: Vec<Given<'_>>,
    methods: Vec<String>,
    metrics: Vec<String>,
    bins: usize,
    effort: &str,
    folds: Option<usize>,
    resamples: usize,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let read = |json: &String| serde_json::from_str(json).map_err(refuse);
    let methods = methods
        .iter()
        .map(read)
        .collect::<PyResult<Vec<Method>>>()?;
    let metrics = parse(&metrics)?;
    let measures = Measures::new(&metrics)
        .with_bins(bins)
        .with_bootstrap(resamples, seed);
    measures.validate().map_err(refuse)?;
    let mut how = Search::default()
        .with_effort(effort.parse().map_err(refuse)?)
        .with_seed(seed);
    how.folds = folds;
    let plan = Plan {
        methods: line_up(methods).map_err(refuse)?,
        metrics,
        measures,
        search: how,
    };
    let sets = datasets.iter().map(|(name, calib, test, external)| {
        let external = external.iter().map(|(name, keeps_order, probs, seconds)| {
            (name.as_str(), *keeps_order, probs.as_array(), *seconds)
        });
        Ok(Set {
            name,
            calib: calib.data()?,
            test: test.data()?,
            external: external.collect(),
        })
    });
    let sets = sets.collect::<PyResult<Vec<Set<'_>>>>()?;
    let (comparison, warnings) =
        beside(py, progress, |watch| plan.run(sets, watch))?.map_err(refuse)?;
    warn(py, &warnings)?;
    let json = to_json(&comparison).to_string();
    let joined = |format: fn(&Table) -> String| {
        let tables: Vec<String> = tables(&comparison).iter().map(format).collect();
        tables.join("\n")
    };
    let forms = json!({
        "text": summary(&comparison),
        "latex": joined(to_latex),
        "html": joined(to_html),
        "marks": marks(&comparison),
    });
    Ok((json, forms.to_string()))
}

/// By metric, dataset and method: whether it cannot be told from the best.
fn marks(comparison: &Comparison) -> Value {
    let by_method = |marks: Vec<bool>| -> Value {
        let methods = comparison.methods().into_iter();
        let marked = methods
            .zip(marks)
            .map(|((key, _), m)| (key.to_owned(), json!(m)));
        Value::Object(marked.collect())
    };
    let metrics = comparison.metrics().iter();
    let by_metric = metrics.map(|&metric| {
        let datasets = comparison.datasets().iter().enumerate();
        let mut found: Map<String, Value> = datasets
            .map(|(place, set)| {
                (
                    set.name.clone(),
                    by_method(comparison.close_to_best(metric, place)),
                )
            })
            .collect();
        let average = by_method(comparison.close_to_best_average(metric));
        found.insert("average_relative_error".to_owned(), average);
        (metric.key().to_owned(), Value::Object(found))
    });
    Value::Object(by_metric.collect())
}

/// One dataset, not looked at yet.
struct Set<'a> {
    name: &'a str,
    calib: RowData<'a>,
    test: RowData<'a>,
    external: Vec<(&'a str, bool, ArrayView2<'a, f64>, f64)>,
}

/// All that decides the numbers.
struct Plan {
    methods: Vec<Method>,
    metrics: Vec<Metric>,
    measures: Measures,
    search: Search,
}

impl Plan {
    /// The comparison and the warnings. Errors are words: they say where and of which method.
    fn run(
        &self,
        sets: Vec<Set<'_>>,
        watch: &dyn Watch,
    ) -> Result<(Comparison, Vec<String>), String> {
        let mut warnings = Vec::new();
        let results = sets
            .into_iter()
            .map(|set| self.one(set, watch, &mut warnings));
        let results = results.collect::<Result<Vec<_>, _>>()?;
        let comparison = Comparison::new(self.metrics.clone(), results);
        Ok((comparison.map_err(|e| e.to_string())?, warnings))
    }

    fn one(
        &self,
        set: Set<'_>,
        watch: &dyn Watch,
        warnings: &mut Vec<String>,
    ) -> Result<DatasetResult, String> {
        let name = set.name;
        let wrong = |split: &'static str| move |e| format!("{name}, {split}: {e}");
        let calib = set.calib.dataset().map_err(wrong("calib"))?;
        let test = set.test.dataset().map_err(wrong("test"))?;
        let fit = RowChecks::of(&calib).before_fit();
        let mut checks =
            RowChecks::new(test.classes()).of_models_fitted_on(vec![calib.fingerprint()]);
        checks.add(&test);
        for (split, found) in [("calib", fit), ("test", checks.evaluation())] {
            warnings.extend(
                found
                    .iter()
                    .map(|warning| format!("{name}, {split}: {warning}")),
            );
        }
        let methods = self.methods.iter().map(|method| {
            let wrong = |e| format!("{name}, {}: {e}", method.key());
            let start = Instant::now();
            let found = search(method, &calib, &self.search, watch).map_err(wrong)?;
            let seconds = start.elapsed().as_secs_f64();
            let measured = measure(&found.fitted.model, &test, &self.measures).map_err(wrong)?;
            Ok(MethodResult::new(&found, &measured, Some(seconds)))
        });
        let external = set
            .external
            .iter()
            .map(|&(own, keeps_order, probs, seconds)| {
                let measured = measure_probs(probs, &test, &self.measures)
                    .map_err(|e| format!("{name}, {own}: {e}"))?;
                Ok::<_, String>(MethodResult::external(
                    own,
                    keeps_order,
                    &measured,
                    Some(seconds),
                ))
            });
        Ok(DatasetResult {
            name: name.to_owned(),
            n_calib: calib.rows(),
            n_test: test.rows(),
            classes: test.classes(),
            methods: methods.chain(external).collect::<Result<_, _>>()?,
        })
    }
}

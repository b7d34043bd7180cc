//! Several methods on several datasets.

use std::time::Instant;

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use ordercal::compare::{METHODS, METRICS, Measures, RESAMPLES, line_up, measure, measure_probs};
use ordercal::diagnose::RowChecks;
use ordercal::metrics::Metric;
use ordercal::ndarray::ArrayView2;
use ordercal::select::{Search, search};
use ordercal::{Dataset, Method, ScoreArray, ScoreKind, Watch};
use ordercal_report::{
    Comparison, DatasetResult, MethodResult, Table, summary, tables, to_html, to_json, to_latex,
};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::arrays::{Matrix, Rows, kind};
use crate::errors::{refuse, warn};
use crate::metrics::parse;
use crate::watch::beside;

/// A name, scores and labels to fit on, scores and labels to measure on.
type Given<'py> = (
    String,
    Matrix<'py>,
    PyReadonlyArray1<'py, i64>,
    Matrix<'py>,
    PyReadonlyArray1<'py, i64>,
);

/// A calibrator of the user's own: its name, whether it keeps the order, and for each dataset the probabilities of the
/// test rows with the seconds of the fit.
type External<'py> = (String, bool, Vec<(PyReadonlyArray2<'py, f64>, f64)>);

/// What a comparison does if nobody says: the methods, the metrics and the number of resamples.
#[pyfunction]
pub fn comparison_defaults() -> (Vec<&'static str>, Vec<&'static str>, usize) {
    let metrics = METRICS.iter().map(|m| m.key()).collect();
    (METHODS.to_vec(), metrics, RESAMPLES)
}

/// Fits methods, each JSON with its key under `method`, and measures them: the comparison as JSON, and another object with
/// what else there is of it, its tables as text, LaTeX and HTML, and its marks.
#[pyfunction]
#[pyo3(signature = (datasets, kind_name, methods, external, metrics, bins, effort, folds, resamples, seed, progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keywords of one call"
)]
pub fn compare(
    py: Python<'_>,
    datasets: Vec<Given<'_>>,
    kind_name: &str,
    methods: Vec<String>,
    external: Vec<External<'_>>,
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
        kind: kind(kind_name)?,
        methods: line_up(methods).map_err(refuse)?,
        metrics,
        measures,
        search: how,
    };
    let sets: Vec<Set<'_>> = datasets
        .iter()
        .enumerate()
        .map(
            |(place, (name, calib, calib_labels, test, test_labels))| Set {
                name,
                external: external
                    .iter()
                    .map(|(name, keeps_order, results)| ExternalResult {
                        name,
                        keeps_order: *keeps_order,
                        probs: results[place].0.as_array(),
                        seconds: results[place].1,
                    })
                    .collect(),
                calib: (Rows::new(calib_labels, None), calib.view()),
                test: (Rows::new(test_labels, None), test.view()),
            },
        )
        .collect();
    let (comparison, warnings) =
        beside(py, progress, |watch| plan.run(sets, watch))?.map_err(refuse)?;
    warn(py, &warnings)?;
    let json = serde_json::to_string(&to_json(&comparison)).map_err(refuse)?;
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
    calib: (Rows, ScoreArray<'a>),
    test: (Rows, ScoreArray<'a>),
    external: Vec<ExternalResult<'a>>,
}

/// What a calibrator of the user's own made of a dataset.
struct ExternalResult<'a> {
    name: &'a str,
    keeps_order: bool,
    probs: ArrayView2<'a, f64>,
    seconds: f64,
}

/// All that decides the numbers.
struct Plan {
    kind: ScoreKind,
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
        let ((rows, scores), (test_rows, test_scores)) = (set.calib, set.test);
        let calib = rows.dataset(self.kind, scores).map_err(wrong("calib"))?;
        let test = test_rows.dataset(self.kind, test_scores);
        let test = test.map_err(wrong("test"))?;
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
            let result = self.method(method, &calib, &test, watch);
            result.map_err(|e| format!("{name}, {}: {e}", method.key()))
        });
        let external = set.external.iter().map(|given| {
            let measured = measure_probs(given.probs, &test, &self.measures)
                .map_err(|e| format!("{name}, {}: {e}", given.name))?;
            let seconds = Some(given.seconds);
            let result = MethodResult::external(given.name, given.keeps_order, &measured, seconds);
            Ok::<_, String>(result)
        });
        Ok(DatasetResult {
            name: name.to_owned(),
            n_calib: calib.rows(),
            n_test: test.rows(),
            classes: test.classes(),
            methods: methods.chain(external).collect::<Result<_, _>>()?,
        })
    }

    fn method(
        &self,
        method: &Method,
        calib: &Dataset<'_>,
        test: &Dataset<'_>,
        watch: &dyn Watch,
    ) -> ordercal::Result<MethodResult> {
        let start = Instant::now();
        let found = search(method, calib, &self.search, watch)?;
        let seconds = start.elapsed().as_secs_f64();
        let measured = measure(&found.fitted.model, test, &self.measures)?;
        Ok(MethodResult::new(&found, &measured, Some(seconds)))
    }
}

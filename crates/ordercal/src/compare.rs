//! Comparisons of methods, which are fitted on calibration rows and measured on test rows.
//!
//! ```
//! use ndarray::Array2;
//! use ordercal::compare::{Measures, line_up, measure};
//! use ordercal::metrics::Metric;
//! use ordercal::select::{Search, search};
//! use ordercal::{Dataset, Method, ScoreKind, Scores, Unwatched};
//!
//! let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
//! let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
//! let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
//! let (rows, others): (Vec<usize>, Vec<usize>) = ((0..30).collect(), (30..60).collect());
//! let (calib, test) = (data.select(&rows), data.select(&others));
//!
//! let measures = Measures::new(&[Metric::Nll]);
//! for method in line_up([Method::from_key("ts")?])? {
//!     let found = search(&method, &calib, &Search::default(), &Unwatched)?;
//!     let measured = measure(&found.fitted.model, &test, &measures)?;
//!     assert_eq!(measured.changed_predictions, 0, "{}", method.key());
//! }
//! # Ok::<(), ordercal::Error>(())
//! ```

use std::collections::BTreeMap;

use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::data::{Dataset, ScoreKind};
use crate::error::{Error, Result};
use crate::methods::listed::Uncalibrated;
use crate::metrics::{
    Binning, BootstrapOptions, Interval, Metric, MetricOptions, Predictions, Reliability, Target,
    bootstrap, evaluate, resampled,
};
use crate::models::Model;
use crate::rank::argmax;
use crate::registry::Method;

/// The methods of a comparison by default: order-preserving ones first.
pub const METHODS: [&str; 14] = [
    "uncalibrated",
    "ts",
    "ets",
    "diag",
    "oi",
    "op",
    "auto",
    "sms+order",
    "vs",
    "ms-odir",
    "dir-odir",
    "svs",
    "sms",
    "auto-free",
];

/// The metrics of a comparison by default: those of the paper's tables.
pub const METRICS: [Metric; 7] = [
    Metric::Nll,
    Metric::Ece,
    Metric::DebiasedEce,
    Metric::ClasswiseEceSum,
    Metric::MarginalCe,
    Metric::Brier,
    Metric::Accuracy,
];

/// The number of bootstrap resamples of a comparison by default.
pub const RESAMPLES: usize = 500;

/// Puts `uncalibrated` first and removes repeated methods.
///
/// # Errors
/// [`Error::InvalidArgument`] if two methods have the same key but different hyperparameters: results are identified by
/// key.
pub fn line_up(methods: impl IntoIterator<Item = Method>) -> Result<Vec<Method>> {
    let mut found: Vec<Method> = vec![Uncalibrated::default().into()];
    for method in methods {
        match found.iter().find(|known| known.key() == method.key()) {
            None => found.push(method),
            Some(known) if *known == method => {}
            Some(_) => {
                return Err(Error::InvalidArgument {
                    argument: "methods",
                    found: format!("`{}` twice with different settings", method.key()),
                    expected: "each method with one choice of settings",
                });
            }
        }
    }
    Ok(found)
}

/// The metrics of a comparison and their options.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// The metrics.
    pub metrics: Vec<Metric>,
    /// The options of the metrics, such as the number of bins.
    pub options: MetricOptions,
    /// The options of the bootstrap; `None` for no bootstrap.
    pub bootstrap: Option<BootstrapOptions>,
    /// Whether confidence intervals are computed; `false` by default.
    pub intervals: bool,
    /// Whether the metrics on every resample are kept, for paired comparisons; `true` by default.
    pub keep_resamples: bool,
}

impl Measures {
    /// The metrics `shown`, and the accuracy in any case, with default options and no bootstrap.
    pub fn new(shown: &[Metric]) -> Self {
        let mut metrics = shown.to_vec();
        if !metrics.contains(&Metric::Accuracy) {
            metrics.push(Metric::Accuracy);
        }
        Self {
            metrics,
            options: MetricOptions::default(),
            bootstrap: None,
            intervals: false,
            keep_resamples: true,
        }
    }

    /// Sets the number of bins.
    #[must_use]
    pub fn with_bins(mut self, bins: usize) -> Self {
        self.options = self.options.with_bins(bins);
        self
    }

    /// Sets the number of bootstrap resamples (0 for no bootstrap) and their seed.
    #[must_use]
    pub fn with_bootstrap(mut self, resamples: usize, seed: u64) -> Self {
        let how = BootstrapOptions::default().with_resamples(resamples);
        self.bootstrap = (resamples > 0).then(|| how.with_seed(seed));
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the number of bins or resamples is out of range.
    pub fn validate(&self) -> Result<()> {
        self.options.validate()?;
        self.bootstrap.as_ref().map_or(Ok(()), |how| how.validate())
    }
}

/// The metrics of a model on test rows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The value of each metric.
    pub metrics: BTreeMap<Metric, f64>,
    /// The confidence interval of each metric; empty unless intervals were requested.
    pub intervals: BTreeMap<Metric, Interval>,
    /// The values of each metric on the bootstrap resamples, which are the same for all models; empty without a bootstrap,
    /// or if they are not kept.
    pub resampled: BTreeMap<Metric, Vec<f64>>,
    /// The number of rows whose prediction differs from that of the scores.
    pub changed_predictions: u64,
    /// The bins of the reliability diagram of the top label.
    pub reliability: Reliability,
}

/// Measures a model on test rows.
///
/// # Errors
/// If the test rows have another number of classes than the model, or an option in `measures` is out of range.
pub fn measure(model: &Model, test: &Dataset<'_>, measures: &Measures) -> Result<Measured> {
    let (expected, found) = (model.classes(), test.classes());
    if expected != found {
        return Err(Error::WrongClasses { expected, found });
    }
    check_soft(test, measures)?;
    if matches!(model, Model::Uncalibrated(_)) {
        return of_predictions(&Predictions::from(test), 0, measures);
    }
    let probs = model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
    measure_probs(probs.view(), test, measures)
}

/// Measures N×K probabilities of any origin on test rows.
///
/// # Errors
/// If the shape differs from that of the scores, a row is not a distribution, or an option in `measures` is out of range.
pub fn measure_probs(
    probs: ArrayView2<'_, f64>,
    test: &Dataset<'_>,
    measures: &Measures,
) -> Result<Measured> {
    let (expected, found) = ((test.rows(), test.classes()), probs.dim());
    if expected != found {
        return Err(Error::WrongShape { expected, found });
    }
    check_soft(test, measures)?;
    let changed = changed_predictions(test, probs) as u64;
    of_predictions(&predictions(probs, test)?, changed, measures)
}

/// With soft labels there are only proper scores, and no resamples: the copies of a row would be drawn one by one.
fn check_soft(test: &Dataset<'_>, measures: &Measures) -> Result<()> {
    Metric::check_labels(&measures.metrics, test)?;
    match measures.bootstrap.is_some() && test.has_soft_labels() {
        true => Err(Error::SoftLabels {
            what: "a bootstrap",
        }),
        false => Ok(()),
    }
}

fn of_predictions(
    predictions: &Predictions<'_>,
    changed_predictions: u64,
    measures: &Measures,
) -> Result<Measured> {
    let Measures {
        metrics, options, ..
    } = measures;
    let (mut intervals, mut drawn) = (BTreeMap::new(), BTreeMap::new());
    if let Some(how) = &measures.bootstrap {
        if measures.intervals {
            intervals = bootstrap(predictions, metrics, options, how)?;
        }
        if measures.keep_resamples {
            drawn = resampled(predictions, metrics, options, how)?;
        }
    }
    Ok(Measured {
        metrics: evaluate(predictions, metrics, options)?,
        intervals,
        resampled: drawn,
        changed_predictions,
        reliability: Reliability::new(predictions, Target::TopLabel, Binning::EqualWidth, options)?,
    })
}

/// [`Predictions`] from a model's N×K probabilities with the labels and weights of `data`.
///
/// # Errors
/// If a row is not a distribution, or the numbers of rows differ.
pub fn predictions<'a>(probs: ArrayView2<'a, f64>, data: &Dataset<'_>) -> Result<Predictions<'a>> {
    let predictions = Predictions::from_probs(probs, data.labels())?;
    match data.weights() {
        Some(weights) => predictions.with_weights(weights.to_vec()),
        None => Ok(predictions),
    }
}

/// The number of rows whose most probable class in `probs` (N×K) is not the class with the largest score in `data`.
///
/// Of tied classes, the first is the prediction.
pub fn changed_predictions(data: &Dataset<'_>, probs: ArrayView2<'_, f64>) -> usize {
    let rows = (0..data.rows()).into_par_iter();
    let rows = rows.with_min_len((1 << 14) / data.classes() + 1);
    let rows = rows.filter(|&row| !data.repeats(row));
    let differs = |row: &usize| argmax(data.scores().row(*row)) != argmax(probs.row(*row));
    rows.filter(differs).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scores;
    use crate::methods::listed::{Oi, Ts, Vs};
    use ndarray::{Array2, array};

    #[test]
    fn uncalibrated_comes_first_and_nothing_comes_twice() {
        let keys = |methods: Vec<Method>| {
            let keys = methods.iter().map(|m| m.key().to_owned());
            keys.collect::<Vec<_>>()
        };
        let of = |names: &[&str]| {
            let methods = names.iter().map(|key| Method::from_key(key).unwrap());
            keys(line_up(methods).unwrap())
        };
        assert_eq!(of(&[]), ["uncalibrated"]);
        let asked = ["vs", "ts", "uncalibrated", "vs"];
        assert_eq!(of(&asked), ["uncalibrated", "vs", "ts"]);
        assert_eq!(of(&METHODS), METHODS);
        let oi = Oi::default();
        let twice = [Method::from(oi.clone()), oi.with_hidden([3]).into()];
        let refused = line_up(twice).unwrap_err();
        assert!(
            matches!(&refused, Error::InvalidArgument { argument: "methods", found, .. } if found.contains("`oi`")),
            "{refused:?}"
        );
    }

    #[test]
    fn accuracy_is_computed_whether_it_is_shown_or_not() {
        let with = Measures::new(&[Metric::Accuracy, Metric::Nll]);
        assert_eq!(with.metrics, [Metric::Accuracy, Metric::Nll]);
        let without = Measures::new(&[Metric::Nll]);
        assert_eq!(without.metrics, [Metric::Nll, Metric::Accuracy]);
        assert!(without.clone().with_bins(0).validate().is_err());
        assert!(without.clone().with_bootstrap(0, 1).bootstrap.is_none());
        assert!(without.with_bootstrap(10, 1).validate().is_ok());
    }

    fn data(weighted: bool) -> Dataset<'static> {
        let logits = Array2::from_shape_fn((80, 3), |(row, class)| {
            ((row * (class + 5) + 3 * class) % 13) as f32
        });
        let labels: Vec<u32> = (0..80).map(|row| (row * row) % 3).collect();
        let data = Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap();
        if weighted {
            let weights = (0..80).map(|row| f64::from(row % 4)).collect();
            data.with_weights(weights).unwrap()
        } else {
            data
        }
    }

    #[test]
    fn a_model_is_measured_on_its_own_probabilities() {
        for weighted in [false, true] {
            let data = data(weighted);
            let measures = Measures::new(&[Metric::Nll]).with_bootstrap(20, 7);
            let plain = Method::from_key("uncalibrated").unwrap();
            let before = measure(&plain.fit(&data).unwrap().model, &data, &measures).unwrap();
            assert_eq!(before.changed_predictions, 0);
            let expected = evaluate(&Predictions::from(&data), &[Metric::Nll], &measures.options);
            assert_eq!(
                before.metrics[&Metric::Nll],
                expected.unwrap()[&Metric::Nll]
            );
            assert_eq!(before.resampled[&Metric::Nll].len(), 20);

            let ts = Method::from(Ts::default()).fit(&data).unwrap();
            let after = measure(&ts.model, &data, &measures).unwrap();
            assert!((after.metrics[&Metric::Nll] - ts.report.nll_after).abs() < 1e-6);
            assert_eq!(after.changed_predictions, 0);
            let free = Method::from(Vs::default()).fit(&data).unwrap();
            let free = measure(&free.model, &data, &measures).unwrap();
            assert!(free.changed_predictions > 0);
        }
    }

    #[test]
    fn the_first_of_tied_classes_is_predicted() {
        let scores = Scores::new(ScoreKind::Logits, array![[1.0_f32, 1.0], [0.0, 2.0]]).unwrap();
        let data = Dataset::new(scores, &[0, 1]).unwrap();
        let same = array![[0.5, 0.5], [0.4, 0.6]];
        assert_eq!(changed_predictions(&data, same.view()), 0);
        let other = array![[0.4, 0.6], [0.5, 0.5]];
        assert_eq!(changed_predictions(&data, other.view()), 2);
    }
}

//! The numbers of a comparison: datasets × methods × metrics, with ranks and averages.

use ordercal::metrics::{self, Metric};
use ordercal::words::printable;

use crate::error::{Error, Result};
use crate::result::{DatasetResult, MethodResult};

/// The key of the first method of every comparison, which the others are compared with.
pub const UNCALIBRATED: &str = "uncalibrated";

/// Datasets × methods × metrics, complete: every dataset has the same methods and all of the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    metrics: Vec<Metric>,
    datasets: Vec<DatasetResult>,
}

impl Comparison {
    /// Checks that nothing is missing. Characters of names that would control a terminal or break a table are replaced.
    ///
    /// # Errors
    /// [`Error::Incomplete`] says what is: there has to be a dataset, a metric, `uncalibrated` as the first
    /// method, the same methods everywhere, and every metric of every method.
    pub fn new(metrics: Vec<Metric>, mut datasets: Vec<DatasetResult>) -> Result<Self> {
        let clean = |name: &mut String| *name = name.chars().map(printable).collect();
        for dataset in &mut datasets {
            clean(&mut dataset.name);
            dataset
                .methods
                .iter_mut()
                .for_each(|m| clean(&mut m.method));
        }
        let missing = |what: String| Err(Error::Incomplete { what });
        let Some(first) = datasets.first() else {
            return missing("a dataset".to_owned());
        };
        if metrics.is_empty() {
            return missing("a metric".to_owned());
        }
        for dataset in &datasets {
            let keys = |d: &DatasetResult| -> Vec<String> {
                d.methods.iter().map(|m| m.method.clone()).collect()
            };
            if keys(dataset) != keys(first) {
                return missing(format!(
                    "on {}, the methods of {}",
                    dataset.name, first.name
                ));
            }
            if dataset.methods.first().map(|m| m.method.as_str()) != Some(UNCALIBRATED) {
                return missing(format!(
                    "on {}, {UNCALIBRATED} as the first method",
                    dataset.name
                ));
            }
            for method in &dataset.methods {
                let lacks = |metric: &&Metric| !method.metrics.contains_key(metric);
                if let Some(metric) = metrics.iter().find(lacks) {
                    return missing(format!(
                        "on {}, {metric} of {}",
                        dataset.name, method.method
                    ));
                }
            }
        }
        Ok(Self { metrics, datasets })
    }

    /// The metrics, in the order of the tables.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The datasets.
    pub fn datasets(&self) -> &[DatasetResult] {
        &self.datasets
    }

    /// Every method's key, with whether it is order-preserving; `uncalibrated` is the first.
    pub fn methods(&self) -> Vec<(&str, bool)> {
        let first = &self.datasets[0].methods;
        first
            .iter()
            .map(|m| (m.method.as_str(), m.order_preserving))
            .collect()
    }

    /// The values of a metric on a dataset, method by method.
    pub fn values(&self, metric: Metric, dataset: usize) -> Vec<f64> {
        let methods = &self.datasets[dataset].methods;
        methods.iter().map(|m| m.metrics[&metric]).collect()
    }

    /// What methods are compared by: [`Metric::error`] of the values.
    fn errors(&self, metric: Metric, dataset: usize) -> Vec<f64> {
        let values = self.values(metric, dataset).into_iter();
        values.map(|value| metric.error(value)).collect()
    }

    /// The ranks of the methods by a metric on a dataset.
    pub fn ranks(&self, metric: Metric, dataset: usize) -> Vec<usize> {
        metrics::ranks(&self.errors(metric, dataset), metric.higher_is_better())
    }

    /// Every method's mean over the datasets of metric / uncalibrated metric; of [`Metric::error`] where the best value
    /// is neither the smallest nor the largest.
    pub fn average_relative_errors(&self, metric: Metric) -> Vec<f64> {
        let rows: Vec<Vec<f64>> = (0..self.datasets.len())
            .map(|dataset| self.errors(metric, dataset))
            .collect();
        metrics::average_relative_errors(&rows, 0).expect("a comparison is complete")
    }

    /// The ranks of the average relative errors.
    pub fn average_ranks(&self, metric: Metric) -> Vec<usize> {
        let averages = self.average_relative_errors(metric);
        metrics::ranks(&averages, metric.higher_is_better())
    }

    /// Which methods do not differ significantly from the best on a dataset: the 95% bootstrap interval of
    /// the paired difference contains 0. The best is one of them. All false without resamples.
    pub fn close_to_best(&self, metric: Metric, dataset: usize) -> Vec<bool> {
        let errors = |values: &Vec<f64>| values.iter().map(|&v| metric.error(v)).collect();
        let resampled: Vec<Vec<f64>> = self.datasets[dataset]
            .methods
            .iter()
            .map(|m| m.resampled.get(&metric).map_or(Vec::new(), errors))
            .collect();
        close(metric, &self.errors(metric, dataset), &resampled)
    }

    /// The same for the average relative error, with rows resampled on every dataset. Of one dataset it is the question of
    /// that dataset, and gets the same answer: a difference of ratios is not that of the values.
    pub fn close_to_best_average(&self, metric: Metric) -> Vec<bool> {
        if self.datasets.len() == 1 {
            return self.close_to_best(metric, 0);
        }
        let methods = self.datasets[0].methods.len();
        let resampled: Vec<Vec<f64>> = (0..methods)
            .map(|method| self.resampled_average(metric, method).unwrap_or_default())
            .collect();
        close(metric, &self.average_relative_errors(metric), &resampled)
    }

    fn resampled_average(&self, metric: Metric, method: usize) -> Option<Vec<f64>> {
        let mut sums: Option<Vec<f64>> = None;
        for dataset in &self.datasets {
            let own = dataset.methods[method].resampled.get(&metric)?;
            let uncalibrated = dataset.methods[0].resampled.get(&metric)?;
            let sums = sums.get_or_insert_with(|| vec![0.0; own.len()]);
            if own.len() != sums.len() || uncalibrated.len() != sums.len() {
                return None;
            }
            for (sum, (own, uncalibrated)) in sums.iter_mut().zip(own.iter().zip(uncalibrated)) {
                *sum += metrics::relative_error(metric.error(*own), metric.error(*uncalibrated));
            }
        }
        let datasets = self.datasets.len() as f64;
        sums.map(|sums| sums.into_iter().map(|sum| sum / datasets).collect())
    }

    /// A method's accuracy minus the uncalibrated accuracy, if known.
    pub fn accuracy_change(&self, dataset: usize, method: usize) -> Option<f64> {
        let methods = &self.datasets[dataset].methods;
        let accuracy = |m: &MethodResult| m.metrics.get(&Metric::Accuracy).copied();
        Some(accuracy(&methods[method])? - accuracy(&methods[0])?)
    }
}

/// The level of the bootstrap intervals.
const LEVEL: f64 = 0.95;

/// Which values do not differ significantly from the best, by their differences on the same resamples.
fn close(metric: Metric, values: &[f64], resampled: &[Vec<f64>]) -> Vec<bool> {
    let ranks = metrics::ranks(values, metric.higher_is_better());
    let best = ranks.iter().position(|&rank| rank == 1).unwrap_or(0);
    let draws = resampled[best].len();
    let paired = |own: &[f64]| draws > 0 && own.len() == draws;
    let of = |place: usize| (values[place], &resampled[place][..]);
    (0..values.len())
        .map(|place| {
            paired(&resampled[place]) && {
                let difference = metrics::paired_difference(of(place), of(best), LEVEL);
                difference.lower <= 0.0 && difference.upper >= 0.0
            }
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;

    pub(crate) fn result(method: &str, order: bool, values: &[(Metric, f64)]) -> MethodResult {
        MethodResult {
            method: method.to_owned(),
            metrics: values.iter().copied().collect(),
            resampled: BTreeMap::new(),
            order_preserving: order,
            changed_predictions: if order { 0 } else { 12 },
            fit_seconds: Some(0.5),
            chosen: json!({ "method": method }),
        }
    }

    pub(crate) fn dataset(name: &str, methods: Vec<MethodResult>) -> DatasetResult {
        DatasetResult {
            name: name.to_owned(),
            n_calib: 100,
            n_test: 200,
            classes: 3,
            methods,
        }
    }

    /// Two datasets, a method that keeps the order and a free one.
    pub(crate) fn small() -> Comparison {
        use Metric::{Accuracy, Ece};
        let datasets = vec![
            dataset(
                "first_set",
                vec![
                    result(UNCALIBRATED, true, &[(Ece, 0.10), (Accuracy, 0.9)]),
                    result("ts", true, &[(Ece, 0.05), (Accuracy, 0.9)]),
                    result("vs", false, &[(Ece, 0.04), (Accuracy, 0.91)]),
                ],
            ),
            dataset(
                "second",
                vec![
                    result(UNCALIBRATED, true, &[(Ece, 0.20), (Accuracy, 0.8)]),
                    result("ts", true, &[(Ece, 0.02), (Accuracy, 0.8)]),
                    result("vs", false, &[(Ece, 0.30), (Accuracy, 0.79)]),
                ],
            ),
        ];
        Comparison::new(vec![Ece, Accuracy], datasets).unwrap()
    }

    #[test]
    fn methods_are_ranked_by_the_distance_from_a_best_value_inside_the_range() {
        let slopes = [(UNCALIBRATED, 0.5), ("ts", 1.1), ("vs", 0.8)];
        let of = |(method, slope): (&str, f64)| result(method, true, &[(Metric::CoxSlope, slope)]);
        let datasets = vec![dataset("one", slopes.map(of).into())];
        let comparison = Comparison::new(vec![Metric::CoxSlope], datasets).unwrap();
        assert_eq!(comparison.ranks(Metric::CoxSlope, 0), [3, 1, 2]);
        let average = comparison.average_relative_errors(Metric::CoxSlope);
        assert!((average[1] - 0.2).abs() < 1e-12, "{average:?}");
    }

    #[test]
    fn averages_ranks_and_changes_are_those_of_pencil_and_paper() {
        let comparison = small();
        let average = comparison.average_relative_errors(Metric::Ece);
        for (found, expected) in average.iter().zip([1.0, 0.3, 0.95]) {
            assert!((found - expected).abs() < 1e-12, "{average:?}");
        }
        assert_eq!(comparison.average_ranks(Metric::Ece), [3, 1, 2]);
        assert_eq!(comparison.ranks(Metric::Ece, 0), [3, 2, 1]);
        assert_eq!(comparison.ranks(Metric::Accuracy, 0), [2, 2, 1]);
        let change = comparison.accuracy_change(1, 2).unwrap();
        assert!((change + 0.01).abs() < 1e-12);
        // Without resamples no method is marked.
        assert_eq!(comparison.close_to_best(Metric::Ece, 0), [false; 3]);
        assert_eq!(comparison.close_to_best_average(Metric::Ece), [false; 3]);
    }

    #[test]
    fn what_differs_by_chance_alone_is_close_to_the_best() {
        let mut datasets = small().datasets;
        for dataset in &mut datasets {
            // Methods 1 and 2 differ by chance; 0 is worse in every resample.
            for (place, method) in dataset.methods.iter_mut().enumerate() {
                let (value, spread) = [(0.5, 7), (0.02, 5), (0.02, 3)][place.min(2)];
                let draws = (0..200).map(|i| value + 0.001 * f64::from(i % spread - spread / 2));
                method.resampled.insert(Metric::Ece, draws.collect());
                // The value lies in the middle of its resamples.
                method.metrics.insert(Metric::Ece, value);
            }
        }
        let comparison = Comparison::new(vec![Metric::Ece], datasets).unwrap();
        assert_eq!(
            comparison.close_to_best(Metric::Ece, 0),
            [false, true, true]
        );
        assert_eq!(
            comparison.close_to_best_average(Metric::Ece),
            [false, true, true]
        );
    }

    #[test]
    fn the_average_over_one_dataset_has_the_marks_of_that_dataset() {
        use Metric::Ece;
        let mut only = small().datasets.swap_remove(0);
        // `ts` is far above the best only where the uncalibrated value is large, too: the difference of the values is not
        // significant, that of their ratios would be.
        let values = [(0.1, 0.15), (0.045, 0.061), (0.04, 0.04)];
        for (method, (usual, rare)) in only.methods.iter_mut().zip(values) {
            let draws = (0..100).map(|i| if i % 10 == 0 { rare } else { usual });
            method.resampled.insert(Ece, draws.collect());
        }
        let comparison = Comparison::new(vec![Ece], vec![only]).unwrap();
        assert_eq!(comparison.close_to_best(Ece, 0), [false, true, true]);
        assert_eq!(comparison.close_to_best_average(Ece), [false, true, true]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |metrics: Vec<Metric>, datasets: Vec<DatasetResult>| match Comparison::new(
            metrics, datasets,
        ) {
            Err(Error::Incomplete { what }) => what,
            other => panic!("{other:?}"),
        };
        let datasets = small().datasets;
        assert_eq!(missing(vec![Metric::Ece], vec![]), "a dataset");
        assert_eq!(missing(vec![], datasets.clone()), "a metric");
        let what = missing(vec![Metric::Nll], datasets.clone());
        assert_eq!(what, "on first_set, nll of uncalibrated");
        let mut odd = datasets.clone();
        odd[1].methods.pop();
        assert_eq!(
            missing(vec![Metric::Ece], odd),
            "on second, the methods of first_set"
        );
        let mut odd = datasets;
        for dataset in &mut odd {
            dataset.methods.remove(0);
        }
        let what = missing(vec![Metric::Ece], odd);
        assert_eq!(what, "on first_set, uncalibrated as the first method");
    }
}

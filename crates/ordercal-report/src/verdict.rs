//! The conclusions of a comparison in sentences.

use ordercal::metrics::Metric;

use crate::comparison::Comparison;

/// The metric that decides which method is best: NLL, or else the first error metric.
pub fn deciding_metric(comparison: &Comparison) -> Option<Metric> {
    let errors = || {
        comparison
            .metrics()
            .iter()
            .filter(|m| !m.higher_is_better())
    };
    errors()
        .find(|m| **m == Metric::Nll)
        .or(errors().next())
        .copied()
}

/// The order-preserving or free method with the smallest average relative error; `uncalibrated` counts as
/// order-preserving.
pub fn best_method(
    comparison: &Comparison,
    metric: Metric,
    order_preserving: bool,
) -> Option<usize> {
    let averages = comparison.average_relative_errors(metric);
    let methods = comparison.methods();
    (0..methods.len())
        .filter(|&place| methods[place].1 == order_preserving)
        .min_by(|&a, &b| averages[a].total_cmp(&averages[b]))
}

/// The verdict: the best order-preserving method, whether all of these kept the predictions, and the best
/// free method with the predictions it changed.
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let mut sentences = Vec::new();
    let metric = deciding_metric(comparison);
    if let Some(metric) = metric
        && let Some(best) = best_method(comparison, metric, true)
    {
        sentences.push(best_in_words(comparison, metric, best));
        sentences.extend(as_good(comparison, metric, best));
    }
    sentences.extend(promise(comparison));
    if let Some(metric) = metric
        && let Some(free) = best_method(comparison, metric, false)
    {
        sentences.push(free_in_words(comparison, metric, free));
    }
    sentences
}

fn best_in_words(comparison: &Comparison, metric: Metric, best: usize) -> String {
    let name = comparison.methods()[best].0;
    let place = match comparison.datasets() {
        [only] => format!("On {}", only.name),
        several => format!("Over {} datasets", several.len()),
    };
    if best == 0 {
        return format!(
            "{place}, no method that keeps every prediction has a better {} than the uncalibrated scores.",
            metric.name()
        );
    }
    let mut sentence = format!(
        "{place}, {name} is the best method that keeps every prediction: {}",
        change(comparison, metric, best)
    );
    if metric != Metric::Ece && comparison.metrics().contains(&Metric::Ece) {
        sentence.push_str(&format!(", {}", change(comparison, Metric::Ece, best)));
    }
    sentence.push_str(if comparison.datasets().len() > 1 {
        " on average."
    } else {
        "."
    });
    sentence
}

/// As in "NLL 14.0% lower".
fn change(comparison: &Comparison, metric: Metric, method: usize) -> String {
    let relative = comparison.average_relative_errors(metric)[method];
    let name = metric.name();
    let percent = 100.0 * (relative - 1.0);
    if !percent.is_finite() {
        format!("{name} not comparable")
    } else if percent.abs() < 0.05 {
        format!("{name} unchanged")
    } else if percent < 0.0 {
        format!("{name} {:.1}% lower", -percent)
    } else {
        format!("{name} {percent:.1}% higher")
    }
}

/// The other order-preserving methods that do not differ significantly from the best.
fn as_good(comparison: &Comparison, metric: Metric, best: usize) -> Option<String> {
    let close = comparison.close_to_best_average(metric);
    let ranks = comparison.average_ranks(metric);
    // The comparison is with the best of all methods; it tells nothing about the second best.
    if ranks[best] != 1 {
        return None;
    }
    let methods = comparison.methods();
    let others: Vec<&str> = (0..methods.len())
        .filter(|&place| place != best && close[place] && methods[place].1)
        .map(|place| methods[place].0)
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "By {}, it does not differ significantly from {} (paired bootstrap, 95%).",
            metric.name(),
            listed(&others)
        )
    })
}

/// Whether the order-preserving methods kept all predictions.
fn promise(comparison: &Comparison) -> Vec<String> {
    let mut broken = Vec::new();
    for dataset in comparison.datasets() {
        for result in dataset.methods.iter().filter(|m| m.order_preserving) {
            if result.changed_predictions > 0 {
                broken.push(format!(
                    "{} changed {} predictions on {} although it is order-preserving: please report this bug.",
                    result.method, result.changed_predictions, dataset.name
                ));
            }
        }
    }
    if broken.is_empty() {
        broken.push("No order-preserving method changed a single prediction.".to_owned());
    }
    broken
}

fn free_in_words(comparison: &Comparison, metric: Metric, free: usize) -> String {
    let (mut changed, mut rows) = (0, 0);
    for dataset in comparison.datasets() {
        changed += dataset.methods[free].changed_predictions;
        rows += dataset.n_test;
    }
    let places = 0..comparison.datasets().len();
    let changes: Option<Vec<f64>> = places
        .map(|d| comparison.accuracy_change(d, free))
        .collect();
    let accuracy = changes.map_or(String::new(), |changes| {
        let mean = changes.iter().sum::<f64>() / changes.len() as f64;
        format!(" (accuracy {:+.2} points)", 100.0 * mean)
    });
    format!(
        "The best free method is {}: {}, but it changed {changed} of {rows} predictions{accuracy}.",
        comparison.methods()[free].0,
        change(comparison, metric, free),
    )
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;

    #[test]
    fn the_verdict_names_the_best_and_what_it_costs() {
        assert_eq!(
            verdict(&small()),
            [
                "Over 2 datasets, ts is the best method that keeps every prediction: ECE 70.0% lower on average.",
                "No order-preserving method changed a single prediction.",
                "The best free method is vs: ECE 5.0% lower, but it changed 24 of 400 predictions (accuracy +0.00 points).",
            ]
        );
    }

    #[test]
    fn a_broken_promise_is_not_hidden() {
        let small = small();
        let mut datasets = small.datasets().to_vec();
        datasets[0].methods[1].changed_predictions = 3;
        let comparison = Comparison::new(small.metrics().to_vec(), datasets).unwrap();
        let text = verdict(&comparison).join("\n");
        assert!(
            text.contains("ts changed 3 predictions on first_set"),
            "{text}"
        );
        assert!(!text.contains("No order-preserving method changed"));
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}
